//! Detection of damage before a run encounters it.

use crate::error::{Done, Fail, StoreLocation};
use crate::open;
use crate::row::At;
use crate::store::SqliteStore;
use crate::table::{
    bill, block, checkpoints, interrupts, items, log, pieces, runs, sequences, threads, usage,
};
use rusqlite::{Connection, Row};
use std::fmt::Display;
use weftwork_store::{StoreError, columns};
use weftwork_types::canonical;
use weftwork_types::{OrgId, ThreadId};

/// A damaged part of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Location: table and key.
    pub location: String,
    /// Description of the damage.
    pub what: String,
}

impl Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.location, self.what)
    }
}

impl SqliteStore {
    /// Checks the whole file and returns the damage found. It checks pages and indices, reads every
    /// row in the same way as runs do, and checks that every referenced row exists. The content of
    /// checkpoints is not checked, because only their graph can read it. Other connections can read
    /// and write meanwhile. Blocks.
    ///
    /// # Errors
    /// Only system errors, and [`StoreError::Corrupt`] if the file cannot be read at all.
    pub fn verify(&self) -> Result<Vec<Damage>, StoreError> {
        let conn = open::reader(self.path(), self.named())?;
        let mut search = Search { conn: &conn, location: self.named(), found: Vec::new() };
        let begun = conn.execute_batch("BEGIN").map_err(Fail::from);
        begun.and_then(|()| search.all()).map_err(|fail| self.named().fail(fail))?;
        Ok(search.found)
    }
}

struct Search<'a> {
    conn: &'a Connection,
    location: &'a StoreLocation,
    found: Vec<Damage>,
}

/// Queries for missing and duplicate rows: table, description, and a query that returns the keys of
/// affected rows.
const MISSING: &[(&str, &str, &str)] = &[
    (
        "threads",
        "its head is not a checkpoint",
        "SELECT org || ', thread `' || id || '`' FROM threads_now threads WHERE head IS NOT NULL
         AND NOT EXISTS (
             SELECT 1 FROM blocks CROSS JOIN checkpoint_rows
                 ON place BETWEEN number << 24 AND (number << 24) + 0xffffff
             WHERE org = threads.org AND thread = threads.id AND ns = ''
                 AND prefix = substr(head, 1, 13)
                 AND printf('%06X', place & 0xffffff) = substr(hex(head), 27, 6))",
    ),
    (
        "blocks",
        "its number is also that of another block",
        "SELECT org || ', thread `' || thread || '`, number ' || number FROM (
             SELECT org, thread, number, count(*) OVER (PARTITION BY number) AS blocks FROM blocks)
         WHERE blocks > 1",
    ),
    (
        "log",
        "the events before it are missing",
        "SELECT org || ', run `' || id || '`, first_seq ' || first_seq FROM (
             SELECT org, id, first_seq, lag(last_seq, 1, events_from - 1)
                 OVER (PARTITION BY number ORDER BY place) AS before
             FROM runs CROSS JOIN log
                 ON place BETWEEN number << 32 AND (number << 32) + 0xffffffff
             WHERE events IS NOT NULL)
         WHERE first_seq <> before + 1",
    ),
    (
        "blob_refs",
        "the blob it refers to is missing",
        "SELECT org || ', thread `' || thread || '`, checkpoint `' || lower(hex(id)) || '`, blob `'
             || lower(hex(hash)) || '`'
         FROM blob_refs WHERE NOT EXISTS (
             SELECT 1 FROM blobs
             WHERE blobs.org = blob_refs.org AND blobs.hash = blob_refs.hash)",
    ),
];

type Read = fn(&Row<'_>) -> Done<()>;

/// Query and reader for the rows of each table.
const TABLES: &[(&str, Read)] = &[
    ("SELECT * FROM threads", |row| threads::read(row).map(drop)),
    ("SELECT * FROM runs", |row| runs::read(row).map(drop)),
    (
        "SELECT runs.id AS run, caller, graph, log.*
         FROM log LEFT JOIN runs ON number = place >> 32",
        log::check,
    ),
    ("SELECT * FROM pieces", |row| pieces::batch(row).map(drop)),
    ("SELECT * FROM interrupts", |row| {
        interrupts::read(row, &owner("interrupts", row)?.1).map(drop)
    }),
    ("SELECT * FROM usage", |row| usage::read(row).map(drop)),
    ("SELECT * FROM model_calls", |row| bill::read(row).map(drop)),
    ("SELECT * FROM receipts", |row| bill::read_receipt(row).map(drop)),
    ("SELECT * FROM starts", |row| Ok(columns::read_start(row).map(drop)?)),
    ("SELECT * FROM items", |row| items::read(row).map(drop)),
    ("SELECT * FROM effects", |row| sequences::read(row).map(drop)),
    (
        "SELECT org, thread, ns, prefix, checkpoint_rows.* FROM checkpoint_rows
         LEFT JOIN blocks ON number = place >> 24",
        checkpoints::check,
    ),
    ("SELECT * FROM blocks", block::check),
    ("SELECT * FROM blobs", |row| {
        let hash = At::new("blobs", &"the hash of a row").hash(row, "hash")?;
        let at = At::new("blobs", &hash);
        let body: Vec<u8> = at.plain(row, "body")?;
        if canonical::hash_bytes(&body) == hash {
            return Ok(());
        }
        Err(at.corrupt("the bytes do not match their hash").into())
    }),
];

fn owner(table: &'static str, row: &Row<'_>) -> Done<(OrgId, ThreadId)> {
    let at = At::new(table, &"the thread of a row");
    Ok((at.id(row, "org")?, at.id(row, "thread")?))
}

impl Search<'_> {
    fn all(&mut self) -> Done<()> {
        let pages = self.pages();
        self.note(pages)?;
        let keys = self.foreign_keys();
        self.note(keys)?;
        for (sql, read) in TABLES {
            let rows = self.rows(sql, *read);
            self.note(rows)?;
        }
        for (table, what, sql) in MISSING {
            let missing = self.missing(table, what, sql);
            self.note(missing)?;
        }
        Ok(())
    }

    fn add(&mut self, location: String, what: impl Into<String>) {
        self.found.push(Damage { location, what: what.into() });
    }

    /// Records damage. Only errors that prevent the check itself are returned.
    fn note(&mut self, done: Done<()>) -> Done<()> {
        match done.map_err(|fail| self.location.fail(fail)) {
            Err(StoreError::Corrupt { location, what }) => self.add(location, what),
            other => other?,
        }
        Ok(())
    }

    fn pages(&mut self) -> Done<()> {
        let mut statement = self.conn.prepare("PRAGMA integrity_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                let location = format!("store `{}`", self.location.name);
                self.found.push(Damage { location, what: line.replace('\n', "; ") });
            }
        }
        Ok(())
    }

    fn foreign_keys(&mut self) -> Done<()> {
        let mut statement = self.conn.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let table: String = row.get(0)?;
            let parent: String = row.get(2)?;
            let number: Option<i64> = row.get(1)?;
            let row = number.map_or(String::new(), |number| format!(", row {number}"));
            let what = format!("its row in `{parent}` is missing");
            self.found.push(Damage { location: format!("table `{table}`{row}"), what });
        }
        Ok(())
    }

    fn rows(&mut self, sql: &str, read: Read) -> Done<()> {
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let read = read(row);
            self.note(read)?;
        }
        Ok(())
    }

    fn missing(&mut self, table: &str, what: &str, sql: &str) -> Done<()> {
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            self.add(format!("table `{table}`, organisation {key}"), what);
        }
        Ok(())
    }
}
