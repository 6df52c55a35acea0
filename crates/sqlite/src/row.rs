//! Conversion between values and columns.

use crate::error::{Done, Fail};
use rusqlite::types::FromSql;
use rusqlite::{OptionalExtension, Params, Row};
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use weftwork_store::StoreError;
use weftwork_types::canonical::Hash;

/// Maximum number of free pages that one deletion releases to the system, to limit the time for
/// which it holds the lock. Further pages are reused, or released by a later deletion.
const PAGES_GIVEN_BACK_MAX: u32 = 2_000;

/// The location of a row: table and key.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) table: &'static str,
    pub(crate) key: &'a dyn Display,
}

impl<'a> At<'a> {
    pub(crate) fn new(table: &'static str, key: &'a dyn Display) -> Self {
        Self { table, key }
    }

    pub(crate) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        let Self { table, key } = self;
        StoreError::Corrupt { place: format!("table `{table}`, {key}"), what: what.into() }
    }

    /// Reads a column without conversion.
    pub(crate) fn plain<T: FromSql>(&self, row: &Row<'_>, column: &str) -> Result<T, StoreError> {
        row.get(column).map_err(|error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a JSON column.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        row: &Row<'_>,
        column: &str,
    ) -> Result<T, StoreError> {
        let text: String = self.plain(row, column)?;
        self.parse(&text, column)
    }

    /// Reads a JSON column that may be null.
    pub(crate) fn maybe_json<T: DeserializeOwned>(
        &self,
        row: &Row<'_>,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text: Option<String> = self.plain(row, column)?;
        text.map(|text| self.parse(&text, column)).transpose()
    }

    fn parse<T: DeserializeOwned>(&self, text: &str, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(text)
            .map_err(|error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains the name of an enum variant.
    pub(crate) fn word<T: DeserializeOwned>(
        &self,
        row: &Row<'_>,
        column: &str,
    ) -> Result<T, StoreError> {
        let text: String = self.plain(row, column)?;
        let word = T::deserialize(text.as_str().into_deserializer());
        word.map_err(|error: value::Error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains a text id.
    pub(crate) fn id<T: FromStr<Err: Display>>(
        &self,
        row: &Row<'_>,
        column: &str,
    ) -> Result<T, StoreError> {
        let text: String = self.plain(row, column)?;
        text.parse().map_err(|error: T::Err| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains a 128-bit id.
    pub(crate) fn bits(&self, row: &Row<'_>, column: &str) -> Result<u128, StoreError> {
        self.plain::<[u8; 16]>(row, column).map(u128::from_be_bytes)
    }

    /// Reads a column that contains a 128-bit id or null.
    pub(crate) fn maybe_bits(
        &self,
        row: &Row<'_>,
        column: &str,
    ) -> Result<Option<u128>, StoreError> {
        Ok(self.plain::<Option<[u8; 16]>>(row, column)?.map(u128::from_be_bytes))
    }

    /// Reads a column that contains a hash.
    pub(crate) fn hash(&self, row: &Row<'_>, column: &str) -> Result<Hash, StoreError> {
        self.plain(row, column).map(Hash)
    }
}

/// Serialises a value as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unwritable(&error))
}

/// Returns the name of an enum variant, as serde writes it.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String, StoreError> {
    let text = serde_json::to_value(value).map_err(|error| unwritable(&error))?;
    String::deserialize(text).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Conflict {
        place: "a record".to_owned(),
        expected: "a value that has a JSON form".to_owned(),
        found: error.to_string(),
    }
}

/// Converts a count to SQLite's integer type, saturating. Such large counts do not occur.
pub(crate) fn int(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
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
