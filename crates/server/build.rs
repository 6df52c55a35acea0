//! Embeds the error pages into the library.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs/errors");
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
    Ok(())
}
