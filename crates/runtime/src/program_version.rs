//! Version of graphs that state none of their own: that of the program.

use object::read::{Object as _, ReadCache};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::sync::OnceLock;
use weftwork_graph::CompiledGraph;
use xxhash_rust::xxh3::Xxh3;

/// Number of characters of a build id that are taken.
const ID_CHARS: usize = 16;

/// The version of the program.
#[derive(Debug)]
pub(crate) struct ProgramVersion {
    stated: Option<String>,
}

impl ProgramVersion {
    pub(crate) fn new(stated: Option<String>) -> Self {
        Self { stated: stated.filter(|version| !version.is_empty()) }
    }

    /// Returns the version of a graph: its own, else the one stated for the program, else that of the
    /// executable.
    pub(crate) fn of<'a>(&'a self, graph: &'a CompiledGraph) -> &'a str {
        graph.version().or(self.stated.as_deref()).unwrap_or_else(|| of_this_executable())
    }
}

/// Returns the version of the executable of this process, which is read once.
fn of_this_executable() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let read = std::env::current_exe().and_then(|file| of_executable(&file));
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, "the executable cannot be read: its version is that of weftwork");
            format!("weftwork-{}", env!("CARGO_PKG_VERSION"))
        })
    })
}

/// Returns the id that the linker gave an executable, or else the hash of its bytes.
fn of_executable(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let id = build_id(&file);
    let id = match id {
        Some(id) => id,
        None => hash_of(&mut file)?,
    };
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("build-{}", &digits[..digits.len().min(ID_CHARS)]))
}

fn build_id(file: &File) -> Option<Vec<u8>> {
    let read = ReadCache::new(file);
    let parsed = object::File::parse(&read).ok()?;
    let given = parsed.build_id().ok().flatten().map(<[u8]>::to_vec);
    let id = given.or_else(|| parsed.mach_uuid().ok().flatten().map(|id| id.to_vec()))?;
    (!id.is_empty()).then_some(id)
}

fn hash_of(file: &mut File) -> std::io::Result<Vec<u8>> {
    file.rewind()?;
    let mut hash = Xxh3::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.digest128().to_be_bytes().to_vec()),
            read => hash.update(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_has_the_id_of_its_linker_or_the_hash_of_its_bytes() {
        let own = std::env::current_exe().expect("a path");
        let version = of_executable(&own).expect("is read");
        assert_eq!(version, of_this_executable());
        assert!(version.starts_with("build-") && version.len() == 6 + ID_CHARS, "{version}");

        let folder = tempfile::tempdir().expect("a folder");
        let of_script = |text: &str| {
            let file = folder.path().join("script");
            std::fs::write(&file, text).expect("is written");
            of_executable(&file).expect("is read")
        };
        assert_eq!(of_script("exit 0"), of_script("exit 0"));
        assert_ne!(of_script("exit 0"), of_script("exit 1"));
    }
}
