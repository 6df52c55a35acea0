//! Formats of the file, and migrations between them.

use crate::error::{Done, Place};
use crate::table::block;
use rusqlite::{Connection, TransactionBehavior};
use weftwork_store::StoreError;

/// Application id that marks files of this program: `weft` in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x7765_6674;

/// A migration from one format to the next.
struct Migration {
    sql: &'static str,
    /// Step that follows the SQL in the same transaction.
    then: fn(&Connection) -> Done<()>,
}

const fn by(sql: &'static str) -> Migration {
    Migration { sql, then: |_| Ok(()) }
}

/// Migrations, each to the format of its index, in one transaction. The file's `user_version` is
/// the number of applied migrations, so that migration continues there after the death of a
/// process.
const MIGRATIONS: &[Migration] = &[
    by(include_str!("schema.sql")),
    by(include_str!("checkpoints.sql")),
    by(include_str!("without_steps.sql")),
    by(include_str!("wakes.sql")),
    by(include_str!("blocks.sql")),
    by(include_str!("listed.sql")),
    by(include_str!("pieces.sql")),
    by(include_str!("log.sql")),
    Migration { sql: include_str!("seals.sql"), then: block::seal_old },
    by(include_str!("items.sql")),
    by(include_str!("queued.sql")),
    by(include_str!("within.sql")),
    by(include_str!("metadata.sql")),
    by(include_str!("effects.sql")),
    by(include_str!("ends.sql")),
    by(include_str!("leases.sql")),
    by(include_str!("closes.sql")),
];

/// The newest format that this program supports.
pub(crate) const FORMAT: usize = MIGRATIONS.len() - 1;

/// The first format whose files have no log when they are not open.
const CLOSES: usize = 16;

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
        && (is_new || usize::try_from(applied).is_ok_and(|applied| applied > CLOSES))
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

/// Migrates the file to the newest format.
pub(crate) fn migrate(conn: &mut Connection, place: &Place) -> Done<()> {
    loop {
        let applied = applied(conn, place)?;
        let Some(migration) = MIGRATIONS.get(applied) else { return Ok(()) };
        let work = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have migrated the file while this one waited for the lock.
        if self::applied(&work, place)? == applied {
            work.execute_batch(migration.sql)?;
            (migration.then)(&work)?;
            work.execute(
                "INSERT INTO meta (key, value) VALUES ('format', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                [i64::try_from(applied).unwrap_or(i64::MAX)],
            )?;
            work.pragma_update(None, "user_version", applied + 1)?;
            work.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        work.commit()?;
    }
}

/// Refuses a file of a format that this program does not know.
pub(crate) fn check(conn: &Connection, place: &Place) -> Done<()> {
    applied(conn, place).map(drop)
}

fn applied(conn: &Connection, place: &Place) -> Done<usize> {
    let found = pragma(conn, "user_version")?;
    match usize::try_from(found) {
        Ok(applied) if applied <= MIGRATIONS.len() => Ok(applied),
        Ok(_) => Err(StoreError::Newer {
            place: format!("store `{}`", place.name),
            found: u32::try_from(found - 1).unwrap_or(u32::MAX),
            known: u32::try_from(FORMAT).unwrap_or(u32::MAX),
        }
        .into()),
        Err(_) => Err(StoreError::Corrupt {
            place: format!("store `{}`, user_version", place.name),
            what: format!("it is {found}, expected 0 or more"),
        }
        .into()),
    }
}

fn pragma(conn: &Connection, name: &str) -> Done<i64> {
    Ok(conn.pragma_query_value(None, name, |row| row.get(0))?)
}
