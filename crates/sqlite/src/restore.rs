//! Replacement of a store by a backup.

use crate::error::{Done, StoreLocation};
use crate::lock::Locks;
use crate::schema::{self, Owner};
use crate::store::{Options, SqliteStore};
use crate::upkeep::{beside, sync_folder};
use crate::{open, row};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weftwork_store::StoreError;

/// The files that SQLite has beside a file: its log, the index of the log, and a journal.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The result of [`SqliteStore::restore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The file that the store had before, if there was one.
    pub replaced: Option<PathBuf>,
}

impl SqliteStore {
    /// Replaces the store at `to` by a copy of the store in the file `from`, which is read completely
    /// before. The copy takes the place in one step, without a log of the store that was there; that
    /// store is kept under another name. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if another process has the store open, or `from` is no store,
    /// [`StoreError::Corrupt`] if `from` is damaged, and the errors of [`SqliteStore::open`]. The store
    /// is then as it was.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored, StoreError> {
        let given = to.as_ref();
        let from = from.as_ref();
        // A link to the store stays one.
        let to = std::fs::canonicalize(given);
        let to = to.as_deref().unwrap_or(given);
        let busy_timeout_ms = Options::default().busy_timeout_ms;
        let place = |path: &Path| StoreLocation {
            name: path.display().to_string().into(),
            busy_timeout_ms,
        };
        let source = place(from);
        let there = place(to);
        let is_same = |path: &Path| std::fs::canonicalize(path).ok();
        if is_same(to).is_some_and(|to| is_same(from) == Some(to)) {
            return Err(source.unavailable("it is the file of the store; name a backup"));
        }
        let part = beside(to, ".restore");
        let _held = make_part(&part, &there)?;
        let restored =
            copy(from, &part, &source, &there).and_then(|()| take_place(&part, to, &there));
        if restored.is_err() {
            // The error is returned; the next attempt reports a part that could not be removed.
            drop(remove_with_log(&part));
        }
        restored
    }

    /// Returns the stores that restorations to this path replaced, oldest first.
    #[must_use]
    pub fn replaced(path: impl AsRef<Path>) -> Vec<PathBuf> {
        let there = |number: &u32| name_of_replaced(path.as_ref(), *number).exists();
        let numbers = (1..).take_while(there);
        numbers.map(|number| name_of_replaced(path.as_ref(), number)).collect()
    }
}

/// Creates an empty file for the copy, which is locked as long as it is held: what an interrupted
/// restoration left behind is used again.
fn make_part(part: &Path, there: &StoreLocation) -> Result<File, StoreError> {
    if let Some(folder) = part.parent() {
        open::make_folder(folder, there)?;
    }
    let io = |error| there.io(part, &error);
    let is_file = |found: std::fs::Metadata| found.file_type().is_file();
    if !std::fs::symlink_metadata(part).map_or(true, is_file) {
        let reason = format!("`{}` is no file; remove it, and restore again", part.display());
        return Err(there.unavailable(reason));
    }
    let options = &mut OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = open::private_file(options).open(part).map_err(io)?;
    match file.try_lock() {
        // The process that had the lock may have given its copy the name of the store.
        Ok(()) if is_at(&file, part).map_err(io)? => {}
        Ok(()) | Err(TryLockError::WouldBlock) => {
            return Err(StoreError::Unavailable {
                location: there.name(),
                reason: "another process restores it; wait until that one has ended".to_owned(),
                retriable: true,
            });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    for suffix in BESIDE {
        drop(std::fs::remove_file(beside(part, suffix)));
    }
    file.set_len(0).map_err(io)?;
    Ok(file)
}

/// Returns `true` if a path names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    let found = std::fs::metadata(path)?;
    Ok((open.dev(), open.ino()) == (found.dev(), found.ino()))
}

/// An open file keeps its name on this platform.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> std::io::Result<bool> {
    Ok(true)
}

