//! Embeds the commit into the program, and chooses options of the linker.

use std::env;
use std::path::Path;
use std::process::Command;

/// The first glibc whose loader reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if packs_relocations() {
        // 2.5 MB of the release binary.
        println!("cargo::rustc-link-arg-bin=weft=-Wl,-z,pack-relative-relocs");
    }
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    // Git appends to this log with each commit. A file that does not exist would make each build
    // begin with this one; outside a repository the version has no commit.
    if let Some(log) = git(&root, &["rev-parse", "--git-path", "logs/HEAD"]) {
        let log = root.join(log);
        if log.is_file() {
            println!("cargo::rerun-if-changed={}", log.display());
        }
    }
    let sha = git(&root, &["rev-parse", "--short=12", "HEAD"]);
    let version = env::var("CARGO_PKG_VERSION")?;
    match sha {
        Some(sha) => println!("cargo::rustc-env=WEFT_VERSION={version} ({sha})"),
        None => println!("cargo::rustc-env=WEFT_VERSION={version}"),
    }
    Ok(())
}

/// The output of a git command in the root.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns `true` if the program will run with a loader that reads packed relocations. A build for
/// another platform does not know its loader.
fn packs_relocations() -> bool {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let is_glibc = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
        && variable("TARGET") == variable("HOST");
    is_glibc && glibc().is_some_and(|version| version >= PACKED_SINCE)
}

/// The version of the glibc of this machine.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
