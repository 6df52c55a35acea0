//! Builds each crate without its features, and with each feature alone.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::suite::scrub_cargo;
use crate::tree::Tree;
use crate::workspace::Crates;

/// Checks every combination and prints one line for each; returns `false` if one does not build.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let mut failed = Vec::new();
    for args in builds(&Crates::of(&tree)) {
        let mut cargo = Command::new("cargo");
        scrub_cargo(&mut cargo);
        cargo.current_dir(root).args(["check", "--quiet", "--locked"]).args(&args);
        let status = cargo.status().context("cargo could not be started")?;
        println!("features: {} {}", args.join(" "), if status.success() { "ok" } else { "FAILED" });
        if !status.success() {
            failed.push(args);
        }
    }
    Ok(failed.is_empty())
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
