//! Formats of the file, and migrations between them.

use crate::error::{Done, StoreLocation};
use crate::row;
use rusqlite::{Connection, TransactionBehavior};
use weftwork_store::StoreError;

/// Application id that marks files of this program: `weft` in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x7765_6674;

/// Formats that a program reads. The file's `user_version` is the number of a format, plus one: it is
/// zero in a file without tables.
#[derive(Debug)]
pub(crate) struct Formats {
    /// The oldest format that is read. Files of older formats were written by development builds
    /// only, and are refused.
    oldest: usize,
    /// Statements that create the tables of the oldest format.
    created: &'static str,
    /// Statements that lead from each format to the next, from the oldest one.
    migrations: &'static [&'static str],
}

/// The formats of this program.
pub(crate) const FORMATS: Formats = Formats {
    oldest: 16,
    created: include_str!("schema.sql"),
    migrations: &[include_str!("schema/17.sql")],
};

impl Formats {
    /// The newest format.
    const fn newest(&self) -> usize {
        self.oldest + self.migrations.len()
    }

    /// Brings the file to the newest format. Each step is one transaction, which also writes the
    /// number of its format: if the process dies, the next one continues with the step that is
    /// missing.
    pub(crate) fn migrate(&self, conn: &mut Connection, location: &StoreLocation) -> Done<()> {
        loop {
            let found = self.check(conn, location)?;
            let Some(step) = self.step_after(found) else { return Ok(()) };
            let work = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another process may have done the step while this one waited for the lock.
            if self.check(&work, location)? == found {
                let reached = found.map_or(self.oldest, |format| format + 1);
                work.execute_batch(step)?;
                work.execute(
                    "INSERT INTO meta (key, value) VALUES ('format', ?1)
                     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    [row::int(reached)],
                )?;
                work.pragma_update(None, "user_version", reached + 1)?;
                work.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            work.commit()?;
        }
    }

    fn step_after(&self, found: Option<usize>) -> Option<&'static str> {
        match found {
            None => Some(self.created),
            Some(format) => self.migrations.get(format - self.oldest).copied(),
        }
    }

    /// Returns the format of a file, `None` if it has no tables. Refuses a file of a format that this
    /// program does not read.
    pub(crate) fn check(&self, conn: &Connection, location: &StoreLocation) -> Done<Option<usize>> {
        let found = pragma(conn, "user_version")?;
        let store = format!("store `{}`", location.name);
        let number = |format: usize| u32::try_from(format).unwrap_or(u32::MAX);
        match usize::try_from(found) {
            Ok(0) => Ok(None),
            Ok(version) if version - 1 < self.oldest => Err(StoreError::Older {
                location: store,
                found: number(version - 1),
                oldest: number(self.oldest),
            }
            .into()),
            Ok(version) if version - 1 <= self.newest() => Ok(Some(version - 1)),
            Ok(version) => Err(StoreError::Newer {
                location: store,
                found: number(version - 1),
                known: number(self.newest()),
            }
            .into()),
            Err(_) => Err(StoreError::Corrupt {
                location: format!("{store}, user_version"),
                what: format!("it is {found}, expected 0 or more"),
            }
            .into()),
        }
    }
}

/// Returns `true` if the header of a file says that the file has a write-ahead log, and the program that
/// wrote it removes the log when it closes the file. All of a new store is in its log.
pub(crate) fn has_log(header: &[u8; HEADER_BYTES]) -> bool {
    // The version of the file for writers, its number of pages and its `user_version`; see the file
    // format of SQLite.
    let [.., a, b, c, d] = *header;
    let applied = u32::from_be_bytes([a, b, c, d]);
    let is_new = applied == 0 && header[28..32] == [0, 0, 0, 1];
    header.starts_with(b"SQLite format 3\0")
        && header[18] == 2
        && (is_new || usize::try_from(applied).is_ok_and(|applied| applied > FORMATS.oldest))
}

/// Number of bytes of the header of a file that [`has_log`] reads.
pub(crate) const HEADER_BYTES: usize = 64;

/// The program that a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The file is empty.
    Nobody,
    Us,
    /// Another program, with its application id.
    Other(i64),
}

pub(crate) fn owner(conn: &Connection) -> Done<Owner> {
    // Read in one transaction: another process may be creating the file, and its tables without the
    // application id would look like those of another program.
    let at_once = conn.unchecked_transaction()?;
    let id = pragma(&at_once, "application_id")?;
    let version = pragma(&at_once, "user_version")?;
    let objects: i64 =
        at_once.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    at_once.finish()?;
    Ok(match (id, objects, version) {
        (APPLICATION_ID, _, _) => Owner::Us,
        (0, 0, 0) => Owner::Nobody,
        _ => Owner::Other(id),
    })
}

fn pragma(conn: &Connection, name: &str) -> Done<i64> {
    Ok(conn.pragma_query_value(None, name, |row| row.get(0))?)
}

#[cfg(test)]
mod tests;
