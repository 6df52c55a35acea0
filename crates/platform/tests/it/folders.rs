//! Folders of definitions.

use std::path::Path;
use weftwork_platform::{Definitions, ProblemKind, read_definitions, read_folder};

fn write(root: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn read(root: &Path) -> Definitions {
    read_definitions(root).expect("the folder is read")
}

fn texts(read: &Definitions) -> Vec<String> {
    read.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn files_beside_a_definition_are_parts_of_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    write(root, "golf-rules/agent.yaml", "type: context\n");
    write(root, "golf-rules/context.md", "# Golf rules\n");
    write(root, "sum/agent.yaml", "type: function\n");
    write(root, "sum/function.js", "async function handler(input) { return 1 }\n");
    write(root, "notes/README.md", "no definition\n");
    let found = read(root);
    assert_eq!(texts(&found), Vec::<String>::new());
    let slugs: Vec<_> = found.sound.iter().map(|folder| folder.slug.as_str()).collect();
    assert_eq!(slugs, ["golf-rules", "sum"]);
    assert_eq!(found.sound[0].definition.context.as_deref(), Some("# Golf rules\n"));
    let code = found.sound[1].definition.function_code.as_deref();
    assert!(code.is_some_and(|code| code.contains("handler")));
    // The hash is that of what the definition says, and not of how it is written.
    let before = found.sound[0].hash;
    write(root, "golf-rules/agent.yaml", "# a comment\nagent_card: {}\ntype: context # the same\n");
    assert_eq!(read_folder(&root.join("golf-rules")).expect("sound").hash, before);
    write(root, "golf-rules/context.md", "# Rules of golf\n");
    assert_ne!(read_folder(&root.join("golf-rules")).expect("sound").hash, before);
}

#[test]
fn problems_name_the_file_and_leave_other_definitions_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    write(root, "a/agent.yaml", "type: context\ncontext: here\n");
    write(root, "a/context.md", "and there\n");
    write(root, "b/agent.yaml", b"type: context\ncontext: \xff\n");
    write(root, "c/agent.yaml", "type: contxt\n");
    write(root, "d/agent.yaml", "type: context\n");
    write(root, "Not_A_Slug/agent.yaml", "type: context\n");
    write(root, "named/agent.yaml", "type: context\nslug: d\n");
    std::fs::create_dir_all(root.join("folder/agent.yaml")).expect("made");
    write(root, "large/agent.yaml", "type: context\n");
    write(root, "large/context.md", "a".repeat((1 << 20) + 1));
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, root.join(at)).expect("linked");
    write(root, "secret", "CANARY");
    write(root, "leaves/..data/agent.yaml", "type: context\n");
    link("../secret", "leaves/agent.yaml");
    write(root, "mounted/..data/agent.yaml", "type: context\n");
    link("..data/agent.yaml", "mounted/agent.yaml");
    // Opening a pipe waits for its writer.
    std::fs::create_dir_all(root.join("pipe")).expect("made");
    write(root, "piped/agent.yaml", "type: context\n");
    for path in ["pipe/agent.yaml", "piped/context.md"] {
        let path = root.join(path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("runs");
        assert!(made.success());
    }
    let found = read(root);
    let slugs: Vec<_> = found.sound.iter().map(|folder| folder.slug.as_str()).collect();
    assert_eq!(slugs, ["d", "mounted"]);
    assert!(!texts(&found).join("\n").contains("CANARY"));
    insta::assert_snapshot!(texts(&found).join("\n"));
}

#[test]
fn the_agents_that_one_asks_are_there_and_do_not_ask_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    let asks =
        |slugs: &str| format!("type: context\norchestration:\n  availableAgents: [{slugs}]\n");
    write(root, "a/agent.yaml", asks("b, c"));
    write(root, "b/agent.yaml", asks("c"));
    write(root, "c/agent.yaml", "type: context\n");
    assert_eq!(texts(&read(root)), Vec::<String>::new(), "two ways to one agent are no circle");
    write(root, "c/agent.yaml", asks("a"));
    write(root, "d/agent.yaml", "type: context\nsubAgentSlug: d\n");
    write(root, "e/agent.yaml", asks("golf-rule"));
    write(root, "golf-rules/agent.yaml", "type: context\n");
    insta::assert_snapshot!(texts(&read(root)).join("\n"));
    // Each organisation has its own agents, and those of all.
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    let of = |organization: &str| format!("type: context\norganization: {organization}\n");
    write(root, "shared/agent.yaml", "type: context\n");
    write(root, "acme/agent.yaml", format!("{}slug: x\nsubAgentSlug: shared\n", of("acme")));
    write(root, "other/agent.yaml", format!("{}slug: x\n", of("other")));
    write(root, "reaches/agent.yaml", format!("{}subAgentSlug: y\n", of("other")));
    write(root, "y/agent.yaml", of("acme"));
    let found = read(root);
    let kinds: Vec<_> = found.problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, [ProblemKind::UnknownAgent], "{:?}", texts(&found));
}

