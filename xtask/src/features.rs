//! Checks or builds each crate without its features, and with each feature alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::suite::scrub_cargo;
use crate::tree::Tree;
use crate::workspace::Crates;

/// Extent of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Types and borrows only, of one crate: another one in each run, since each compiles the libraries
    /// of others with features of its own. `WEFT_FEATURES_PART` repeats a run.
    CheckPart,
    /// Types and borrows only.
    Check,
    /// Also generates code, and runs the tests of the binary without its optional parts.
    Build,
}

/// The package with which a selection of packages has the features of the whole workspace.
pub(crate) const SELECTION: &str = "selection";

/// Tests of the binary without its features.
const WITHOUT: &str = "-p weftwork-cli --no-default-features --test it missing_features";

/// Checks or builds every combination and prints one line for each; returns `false` if one fails, or
/// if a test without the features does.
pub(crate) fn run(root: &Path, depth: Depth) -> Result<bool> {
    let tree = Tree::read(root)?;
    let mut builds = builds(&Crates::of(&tree));
    let command = match depth {
        Depth::CheckPart | Depth::Check => "check",
        Depth::Build => "build",
    };
    if depth == Depth::CheckPart {
        let part = std::env::var("WEFT_FEATURES_PART").ok().map(|part| part.parse());
        let part = part.transpose().context("WEFT_FEATURES_PART is no number")?;
        let part = part.unwrap_or_else(std::process::id);
        println!("features: WEFT_FEATURES_PART={part}");
        builds = part_of(builds, part as usize);
    }
    let mut jobs: Vec<_> = builds.into_iter().map(|args| (command, args)).collect();
    if depth == Depth::Build {
        jobs.push(("test", WITHOUT.split(' ').map(str::to_owned).collect()));
    }
    let mut good = is_unified(root)?;
    for (command, args) in jobs {
        let mut cargo = Command::new("cargo");
        scrub_cargo(&mut cargo);
        cargo.current_dir(root).args([command, "--quiet", "--locked"]).args(&args);
        let done = cargo.status().context("cargo could not be started")?.success();
        let result = if done { "ok" } else { "FAILED" };
        println!("features: {command} {} {result}", args.join(" "));
        good &= done;
    }
    Ok(good)
}

/// Compares the features of libraries in builds of [`SELECTION`] with those in builds of the
/// workspace; prints the libraries that differ.
fn is_unified(root: &Path) -> Result<bool> {
    let workspace = resolved(root, &["--workspace"])?;
    let selection = resolved(root, &["-p", SELECTION])?;
    let mut good = true;
    for line in selection.difference(&workspace) {
        println!("features: only in builds of `{SELECTION}`: {line}");
        good = false;
    }
    let result = if good { "ok" } else { "FAILED: see xtask/selection/Cargo.toml" };
    println!("features: those of `{SELECTION}` are those of the workspace {result}");
    Ok(good)
}

/// The libraries of a build of tests, with their features.
fn resolved(root: &Path, packages: &[&str]) -> Result<BTreeSet<String>> {
    let mut cargo = Command::new("cargo");
    scrub_cargo(&mut cargo);
    cargo.current_dir(root).args(["tree", "--locked", "--prefix=none", "--format={p} {f}"]);
    cargo.args(["--edges=normal,build,dev"]).args(packages);
    let output = cargo.output().context("cargo could not be started")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8(output.stdout).context("cargo printed no text")?;
    // A library that was listed before is marked.
    Ok(text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

/// The builds of one crate.
fn part_of(builds: Vec<Vec<String>>, part: usize) -> Vec<Vec<String>> {
    let package = |args: &[String]| args[1].clone();
    let packages: BTreeSet<String> = builds.iter().map(|args| package(args)).collect();
    let chosen = packages.iter().nth(part % packages.len().max(1)).cloned();
    builds.into_iter().filter(|args| Some(package(args)) == chosen).collect()
}

/// The cargo arguments of each build. Crates without features are built by every other stage.
fn builds(crates: &Crates) -> Vec<Vec<String>> {
    let mut builds = Vec::new();
    for one in &crates.all {
        let features = one.features();
        let alone = |feature: Option<&str>| {
            let mut args = vec!["-p".to_owned(), one.expected_package()];
            args.push("--no-default-features".to_owned());
            args.extend(feature.map(|feature| format!("--features={feature}")));
            args
        };
        if !features.is_empty() {
            builds.push(alone(None));
            builds.extend(features.into_iter().map(|feature| alone(Some(feature))));
        }
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::{builds, part_of};
    use crate::tree::fixture::Fixture;
    use crate::workspace::Crates;

    #[test]
    fn builds_without_features_and_with_each_alone() {
        let text = "-- crates/a/Cargo.toml --\n[features]\ndefault = [\"x\"]\nx = []\ny = []\n\
                    -- crates/b/Cargo.toml --\n[package]\nname = \"weftwork-b\"\n";
        let tree = Fixture::default().overlay(text).tree;
        let found: Vec<String> =
            builds(&Crates::of(&tree)).into_iter().map(|args| args.join(" ")).collect();
        let expected = [
            "-p weftwork-a --no-default-features",
            "-p weftwork-a --no-default-features --features=x",
            "-p weftwork-a --no-default-features --features=y",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_crate_is_a_part() {
        let args = |package: &str, more: &str| ["-p", package, more].map(str::to_owned).to_vec();
        let all = vec![args("b", "1"), args("a", "1"), args("b", "2")];
        assert_eq!(part_of(all.clone(), 2), [args("a", "1")]);
        assert_eq!(part_of(all.clone(), 1), [args("b", "1"), args("b", "2")]);
        assert!(part_of(Vec::new(), 1).is_empty());
    }
}
