//! Backup and compaction.

use crate::error::{Done, StoreLocation};
use crate::open;
use crate::row;
use crate::store::SqliteStore;
use rusqlite::Connection;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use weftwork_store::StoreError;

/// The result of [`SqliteStore::compact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the file and its log before, in bytes.
    pub bytes_before: u64,
    /// Size of the file and its log after, in bytes.
    pub bytes_after: u64,
    /// Number of blobs that were removed because no row referred to them.
    pub blobs: u64,
}

impl SqliteStore {
    /// Copies the current state of the store to a new file, readable by its owner only. Other
    /// connections can read and write meanwhile. Blocks.
    ///
    /// The copy is an independent store, which [`SqliteStore::restore`] puts back. It gets its name once
    /// it is complete and durable.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if the file exists, [`StoreError::Full`],
    /// [`StoreError::ReadOnly`], or [`StoreError::Corrupt`] if this store is damaged.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<(), StoreError> {
        let to = to.as_ref();
        let there = StoreLocation {
            name: to.display().to_string().into(),
            busy_timeout_ms: self.named().busy_timeout_ms,
        };
        if to.exists() {
            return Err(
                there.unavailable("a backup does not replace an existing file; choose a new name")
            );
        }
        let part = beside(to, ".part");
        let Some(name) = part.to_str() else {
            return Err(there.unavailable("its name is not UTF-8; name another file"));
        };
        make_new(&part, &there)?;
        let copied = self.copy_into(name, &there).and_then(|()| {
            let io = |error| there.io(to, &error);
            File::open(&part).and_then(|file| file.sync_all()).map_err(io)?;
            std::fs::rename(&part, to).map_err(io)?;
            sync_folder(to).map_err(io)
        });
        if copied.is_err() {
            // The error is returned; the next backup to this path reports a part that could not be
            // removed.
            drop(std::fs::remove_file(&part));
        }
        copied
    }

    fn copy_into(&self, name: &str, there: &StoreLocation) -> Result<(), StoreError> {
        let conn = open::upkeep(self.path(), self.named())?;
        let copied = row::execute(&conn, "VACUUM INTO ?1", [name]);
        copied.map(drop).map_err(|fail| match self.named().fail(fail) {
            StoreError::Full { reason, .. } => StoreError::Full { location: there.name(), reason },
            StoreError::ReadOnly { reason, .. } => {
                StoreError::ReadOnly { location: there.name(), reason }
            }
            other => other,
        })
    }

    /// Removes blobs that no row refers to, releases free pages to the system and truncates the
    /// log. Other connections can read and write meanwhile, except for short periods. Blocks.
    ///
    /// # Errors
    /// Returns [`StoreError::Locked`] if another connection reads or writes without pause,
    /// [`StoreError::Full`], or [`StoreError::Corrupt`].
    pub fn compact(&self) -> Result<Compacted, StoreError> {
        let bytes_before = self.bytes()?;
        let conn = open::upkeep(self.path(), self.named())?;
        let tidied = collect(&conn).and_then(|blobs| give_all_back(&conn).map(|()| blobs));
        let blobs = tidied.map_err(|fail| self.named().fail(fail))?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = row::one(&conn, sql, [], |row| Ok(row.get::<_, bool>(0)?));
        if busy.map_err(|fail| self.named().fail(fail))?.unwrap_or(false) {
            return Err(self.named().locked());
        }
        Ok(Compacted { bytes_before, bytes_after: self.bytes()?, blobs })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let of = |path: &Path| match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(self.named().io(path, &error)),
        };
        Ok(of(self.path())? + of(&beside(self.path(), "-wal"))?)
    }
}

/// Appends a suffix to the file name of a path.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

fn make_new(part: &Path, there: &StoreLocation) -> Result<(), StoreError> {
    if let Some(folder) = part.parent() {
        open::make_folder(folder, there)?;
    }
    let made = open::private_file(OpenOptions::new().write(true).create_new(true)).open(part);
    made.map(drop).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => there.unavailable(format!(
            "`{}` exists: another backup is in progress, or was interrupted; if it was, remove the file",
            part.display()
        )),
        _ => there.io(part, &error),
    })
}

/// Makes a new file name durable.
#[cfg(unix)]
pub(crate) fn sync_folder(of: &Path) -> std::io::Result<()> {
    match of.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// A folder cannot be opened on this platform.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_of: &Path) -> std::io::Result<()> {
    Ok(())
}

fn collect(conn: &Connection) -> Done<u64> {
    let sql = "DELETE FROM blobs WHERE NOT EXISTS (
                   SELECT 1 FROM blob_refs
                   WHERE blob_refs.org = blobs.org AND blob_refs.hash = blobs.hash)";
    row::execute(conn, sql, []).map(|collected| collected as u64)
}

/// Releases all free pages, in parts, to limit the time for which the lock is held.
fn give_all_back(conn: &Connection) -> Done<()> {
    let mut left = row::free_pages(conn)?;
    while left > 0 {
        row::give_back(conn)?;
        let now = row::free_pages(conn)?;
        if now >= left {
            // Other connections free pages at the same rate, or the file was created without
            // auto-vacuum.
            break;
        }
        left = now;
    }
    Ok(())
}
