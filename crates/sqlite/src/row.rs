//! Conversion between values and columns.

use crate::error::{Done, Fail};
use rusqlite::types::FromSql;
use rusqlite::{OptionalExtension, Params, Row};
use std::borrow::Cow;
use weftwork_store::StoreError;
use weftwork_store::columns::{self, Columns, ReadColumn};
pub(crate) use weftwork_store::columns::{to_integer as int, to_json as json, to_word as word};

/// Maximum number of free pages that one deletion releases to the system, to limit the time for
/// which it holds the lock. Further pages are reused, or released by a later deletion.
const PAGES_GIVEN_BACK_MAX: u32 = 2_000;

/// The type that stands for this driver among those that share the readers of records.
#[derive(Debug)]
pub(crate) enum Sqlite {}

/// The location of a row: table and key.
pub(crate) type At<'a> = columns::At<'a, Sqlite>;

impl<'r, T: FromSql> ReadColumn<'r, Sqlite, T> for Row<'_> {
    fn read_column(&'r self, column: &str) -> Result<T, String> {
        self.get(column).map_err(|error| error.to_string())
    }
}

impl Columns<Sqlite> for Row<'_> {
    fn text(&self, column: &str) -> Result<Cow<'_, str>, String> {
        ReadColumn::<Sqlite, String>::read_column(self, column).map(Cow::Owned)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<Cow<'_, str>>, String> {
        let text: Option<String> = self.read_column(column)?;
        Ok(text.map(Cow::Owned))
    }

    fn fixed<const N: usize>(&self, column: &str) -> Result<[u8; N], String> {
        self.read_column(column)
    }

    fn maybe_fixed<const N: usize>(&self, column: &str) -> Result<Option<[u8; N]>, String> {
        self.read_column(column)
    }
}

/// Runs a query that returns at most one row.
pub(crate) fn one<T>(
    conn: &rusqlite::Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Done<T>,
) -> Done<Option<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row(params, |row| Ok(read(row))).optional()?;
    found.transpose()
}

/// Runs a query and returns all its rows.
pub(crate) fn all<T>(
    conn: &rusqlite::Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Done<T>,
) -> Done<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Runs a query and returns the first `limit` rows that can be read. A damaged row takes none of the
/// others from the list.
pub(crate) fn readable<T>(
    conn: &rusqlite::Connection,
    sql: &str,
    params: impl Params,
    limit: usize,
    mut read: impl FnMut(&Row<'_>) -> Done<Option<T>>,
) -> Done<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        match read(row) {
            Err(Fail::Store(StoreError::Corrupt { .. })) => {}
            row => found.extend(row?),
        }
    }
    Ok(found)
}

/// Runs a statement and returns the number of rows that it changed.
pub(crate) fn execute(conn: &rusqlite::Connection, sql: &str, params: impl Params) -> Done<usize> {
    Ok(conn.prepare_cached(sql)?.execute(params)?)
}

/// Returns the number of unused pages in the file.
pub(crate) fn free_pages(conn: &rusqlite::Connection) -> Done<i64> {
    Ok(conn.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
}

/// Releases unused pages of the file to the system.
pub(crate) fn give_back(conn: &rusqlite::Connection) -> Done<()> {
    // The pragma releases one page per row that is read.
    let sql = format!("PRAGMA incremental_vacuum({PAGES_GIVEN_BACK_MAX})");
    all(conn, &sql, [], |_| Ok(())).map(drop)
}
