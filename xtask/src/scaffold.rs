//! `cargo xtask new`: creates the files of an addition and prints the remaining steps.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::PREFIX;

const ADRS: &str = "docs/adr";
const ADR_TEMPLATE: &str = "docs/adr/0000-template.md";
const HOUSE: &str = "Cargo.toml";

/// Creates the files that the arguments name.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    match args {
        ["error", code, title @ ..] if !title.is_empty() => error(root, code, &title.join(" "))?,
        ["adr", title @ ..] if !title.is_empty() => adr(root, &title.join(" "))?,
        ["crate", name, about @ ..] if !about.is_empty() => package(root, name, &about.join(" "))?,
        _ => bail!("expected `new error CODE TITLE`, `new adr TITLE` or `new crate NAME ABOUT`"),
    }
    Ok(true)
}

fn error(root: &Path, code: &str, title: &str) -> Result<()> {
    let of_part = code.strip_prefix("W0").or_else(|| code.strip_prefix("W1"));
    let digits = of_part.unwrap_or_default();
    let good = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(
        good,
        "`{code}` is not an error code; expected W0 or W1 and three digits, such as W0203"
    );
    let page = format!(
        "# {code}: {title}\n\n## What happened\n\nSay what the program found, in the user's words.\n\n\
         ## Why\n\nSay what leads to it, the likeliest cause first.\n\n\
         ## What to do\n\nSay which command or setting puts it right.\n"
    );
    create(root, &format!("docs/errors/{code}.md"), &page)?;
    println!("now fill in the page, give a variant the code, and write the test that shows it");
    Ok(())
}

fn adr(root: &Path, title: &str) -> Result<()> {
    let template = std::fs::read_to_string(root.join(ADR_TEMPLATE))
        .with_context(|| format!("{ADR_TEMPLATE} could not be read"))?;
    let mut last = 0_u32;
    for entry in std::fs::read_dir(root.join(ADRS))? {
        let name = entry?.file_name();
        let number = name.to_string_lossy().split('-').next().and_then(|part| part.parse().ok());
        last = last.max(number.unwrap_or_default());
    }
    let number = format!("{:04}", last + 1);
    let body = template.lines().skip(1).collect::<Vec<_>>().join("\n");
    let text = format!("# {number}: {title}\n{body}\n");
    create(root, &format!("{ADRS}/{number}-{}.md", slug(title)), &text)
}

/// Converts a title to lower-case words separated by dashes.
fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn package(root: &Path, name: &str, about: &str) -> Result<()> {
    let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    ensure!(good, "`{name}` is not a crate name; expected lower case letters");
    let folder = format!("crates/{name}");
    ensure!(!root.join(&folder).exists(), "{folder} exists already");
    let package = format!("{PREFIX}-{name}");
    let house = std::fs::read_to_string(root.join(HOUSE)).context("no Cargo.toml at the root")?;
    let house = with_dependency(&house, &package, &folder)?;
    let manifest = format!(
        "[package]\nname = \"{package}\"\ndescription = \"{about}\"\nversion.workspace = true\n\
         edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
         repository.workspace = true\npublish.workspace = true\n\n[dependencies]\n\n\
         [lints]\nworkspace = true\n"
    );
    create(root, &format!("{folder}/Cargo.toml"), &manifest)?;
    create(root, &format!("{folder}/src/lib.rs"), &format!("//! {about}\n"))?;
    let test = format!(
        "//! Tests of `{package}` from outside.\n\n#[test]\nfn does_its_first_thing() {{\n    \
         panic!(\"a crate is born with its first test: write it here\");\n}}\n"
    );
    create(root, &format!("{folder}/tests/it/main.rs"), &test)?;
    std::fs::write(root.join(HOUSE), house).context("Cargo.toml could not be written")?;
    println!(
        "now give `{name}` a row in xtask/arrows.md, an ADR for its arrow, and its first test"
    );
    Ok(())
}

/// Adds the package to the root manifest, after the last of our packages.
fn with_dependency(house: &str, package: &str, folder: &str) -> Result<String> {
    let line = format!("{package} = {{ path = \"{folder}\" }}");
    let lines: Vec<&str> = house.lines().collect();
    let ours = format!("{PREFIX}-");
    let last = lines.iter().rposition(|line| line.starts_with(&ours) && line.contains("path"));
    let last = last.context("Cargo.toml lists none of our crates in [workspace.dependencies]")?;
    let (before, after) = lines.split_at(last + 1);
    Ok([before, &[line.as_str()], after].concat().join("\n") + "\n")
}

fn create(root: &Path, path: &str, text: &str) -> Result<()> {
    let full = root.join(path);
    ensure!(!full.exists(), "{path} exists already");
    if let Some(folder) = full.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&full, text).with_context(|| format!("{path} could not be written"))?;
    println!("made {path}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::run;
    use crate::tidy::House;
    use crate::tree::fixture::Fixture;

    fn house() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("docs/adr")).unwrap();
        std::fs::write(
            dir.path().join("docs/adr/0000-template.md"),
            "# 0000: Title\n\n## Forces\n",
        )
        .unwrap();
        let manifest = "[workspace.dependencies]\nweftwork-types = { path = \"crates/types\" }\n\nserde = \"1\"\n";
        std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        dir
    }

    fn text(root: &Path, path: &str) -> String {
        std::fs::read_to_string(root.join(path)).unwrap()
    }

    #[test]
    fn an_error_page_has_the_sections_that_tidy_wants() {
        let dir = house();
        run(dir.path(), &["error", "W0203", "database", "locked"]).unwrap();
        let page = text(dir.path(), "docs/errors/W0203.md");
        assert!(page.starts_with("# W0203: database locked\n\n## What happened\n"));
        assert!(run(dir.path(), &["error", "W0203", "again"]).is_err());
        assert!(run(dir.path(), &["error", "X1", "bad"]).is_err());
    }

    #[test]
    fn records_are_numbered_on() {
        let dir = house();
        run(dir.path(), &["adr", "One row", "per step!"]).unwrap();
        let path = "docs/adr/0001-one-row-per-step.md";
        assert_eq!(text(dir.path(), path), "# 0001: One row per step!\n\n## Forces\n");
        run(dir.path(), &["adr", "Next"]).unwrap();
        assert!(dir.path().join("docs/adr/0002-next.md").exists());
    }

    #[test]
    fn a_crate_comes_with_manifest_library_and_failing_test() {
        let dir = house();
        run(dir.path(), &["crate", "bus", "Work and events between processes."]).unwrap();
        let manifest = text(dir.path(), "crates/bus/Cargo.toml");
        let house = text(dir.path(), "Cargo.toml");
        assert!(
            house.contains("crates/types\" }\nweftwork-bus = { path = \"crates/bus\" }\n\nserde")
        );
        assert!(text(dir.path(), "crates/bus/tests/it/main.rs").contains("panic!"));
        let tree = format!("-- crates/bus/Cargo.toml --\n{manifest}");
        let tree = Fixture::default().overlay(&tree).tree;
        assert_eq!(crate::tidy::manifest_offences(&House::of(&tree)), []);
        assert!(run(dir.path(), &["crate", "bus", "again"]).is_err());
        assert!(run(dir.path(), &["crate", "Bad-Name", "x"]).is_err());
    }
}
