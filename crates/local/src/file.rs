//! Opening and hashing model files.

use crate::Error;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use weftwork_types::canonical::Hash;

/// The expected length and hash of a model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: Hash,
}

/// Opens a model file, hashes it, and checks it against the expected length and hash.
pub(crate) fn open_checked(path: &Path, expected: Option<Expected>) -> Result<(File, Hash), Error> {
    let mut file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::FileMissing { path: path.to_owned(), model: crate::weights::DEFAULT.to_owned() }
        }
        _ => Error::io("read", path, &error),
    })?;
    let found_bytes = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    if let Some(expected) = expected
        && found_bytes < expected.bytes
    {
        let path = path.to_owned();
        return Err(Error::Truncated { path, expected_bytes: expected.bytes, found_bytes });
    }
    let found = digest(&mut file).map_err(|error| Error::io("read", path, &error))?;
    if let Some(expected) = expected
        && found != expected.sha256
    {
        return Err(Error::HashMismatch {
            path: path.to_owned(),
            expected: expected.sha256.to_string(),
            found: found.to_string(),
        });
    }
    Ok((file, found))
}

/// The SHA-256 of all bytes of a reader.
pub(crate) fn digest(reader: &mut impl Read) -> std::io::Result<Hash> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(Hash(hasher.finalize().into())),
            n => hasher.update(&buffer[..n]),
        }
    }
}
