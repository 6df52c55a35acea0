//! Tests that the documents match the program.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

#[test]
fn the_readme_shows_the_examples_as_they_are() {
    let readme = read("README.md");
    let shown = readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = [("examples/first_agent.rs", 40), ("examples/own_graph.rs", 60)];
    let examples = examples.map(|(path, lines_max)| {
        let example = read(path);
        assert!(example.lines().count() <= lines_max, "{path} is too long to be read in passing");
        // The README omits the line that permits `println!` in this repository.
        example.replace(
            "#![expect(clippy::print_stdout, reason = \"an example talks to its reader\")]\n\n",
            "",
        )
    });
    assert_eq!(shown.collect::<Vec<_>>(), examples);
}

#[test]
fn the_commands_of_the_guides_run() {
    commands_run("docs/guide/running.md");
    commands_run("docs/guide/models.md");
    commands_run("docs/guide/definitions.md");
}

/// Runs the blocks of a guide in one home.
fn commands_run(path: &str) {
    let guide = read(path);
    let blocks = guide.split("```sh run\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.collect();
    assert!(!blocks.is_empty(), "{path}");
    let home = crate::home::Home::new();
    let folder = Path::new(crate::home::PROGRAM).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let home = home.set("PATH", &path);
    for block in blocks {
        let args = ["-euo", "pipefail", "-c", block];
        let came = home.program(Path::new("bash"), &args).output().expect("bash starts");
        assert!(came.status.success(), "{block}\n{came:?}");
    }
}

#[test]
fn the_exit_statuses_are_those_of_the_help() {
    let help = crate::home::Home::new().weft(&["--help"]).out;
    let table = help.split("Exit status:\n").nth(1).expect("a table");
    let page = read("docs/cli.md");
    for line in table.lines() {
        let (status, meaning) = line.trim().split_once(' ').expect("two columns");
        let row = format!("| {status} | {} |", meaning.trim());
        assert!(page.contains(&row), "docs/cli.md lacks: {row}");
    }
}

#[test]
fn every_code_of_the_command_line_has_its_page() {
    for code in [
        "W0701", "W0702", "W0703", "W0704", "W0705", "W0706", "W0707", "W0708", "W0709", "W0710",
        "W0711", "W0712", "W0713", "W0714", "W0715", "W0716", "W0717", "W0718", "W0719",
    ] {
        let came = crate::home::Home::new().weft(&["explain", code]);
        assert!(came.out.starts_with(&format!("{code}: ")), "{came:?}");
    }
}

#[test]
fn the_schema_of_events_is_printed_as_committed() {
    let home = crate::home::Home::new();
    for (args, file) in [
        (&["schema", "events"][..], "crates/types/schemas/events.json"),
        (&["schema", "events", "--typescript"], "crates/types/schemas/events.ts"),
    ] {
        let came = home.weft(args);
        assert_eq!(came.out, read(file), "{file}");
    }
}
