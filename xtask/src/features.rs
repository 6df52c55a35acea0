//! Builds each crate without its features, and with each feature alone; runs the tests of the binary
//! without its optional parts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::suite::scrub_cargo;
use crate::tree::Tree;
use crate::workspace::Crates;

/// Tests of the binary without its features.
const WITHOUT: &str = "-p weftwork-cli --no-default-features --test it missing_features";

/// Checks every combination and prints one line for each; returns `false` if one does not build, or
/// if a test without the features fails.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let builds = builds(&Crates::of(&tree));
    let mut jobs: Vec<_> = builds.into_iter().map(|args| ("check", args)).collect();
    jobs.push(("test", WITHOUT.split(' ').map(str::to_owned).collect()));
    let mut good = true;
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
    use super::builds;
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
}
