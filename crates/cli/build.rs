//! Embeds the error pages and the commit into the program.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
