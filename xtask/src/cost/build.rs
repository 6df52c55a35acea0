//! Cold builds of the binary in a folder of their own, with their CPU and wall time.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::figures::columns;
use crate::suite::{now, scrub_cargo, target_dir};

/// Clock ticks a second in `/proc`; a constant of Linux's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// A build from nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Build {
    /// CPU time of all processes of the build, in seconds.
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
    /// Size of the binary.
    pub(super) bytes: u64,
}

impl Build {
    #[expect(clippy::cast_precision_loss, reason = "a size to show, with one decimal")]
    pub(super) fn megabytes(self) -> f64 {
        self.bytes as f64 / 1e6
    }
}

/// The builds of a version.
#[derive(Debug)]
pub(super) struct Builds {
    /// Packages that the binary is built from, ours included.
    pub(super) crates: usize,
    /// The build of `make demo`.
    pub(super) demo: Build,
    /// The build of `cargo install`.
    pub(super) release: Build,
}

impl fmt::Display for Builds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |name: &str, build: Build| {
            let figures = [build.cpu_s, build.wall_s, build.megabytes()];
            let cells = figures.iter().map(|figure| format!("{figure:.1}"));
            std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
        };
        let head = ["build from nothing", "CPU s", "wall s", "binary MB"].map(str::to_owned);
        let rows = [head.to_vec(), row("demo", self.demo), row("release", self.release)];
        writeln!(f, "{}packages of the binary: {}", columns(&rows), self.crates)
    }
}

/// Builds this tree, or a revision of it, from nothing, for the demo and for installation. Takes
/// several minutes and gives meaningful wall times only on a machine without other work.
pub(super) fn measure(root: &Path, rev: Option<&str>) -> Result<Builds> {
    let dir = target_dir(root).join("cost");
    let source = match rev {
        Some(rev) => checkout(root, rev, &dir.join("source"))?,
        None => root.to_owned(),
    };
    fetch(&source)?;
    Ok(Builds {
        crates: packages(&source)?.len(),
        demo: cold(&source, &dir, &[])?,
        release: cold(&source, &dir, &["--release"])?,
    })
}

/// Builds the binary in the profile `profiling`, the release profile with symbols.
pub(super) fn profiled(root: &Path) -> Result<PathBuf> {
    let mut cargo = weft(root, &["--profile", "profiling"]);
    ensure!(cargo.status().context("cargo could not be started")?.success(), "the build failed");
    Ok(target_dir(root).join("profiling/weft"))
}

/// The names and versions of the packages that the binary is built from, on this machine.
pub(super) fn packages(root: &Path) -> Result<BTreeSet<String>> {
    let mut cargo = Command::new("cargo");
    scrub_cargo(&mut cargo);
    cargo.args(["tree", "--locked", "--package", "weftwork-cli", "--edges", "normal,build"]);
    cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(root);
    let done = cargo.output().context("cargo could not be started")?;
    ensure!(done.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout);
    // A line is `name v1.2.3`, for some packages followed by remarks.
    let names = text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
    Ok(names.filter(|name| !name.is_empty()).collect())
}

/// Writes the files of a revision into `folder` and returns it.
fn checkout(root: &Path, rev: &str, folder: &Path) -> Result<PathBuf> {
    remove(folder)?;
    std::fs::create_dir_all(folder).context("the folder for the revision could not be made")?;
    let script = "git archive --format=tar \"$1\" | tar -x -C \"$2\"";
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script, "checkout", rev]).arg(folder).current_dir(root);
    ensure!(bash.status().context("bash could not be started")?.success(), "no revision `{rev}`");
    Ok(folder.to_owned())
}

fn fetch(source: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    scrub_cargo(&mut cargo);
    let done = cargo.args(["fetch", "--locked", "--quiet"]).current_dir(source).status();
    ensure!(done.context("cargo could not be started")?.success(), "cargo fetch failed");
    Ok(())
}

fn cold(source: &Path, dir: &Path, flags: &[&str]) -> Result<Build> {
    let target = dir.join("target");
    remove(&target)?;
    let mut cargo = weft(source, flags);
    cargo.arg("--timings").env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
    let before = children_cpu_s()?;
    let start = now();
    let done = cargo.status().context("cargo could not be started")?.success();
    let wall_s = start.elapsed().as_secs_f64();
    ensure!(done, "the build of {} failed", source.display());
    let profile = if flags.is_empty() { "debug" } else { "release" };
    let bytes = std::fs::metadata(target.join(profile).join("weft"))?.len();
    let timings = dir.join(format!("timings-{profile}.html"));
    std::fs::copy(target.join("cargo-timings/cargo-timing.html"), &timings)?;
    println!("times of each package: {}", timings.display());
    Ok(Build { cpu_s: children_cpu_s()? - before, wall_s, bytes })
}

fn weft(source: &Path, flags: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    scrub_cargo(&mut cargo);
    cargo.args(["build", "--quiet", "--locked", "--package", "weftwork-cli", "--bin", "weft"]);
    cargo.args(flags).current_dir(source);
    cargo
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        let why = || format!("{} could not be removed", folder.display());
        std::fs::remove_dir_all(folder).with_context(why)?;
    }
    Ok(())
}

/// CPU time of this process's ended children and their descendants.
fn children_cpu_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("this needs Linux's /proc")?;
    cpu_s_of(&stat).context("/proc/self/stat has an unknown form")
}

/// Sums the fields `cutime` and `cstime` of a `stat` file.
fn cpu_s_of(stat: &str) -> Option<f64> {
    // The name in parentheses may contain spaces; fields are counted from the state behind it.
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod test {
    use super::{Build, Builds, cpu_s_of};

    #[test]
    fn the_cpu_time_of_children_is_read_behind_any_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 0 0 11 22 150 50 20 0 1 0";
        assert_eq!(cpu_s_of(stat), Some(2.0));
        assert_eq!(cpu_s_of("7"), None);
    }

    #[test]
    fn builds_are_a_table() {
        let build = Build { cpu_s: 1.25, wall_s: 0.75, bytes: 1_500_000 };
        let builds = Builds { crates: 3, demo: build, release: build };
        let expected = "\
build from nothing  CPU s  wall s  binary MB
demo                  1.2     0.8        1.5
release               1.2     0.8        1.5
packages of the binary: 3
";
        assert_eq!(builds.to_string(), expected);
    }
}
