//! The cost of the project in time and space: cold builds, the binary, and the suite's tests.

mod build;
mod sizes;
mod tests;

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use build::Builds;

/// The limits of the figures.
const LIMITS: &str = "xtask/cost.toml";

/// Upper limits of the measured figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Packages that the binary `weft` is built from, ours included.
    crates: usize,
    /// Size of the installed binary in units of 1,000,000 bytes.
    binary_mb: f64,
    /// CPU seconds of `make demo`'s build from nothing.
    demo_cpu_s: f64,
    /// CPU seconds of the release build from nothing.
    release_cpu_s: f64,
}

impl Limits {
    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("{LIMITS} could not be parsed"))
    }
}

/// Prints the figures of a job; returns `false` if one exceeds its limit.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    match args {
        ["build"] => checked(root, &build::measure(root, None)?),
        ["crates"] => crates(root),
        ["build", "--rev", rev] => {
            print!("{}", build::measure(root, Some(rev))?);
            Ok(true)
        }
        ["sizes"] => sizes::print(&build::profiled(root)?).map(|()| true),
        ["sizes", file] => sizes::print(Path::new(file)).map(|()| true),
        ["tests"] => tests::print(&crate::suite::target_dir(root).join("suite")).map(|()| true),
        _ => bail!("expected `crates`, `build [--rev REV]`, `sizes [FILE]` or `tests`"),
    }
}

/// Checks the number of packages alone, which takes no build.
fn crates(root: &Path) -> Result<bool> {
    let found = build::packages(root)?.len();
    let limit = limits(root)?.crates;
    println!("packages of the binary: {found}, of {limit} that {LIMITS} allows");
    Ok(found <= limit)
}

fn checked(root: &Path, builds: &Builds) -> Result<bool> {
    print!("{builds}");
    let over = exceeded(builds, &limits(root)?);
    over.iter().for_each(|line| println!("cost: {line}"));
    Ok(over.is_empty())
}

fn limits(root: &Path) -> Result<Limits> {
    let text = std::fs::read_to_string(root.join(LIMITS));
    Limits::parse(&text.with_context(|| format!("{LIMITS} could not be read"))?)
}

/// A line for each figure above its limit.
fn exceeded(builds: &Builds, limits: &Limits) -> Vec<String> {
    let figures = [
        ("packages of the binary", count(builds.crates), count(limits.crates)),
        ("MB of the installed binary", builds.release.megabytes(), limits.binary_mb),
        ("CPU seconds of the demo's build", builds.demo.cpu_s, limits.demo_cpu_s),
        ("CPU seconds of the release build", builds.release.cpu_s, limits.release_cpu_s),
    ];
    let over = figures.into_iter().filter(|figure| figure.1 > figure.2);
    let lines = over.map(|figure| {
        let name = figure.0;
        let found = figure.1;
        let limit = figure.2;
        format!("{name}: {found:.1}, and {LIMITS} allows {limit:.1}")
    });
    lines.collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of packages are small")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod test {
    use super::build::{Build, Builds};
    use super::{Limits, exceeded};

    #[test]
    fn figures_above_their_limits_are_named() {
        let build = Build { cpu_s: 10.0, wall_s: 5.0, bytes: 30_000_000 };
        let builds = Builds { crates: 9, demo: build, release: build };
        let text = "crates = 8\nbinary_mb = 40\ndemo_cpu_s = 10\nrelease_cpu_s = 9.5\n";
        let over = exceeded(&builds, &Limits::parse(text).unwrap());
        assert_eq!(over.len(), 2);
        assert!(over[0].starts_with("packages of the binary: 9.0"), "{}", over[0]);
        assert!(over[1].starts_with("CPU seconds of the release build"), "{}", over[1]);
    }
}