/// Copies a store as it is now, with its log, and reads the copy completely.
fn copy(
    from: &Path,
    part: &Path,
    source: &StoreLocation,
    there: &StoreLocation,
) -> Result<(), StoreError> {
    let Some(name) = part.to_str() else {
        return Err(there.unavailable("its name is not UTF-8; name another file"));
    };
    // SQLite reports a missing file as one that cannot be opened.
    File::open(from).map_err(|error| source.io(from, &error))?;
    open::check_log(from, source)?;
    let copied = || -> Done<()> {
        let conn = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(Duration::from_millis(source.busy_timeout_ms))?;
        if schema::owner(&conn)? != Owner::Us {
            return Err(source.unavailable("it is not a store of this program").into());
        }
        row::execute(&conn, "VACUUM INTO ?1", [name]).map(drop)
    };
    copied().map_err(|fail| source.fail(fail))?;
    let copy = SqliteStore::open(part, &Options::default())?;
    let damage = copy.verify()?;
    drop(copy);
    if let Some(damage) = damage.into_iter().next() {
        let location = format!("store `{}`, {}", source.name, damage.location);
        return Err(StoreError::Corrupt { location, what: damage.what });
    }
    File::open(part).and_then(|file| file.sync_all()).map_err(|error| there.io(part, &error))
}

/// Gives the copy the name of the store.
fn take_place(part: &Path, to: &Path, there: &StoreLocation) -> Result<Restored, StoreError> {
    let io = |error| there.io(to, &error);
    let replaced = match to.exists() {
        true => {
            // Held until the copy has its place, so that nobody opens the old store meanwhile.
            let _hold = hold(to, there)?;
            let kept = free_name(to);
            std::fs::hard_link(to, &kept).map_err(io)?;
            // A log of the old store would be applied to the new one.
            for suffix in BESIDE {
                move_if_there(&beside(to, suffix), &beside(&kept, suffix)).map_err(io)?;
            }
            std::fs::rename(part, to).map_err(io)?;
            Some(kept)
        }
        false => {
            for suffix in BESIDE {
                let log = beside(to, suffix);
                if log.exists() {
                    return Err(there.unavailable(format!(
                        "`{}` is the log of another store; move it away",
                        log.display()
                    )));
                }
            }
            std::fs::rename(part, to).map_err(io)?;
            None
        }
    };
    // It belonged to the store that was there.
    drop(std::fs::remove_file(beside(to, open::OPEN)));
    sync_folder(to).map_err(io)?;
    Ok(Restored { replaced })
}

/// Locks a store that no other process has open. `None` if its file is so damaged that nobody can
/// have it open.
fn hold(to: &Path, there: &StoreLocation) -> Result<Option<Connection>, StoreError> {
    let in_use = || StoreError::Unavailable {
        location: there.name(),
        reason: "another process has it open; end that process, and restore again".to_owned(),
        retriable: true,
    };
    if Locks::new(to, there.clone()).is_any_held()? {
        return Err(in_use());
    }
    // SQLite would remove the log of a file that it cannot read.
    if !has_header(to).map_err(|error| there.io(to, &error))? {
        return Ok(None);
    }
    let hold = || -> Done<Option<Connection>> {
        let conn = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.busy_timeout(Duration::ZERO)?;
        // Moves the log into the file, which takes that no other connection exists.
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
        conn.execute_batch("BEGIN EXCLUSIVE")?;
        Ok((mode == "delete").then_some(conn))
    };
    match hold().map_err(|fail| there.fail(fail)) {
        Ok(Some(conn)) => Ok(Some(conn)),
        Ok(None) | Err(StoreError::Locked { .. }) => Err(in_use()),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns `true` if a file begins as those of SQLite do.
fn has_header(path: &Path) -> std::io::Result<bool> {
    const HEADER: &[u8; 16] = b"SQLite format 3\0";
    let mut found = Vec::new();
    File::open(path)?.take(HEADER.len() as u64).read_to_end(&mut found)?;
    Ok(found == HEADER)
}

/// Returns the name of the store that was replaced as the nth one.
fn name_of_replaced(to: &Path, nth: u32) -> PathBuf {
    match nth {
        1 => beside(to, ".replaced"),
        nth => beside(to, &format!(".replaced-{nth}")),
    }
}

/// Returns a name for the store that is replaced.
fn free_name(to: &Path) -> PathBuf {
    let mut nth = 1_u32;
    while name_of_replaced(to, nth).exists() {
        nth += 1;
    }
    name_of_replaced(to, nth)
}

fn move_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn remove_with_log(part: &Path) -> std::io::Result<()> {
    for suffix in BESIDE {
        drop(std::fs::remove_file(beside(part, suffix)));
    }
    std::fs::remove_file(part)
}