#[test]
fn requests_of_steps_fit_their_agents() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    write(root, "adder/agent.yaml", "type: tool\ntools: [math/add]\n");
    let strict = "type: context\ninput_schema: {type: object, required: [n], additionalProperties: false, properties: {n: {type: integer, maximum: 9}}}\n";
    write(root, "strict/agent.yaml", strict);
    let nested = |next: &str| {
        format!(
            "type: context\norchestration: {{steps: [{{id: a, agent: {next}, payload: {{orchestrate: true}}}}]}}\n"
        )
    };
    write(root, "one/agent.yaml", nested("two"));
    write(root, "two/agent.yaml", nested("three"));
    write(root, "three/agent.yaml", nested("adder"));
    let boss = r#"type: context
orchestration:
  steps:
    - {id: a, agent: adder, payload: {tool: math/add}}
    - id: b
      agent: adder
      payload:
        tool: math/ad # !
    - id: c
      agent: adder
      payload: {arguments: [1]} # !
    - {id: d, agent: strict, input: {n: 1}}
    - {id: e, agent: strict, input: {n: "{{steps.a.content}}"}}
    - {id: f, agent: strict, input: "{{input}}"}
    - id: g
      agent: strict
      input:
        n: ten # !
    - id: h
      agent: strict
      input: {n: 1, m: "{{message}}"} # !
    - {id: i, agent: two}
    - id: j
      agent: one
      payload:
        orchestrate: true # !
    - {id: k, agent: two, payload: {orchestrate: true}}
"#;
    write(root, "boss/agent.yaml", boss);
    let marked = boss.lines().zip(1..).filter(|(line, _)| line.ends_with("# !"));
    let marked: Vec<u64> = marked.map(|(_, number)| number).collect();
    let found = read(root);
    let lines = found.problems.iter().filter(|problem| problem.file == "boss/agent.yaml");
    let lines: Vec<u64> = lines.map(|problem| problem.location.line).collect();
    assert_eq!(lines, marked, "{:#?}", texts(&found));
    insta::assert_snapshot!(texts(&found).join("\n"));
}

#[test]
fn a_long_chain_and_a_thousand_definitions_are_read_in_bounded_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    for number in 0..1_000 {
        let next = (number + 1) % 1_000;
        let text = format!("type: context\ncontext: Number {number}\nsubAgentSlug: n{next}\n");
        write(root, &format!("n{number}/agent.yaml"), text);
    }
    let found = read(root);
    assert_eq!(found.sound.len(), 999);
    let kinds: Vec<_> = found.problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, [ProblemKind::Cycle]);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let problem = read_definitions(Path::new("no/such/folder")).expect_err("is not there");
    assert_eq!(problem.kind, ProblemKind::Unreadable);
    assert!(problem.to_string().starts_with("no/such/folder:1:1: W1001"), "{problem}");
}

/// A folder that is added does not take over the name of another one.
#[test]
fn the_folder_with_the_name_of_the_slug_keeps_it() {
    for thief in ["aaa", "zzz"] {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), "writer/agent.yaml", "type: context\ncontext: Own.\n");
        write(dir.path(), &format!("{thief}/agent.yaml"), "type: context\nslug: writer\n");
        let found = read(dir.path());
        assert_eq!(found.sound.len(), 1);
        assert_eq!(found.sound[0].definition.context.as_deref(), Some("Own."));
        assert_eq!(found.problems[0].file, format!("{thief}/agent.yaml"));
    }
}

/// A misspelt confirmation would leave the call without one.
#[test]
fn what_is_confirmed_is_one_of_the_tools() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "type: tool\ntools: [db/write]\nrequires_confirmation: [db/wriet]\n";
    write(dir.path(), "db/agent.yaml", text);
    let problems = texts(&read(dir.path()));
    assert!(problems[0].contains("expected one of `tools`"), "{problems:?}");
}
