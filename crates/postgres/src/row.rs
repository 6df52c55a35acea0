//! Conversion between values and columns.

use std::borrow::Cow;
use std::fmt::Display;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use weftwork_store::columns::{self, Columns, ReadColumn};
pub(crate) use weftwork_store::columns::{to_integer as int, to_json as json, to_word as word};

/// The type that stands for this driver among those that share the readers of records.
#[derive(Debug)]
pub(crate) enum Postgres {}

/// The location of a row: table and key.
pub(crate) type At<'a> = columns::At<'a, Postgres>;

impl<'r, T: FromSql<'r>> ReadColumn<'r, Postgres, T> for Row {
    fn read_column(&'r self, column: &str) -> Result<T, String> {
        self.try_get(column).map_err(|error| error.to_string())
    }
}

impl Columns<Postgres> for Row {
    fn text(&self, column: &str) -> Result<Cow<'_, str>, String> {
        ReadColumn::<Postgres, &str>::read_column(self, column).map(Cow::Borrowed)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<Cow<'_, str>>, String> {
        let text: Option<&str> = self.read_column(column)?;
        Ok(text.map(Cow::Borrowed))
    }

    fn fixed<const N: usize>(&self, column: &str) -> Result<[u8; N], String> {
        fixed(self.read_column(column)?)
    }

    fn maybe_fixed<const N: usize>(&self, column: &str) -> Result<Option<[u8; N]>, String> {
        let bytes: Option<&[u8]> = self.read_column(column)?;
        bytes.map(fixed).transpose()
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("it has {} bytes, not {N}", bytes.len()))
}

/// Converts a 128-bit id to its column value.
pub(crate) fn bytes(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Converts a text id to its column value.
pub(crate) fn text(id: &impl Display) -> String {
    id.to_string()
}
