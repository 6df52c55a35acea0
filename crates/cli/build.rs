//! Embeds the error pages and the commit into the program, and chooses options of the linker.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The first glibc whose loader reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if packs_relocations() {
        // 2.5 MB of the release binary.
        println!("cargo::rustc-link-arg-bin=weft=-Wl,-z,pack-relative-relocs");
    }
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let folder = root.join("docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    pages.retain(|entry| entry.path().extension().is_some_and(|end| end == "md"));
    pages.sort_by_key(fs::DirEntry::file_name);
    let mut table = String::from("&[\n");
    for page in pages {
        let path = page.path().canonicalize()?;
        let code = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({code:?}, include_str!({path:?})),")?;
    }
    table.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("pages.rs"), table)?;
    // Git appends to this log with each commit. Outside a repository the file does not exist, and
    // the version has no commit.
    println!("cargo::rerun-if-changed={}", root.join(".git/logs/HEAD").display());
    let git =
        Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(&root).output();
    let sha = git.ok().filter(|output| output.status.success());
    let sha = sha.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version = env::var("CARGO_PKG_VERSION")?;
    match sha {
        Some(sha) => println!("cargo::rustc-env=WEFT_VERSION={version} ({sha})"),
        None => println!("cargo::rustc-env=WEFT_VERSION={version}"),
    }
    Ok(())
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
