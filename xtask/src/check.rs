//! Checks before a commit: format, rules and lints, and the tests of the crates that changed. Of the
//! crates that use them all targets are linted, and the tests of laws run.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::features::SELECTION;
use crate::suite::scrub_cargo;
use crate::tidy;
use crate::tree::{Tree, git};
use crate::workspace::{Crates, Kind, package_of};

/// Files that concern every crate.
const ALL: [&str; 4] = ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml"];
/// Tests that show whether what uses a crate still works, by crate.
const LAWS: [(&str, &str); 2] =
    [("conformance", "test(/^(kit|typed|weft)::/)"), ("store-conformance", "all()")];
/// Crates with commands of `weft`, which are tested as processes of the binary.
const COMMANDS: [&str; 3] = ["cli-base", "cli-serve", "cli-store"];
/// The tests of the binary, by crate.
const PROCESSES: (&str, &str) = ("cli", "binary(it)");

pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let since = match args {
        [] => base(root),
        ["--since", reference] => (*reference).to_owned(),
        _ => bail!("expected `check` or `check --since REF`, found `{}`", args.join(" ")),
    };
    let tree = Tree::read(root)?;
    let crates = Crates::of(&tree);
    let files = changed_files(root, &since)?;
    let scope = Scope::of(&tree, &crates, &files);
    println!("check: {} files changed since {since}", files.len());
    println!("check: changed crates: {}", listed(&scope.changed));
    println!("check: crates that use them: {}", listed(&scope.users));
    let mut steps = vec![("format", cargo(root, &["fmt", "--all", "--check"]))];
    if !scope.is_empty() {
        steps.push(("lints", scope.lints(root, &crates)));
        steps.push(("tests", scope.tests(root, &crates)));
        println!("check: of other crates, only these tests run: {}", scope.laws_text());
    }
    // The rules keep one core busy while the other ones format and lint.
    let good = std::thread::scope(|scope| {
        let rules = scope.spawn(|| timed("rules", || tidy::run(root)));
        let mut good = true;
        for (name, mut command) in steps {
            good &= timed(name, || {
                let status =
                    command.status().with_context(|| format!("{command:?} did not start"))?;
                Ok(status.success())
            })?;
        }
        let rules = rules.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        anyhow::Ok(good & rules?)
    })?;
    println!("check: `make test` runs everything");
    Ok(good)
}

/// Performs a step; prints its result and its seconds.
fn timed(name: &str, step: impl FnOnce() -> Result<bool>) -> Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "the step takes real seconds")]
    let start = Instant::now();
    let good = step()?;
    let result = if good { "ok" } else { "FAILED" };
    println!("check: {name}: {result} in {:.1} s", start.elapsed().as_secs_f64());
    Ok(good)
}

/// The commit at which this branch left the main one; the newest commit if it is the main one.
fn base(root: &Path) -> String {
    let found = git(root, &["merge-base", "HEAD", "main"]);
    found.map_or_else(|_| "HEAD".to_owned(), |commit| commit.trim().to_owned())
}

