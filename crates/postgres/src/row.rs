//! Conversion between values and columns.

use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use weftwork_store::StoreError;
use weftwork_types::canonical::Hash;

/// The location of a row: table and key.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    table: &'static str,
    key: &'a (dyn Display + Sync),
}

impl<'a> At<'a> {
    pub(crate) fn new(table: &'static str, key: &'a (dyn Display + Sync)) -> Self {
        Self { table, key }
    }

    pub(crate) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        let Self { table, key } = self;
        StoreError::Corrupt { place: format!("table `{table}`, {key}"), what: what.into() }
    }

    /// Reads a column without conversion.
    pub(crate) fn plain<'r, T: FromSql<'r>>(
        &self,
        row: &'r Row,
        column: &str,
    ) -> Result<T, StoreError> {
        row.try_get(column).map_err(|error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a JSON column.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        row: &Row,
        column: &str,
    ) -> Result<T, StoreError> {
        self.parse(self.plain(row, column)?, column)
    }

    /// Reads a JSON column that may be null.
    pub(crate) fn maybe_json<T: DeserializeOwned>(
        &self,
        row: &Row,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text: Option<&str> = self.plain(row, column)?;
        text.map(|text| self.parse(text, column)).transpose()
    }

    fn parse<T: DeserializeOwned>(&self, text: &str, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(text)
            .map_err(|error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains the name of an enum variant.
    pub(crate) fn word<T: DeserializeOwned>(
        &self,
        row: &Row,
        column: &str,
    ) -> Result<T, StoreError> {
        let text: &str = self.plain(row, column)?;
        let word = T::deserialize(text.into_deserializer());
        word.map_err(|error: value::Error| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains a text id.
    pub(crate) fn id<T: FromStr<Err: Display>>(
        &self,
        row: &Row,
        column: &str,
    ) -> Result<T, StoreError> {
        let text: &str = self.plain(row, column)?;
        text.parse().map_err(|error: T::Err| self.corrupt(format!("column `{column}`: {error}")))
    }

    /// Reads a column that contains a text id or null.
    pub(crate) fn maybe_id<T: FromStr<Err: Display>>(
        &self,
        row: &Row,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text: Option<&str> = self.plain(row, column)?;
        text.map(|_| self.id(row, column)).transpose()
    }

    /// Reads a column that contains a 128-bit id.
    pub(crate) fn bits(&self, row: &Row, column: &str) -> Result<u128, StoreError> {
        self.fixed(self.plain(row, column)?, column).map(u128::from_be_bytes)
    }

    /// Reads a column that contains a 128-bit id or null.
    pub(crate) fn maybe_bits(&self, row: &Row, column: &str) -> Result<Option<u128>, StoreError> {
        let bytes: Option<&[u8]> = self.plain(row, column)?;
        bytes.map(|bytes| self.fixed(bytes, column).map(u128::from_be_bytes)).transpose()
    }

    /// Reads a column that contains a hash.
    pub(crate) fn hash(&self, row: &Row, column: &str) -> Result<Hash, StoreError> {
        self.fixed(self.plain(row, column)?, column).map(Hash)
    }

    /// Reads a column that contains a count.
    pub(crate) fn count<T: TryFrom<i64>>(&self, row: &Row, column: &str) -> Result<T, StoreError> {
        let found: i64 = self.plain(row, column)?;
        let what = || self.corrupt(format!("column `{column}`: {found} is not a valid count"));
        T::try_from(found).map_err(|_| what())
    }

    fn fixed<const N: usize>(&self, bytes: &[u8], column: &str) -> Result<[u8; N], StoreError> {
        bytes.try_into().map_err(|_| {
            self.corrupt(format!("column `{column}`: it has {} bytes, not {N}", bytes.len()))
        })
    }
}

/// Converts a 128-bit id to its column value.
pub(crate) fn bytes(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Converts a text id to its column value.
pub(crate) fn text(id: &impl Display) -> String {
    id.to_string()
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

/// Converts a count to Postgres' integer type, saturating. Such large counts do not occur.
pub(crate) fn int(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