/// Files that differ from a commit, and new ones.
fn changed_files(root: &Path, since: &str) -> Result<BTreeSet<String>> {
    let changed = git(root, &["diff", "--name-only", "-z", since, "--"])?;
    let new = git(root, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    let files = changed.split('\0').chain(new.split('\0'));
    Ok(files.filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    scrub_cargo(&mut cargo);
    cargo.current_dir(root).args(args);
    cargo
}

/// The crates that a change concerns, by the names of their folders.
#[derive(Debug, PartialEq, Eq)]
struct Scope {
    changed: BTreeSet<String>,
    /// Crates that use changed ones, directly or not, in their code or in their tests.
    users: BTreeSet<String>,
}

impl Scope {
    fn of(tree: &Tree, crates: &Crates, files: &BTreeSet<String>) -> Self {
        let mut changed = BTreeSet::new();
        for file in files {
            if ALL.contains(&file.as_str()) {
                changed.extend(crates.all.iter().map(|one| one.name.clone()));
            }
            let owners = package_of(file).map(str::to_owned).into_iter();
            changed.extend(owners.chain(including(tree, file)));
        }
        let known = |name: &String| name == "xtask" || crates.all.iter().any(|c| c.name == *name);
        changed.retain(known);
        let users = users(crates, &changed);
        Self { changed, users }
    }

    fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    fn lints(&self, root: &Path, crates: &Crates) -> Command {
        let mut command = cargo(root, &["clippy", "--quiet", "--locked", "--all-targets"]);
        command.args(packages(crates, &(&self.changed | &self.users)));
        command.args(["--", "-D", "warnings"]);
        command
    }

    fn tests(&self, root: &Path, crates: &Crates) -> Command {
        let mut command = Command::new("scripts/postgres.sh");
        scrub_cargo(&mut command);
        command.current_dir(root).args(["with", "cargo", "nextest", "run", "--locked"]);
        command.args(["--profile", "check", "--cargo-quiet"]);
        let laws = self.laws().map(|(name, _)| name.to_owned());
        command.args(packages(crates, &self.changed.iter().cloned().chain(laws).collect()));
        command.args(["-E", &self.filter(crates)]);
        command
    }

    /// The laws that users of the changed crates must keep, and the tests of changed commands.
    fn laws(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let laws = LAWS.into_iter().filter(|(name, _)| self.users.contains(*name));
        let has_commands = COMMANDS.iter().any(|name| self.changed.contains(*name));
        let is_whole = self.changed.contains(PROCESSES.0);
        laws.chain((has_commands && !is_whole).then_some(PROCESSES))
    }

    fn laws_text(&self) -> String {
        let laws: Vec<String> = self.laws().map(|(name, test)| format!("{name} {test}")).collect();
        if laws.is_empty() { "none".to_owned() } else { laws.join(", ") }
    }

    /// All tests of the changed crates, and the laws.
    fn filter(&self, crates: &Crates) -> String {
        let changed = self.changed.iter().map(|name| format!("package({})", package(crates, name)));
        let laws = self
            .laws()
            .map(|(name, test)| format!("(package({}) & {test})", package(crates, name)));
        changed.chain(laws).collect::<Vec<_>>().join(" | ")
    }
}

/// Crates of which a manifest or a source includes a file by a path, such as an example.
fn including(tree: &Tree, file: &str) -> BTreeSet<String> {
    if package_of(file).is_some() {
        return BTreeSet::new();
    }
    let folders = file.match_indices('/').map(|(end, _)| &file[..end]);
    let mut named: Vec<String> = folders.map(|folder| format!("../{folder}/main.rs\"")).collect();
    named.push(format!("../{file}\""));
    let includes = |text: &str| named.iter().any(|named| text.contains(named));
    tree.files()
        .filter(|(path, text)| {
            (path.ends_with(".rs") || path.ends_with("Cargo.toml")) && includes(text)
        })
        .filter_map(|(path, _)| package_of(path).map(str::to_owned))
        .collect()
}

/// Crates that use one of the named, directly or not.
fn users(crates: &Crates, names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = names.clone();
    loop {
        let uses = |kind, name: &str| {
            crates.all.iter().any(|one| one.name == name && !one.ours(kind).is_disjoint(&found))
        };
        let more: Vec<String> = crates
            .all
            .iter()
            .map(|one| one.name.clone())
            .filter(|name| !found.contains(name))
            .filter(|name| uses(Kind::Normal, name) || uses(Kind::Dev, name))
            .collect();
        if more.is_empty() {
            return &found - names;
        }
        found.extend(more);
    }
}

fn package(crates: &Crates, name: &str) -> String {
    let found = crates.all.iter().find(|one| one.name == name);
    found.map_or_else(|| name.to_owned(), |one| one.expected_package())
}

/// Arguments that select packages, with the features of a build of the workspace.
fn packages(crates: &Crates, names: &BTreeSet<String>) -> Vec<String> {
    let names = names.iter().map(|name| package(crates, name));
    let all = std::iter::once(SELECTION.to_owned()).chain(names);
    all.flat_map(|name| ["-p".to_owned(), name]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Scope;
    use crate::tree::fixture::Fixture;
    use crate::workspace::Crates;

    const TREE: &str = r#"
-- crates/engine/Cargo.toml --
[package]
name = "weftwork-engine"
-- crates/graph/Cargo.toml --
[package]
name = "weftwork-graph"
[dependencies]
weftwork-engine.workspace = true
-- crates/conformance/Cargo.toml --
[package]
name = "weftwork-conformance"
[dependencies]
weftwork-graph.workspace = true
-- crates/weftwork/Cargo.toml --
[package]
name = "weftwork"
[dev-dependencies]
weftwork-graph.workspace = true
[[example]]
path = "../../examples/first.rs"
[[example]]
path = "../../examples/server/main.rs"
-- crates/cli/Cargo.toml --
[package]
name = "weftwork-cli"
[dependencies]
weftwork-cli-store.workspace = true
-- crates/cli-store/Cargo.toml --
[package]
name = "weftwork-cli-store"
[dependencies]
weftwork.workspace = true
-- crates/egress/Cargo.toml --
[package]
name = "weftwork-egress"
"#;

    fn scope_of(files: &[&str]) -> Scope {
        let tree = Fixture::default().overlay(TREE).tree;
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        Scope::of(&tree, &Crates::of(&tree), &files)
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_change_concerns_its_crate_and_all_that_use_it() {
        let scope = scope_of(&["crates/graph/src/lib.rs", "README.md"]);
        assert_eq!(scope.changed, names(&["graph"]));
        assert_eq!(scope.users, names(&["cli", "cli-store", "conformance", "weftwork"]));
        let crates = Crates::of(&Fixture::default().overlay(TREE).tree);
        let expected = "package(weftwork-graph) | \
                        (package(weftwork-conformance) & test(/^(kit|typed|weft)::/))";
        assert_eq!(scope.filter(&crates), expected);
    }

    #[test]
    fn a_command_is_tested_by_the_binary() {
        let crates = Crates::of(&Fixture::default().overlay(TREE).tree);
        let expected = "package(weftwork-cli-store) | (package(weftwork-cli) & binary(it))";
        assert_eq!(scope_of(&["crates/cli-store/src/lib.rs"]).filter(&crates), expected);
        let both = scope_of(&["crates/cli-store/src/lib.rs", "crates/cli/src/lib.rs"]);
        assert_eq!(both.filter(&crates), "package(weftwork-cli) | package(weftwork-cli-store)");
    }

    #[test]
    fn files_outside_concern_the_crates_that_include_them() {
        assert_eq!(scope_of(&["examples/first.rs"]).changed, names(&["weftwork"]));
        assert_eq!(scope_of(&["examples/server/routes.rs"]).changed, names(&["weftwork"]));
        assert!(scope_of(&["docs/cli.md", "crates/gone/src/lib.rs"]).is_empty());
    }

    #[test]
    fn the_manifest_of_the_workspace_concerns_all() {
        let scope = scope_of(&["Cargo.lock"]);
        assert_eq!(scope.changed.len(), 7);
        assert!(scope.users.is_empty());
    }
}
