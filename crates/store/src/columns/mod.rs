//! Rows of a database: the names by which errors report them, conversions of their columns, and the
//! readers of records that all drivers share.

mod bill;
mod read;

pub use bill::{
    USAGE_TOTALS, read_model_call, read_receipt, read_start, read_start_counts, read_subject_usage,
    read_usage_total,
};
pub use read::{
    ReadableThread, read_creator, read_interrupt, read_item, read_namespace, read_piece_batch,
    read_readable_thread, read_run, read_sequence_row, read_thread, read_usage,
};

use crate::StoreError;
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Debug, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use weftwork_types::canonical::Hash;

/// A row of which a driver reads columns of a type. `D` is a type of the driver's crate, so that the
/// driver can implement this for the rows of its client library.
pub trait ReadColumn<'r, D, T> {
    /// Reads a column by its name. The error is the message of the client library.
    ///
    /// # Errors
    /// The column does not exist, or has another type.
    fn read_column(&'r self, column: &str) -> Result<T, String>;
}

/// A row of which a driver reads all types of columns that the shared readers need.
pub trait Columns<D>:
    for<'r> ReadColumn<'r, D, bool>
    + for<'r> ReadColumn<'r, D, i64>
    + for<'r> ReadColumn<'r, D, Option<i64>>
    + for<'r> ReadColumn<'r, D, String>
    + for<'r> ReadColumn<'r, D, Vec<u8>>
    + for<'r> ReadColumn<'r, D, Option<Vec<u8>>>
{
    /// Reads a text, without a copy if the client library allows it.
    ///
    /// # Errors
    /// The message of the client library.
    fn text(&self, column: &str) -> Result<Cow<'_, str>, String>;

    /// Reads a text or null.
    ///
    /// # Errors
    /// The message of the client library.
    fn maybe_text(&self, column: &str) -> Result<Option<Cow<'_, str>>, String>;

    /// Reads bytes of a fixed number.
    ///
    /// # Errors
    /// The message of the client library, or the number of bytes found.
    fn fixed<const N: usize>(&self, column: &str) -> Result<[u8; N], String>;

    /// Reads bytes of a fixed number, or null.
    ///
    /// # Errors
    /// As [`fixed`](Self::fixed).
    fn maybe_fixed<const N: usize>(&self, column: &str) -> Result<Option<[u8; N]>, String>;
}

/// The location of a row, table and key, with which errors of its columns are reported.
pub struct At<'a, D> {
    table: &'static str,
    key: &'a (dyn Display + Sync),
    driver: PhantomData<fn() -> D>,
}

impl<D> Clone for At<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for At<'_, D> {}

impl<D> Debug for At<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "At({}, {})", self.table, self.key)
    }
}

impl<'a, D> At<'a, D> {
    /// Names a row of a table.
    pub fn new(table: &'static str, key: &'a (dyn Display + Sync)) -> Self {
        Self { table, key, driver: PhantomData }
    }

    /// Returns the error of a damaged row.
    pub fn corrupt(&self, what: impl Into<String>) -> StoreError {
        let Self { table, key, .. } = self;
        StoreError::Corrupt { location: format!("table `{table}`, {key}"), what: what.into() }
    }

    fn column(&self, column: &str, what: impl Display) -> StoreError {
        self.corrupt(format!("column `{column}`: {what}"))
    }

    /// Reads a column without conversion.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], as of all conversions.
    pub fn plain<'r, T>(
        &self,
        row: &'r impl ReadColumn<'r, D, T>,
        column: &str,
    ) -> Result<T, StoreError> {
        row.read_column(column).map_err(|error| self.column(column, error))
    }

    /// Reads a JSON column.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn json<T: DeserializeOwned>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<T, StoreError> {
        self.parse(&self.text(row, column)?, column)
    }

    /// Reads a JSON column that may be null.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn maybe_json<T: DeserializeOwned>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text = row.maybe_text(column).map_err(|error| self.column(column, error))?;
        text.map(|text| self.parse(&text, column)).transpose()
    }

    fn parse<T: DeserializeOwned>(&self, text: &str, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| self.column(column, error))
    }

    /// Reads a text, without a copy if the client library allows it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn text<'r>(
        &self,
        row: &'r impl Columns<D>,
        column: &str,
    ) -> Result<Cow<'r, str>, StoreError> {
        row.text(column).map_err(|error| self.column(column, error))
    }

    /// Reads a column that contains the name of an enum variant.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn word<T: DeserializeOwned>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<T, StoreError> {
        let text = self.text(row, column)?;
        let word = T::deserialize(text.as_ref().into_deserializer());
        word.map_err(|error: value::Error| self.column(column, error))
    }

    /// Reads a column that contains a text id.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn id<T: FromStr<Err: Display>>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<T, StoreError> {
        self.text(row, column)?.parse().map_err(|error: T::Err| self.column(column, error))
    }

    /// Reads a column that contains a text id or null.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn maybe_id<T: FromStr<Err: Display>>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        let text = row.maybe_text(column).map_err(|error| self.column(column, error))?;
        let id = text.map(|text| text.parse()).transpose();
        id.map_err(|error: T::Err| self.column(column, error))
    }

    /// Reads bytes of a fixed number.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn fixed<const N: usize>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<[u8; N], StoreError> {
        row.fixed(column).map_err(|error| self.column(column, error))
    }

    /// Reads a column that contains a 128-bit id.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn bits(&self, row: &impl Columns<D>, column: &str) -> Result<u128, StoreError> {
        self.fixed(row, column).map(u128::from_be_bytes)
    }

    /// Reads a column that contains a 128-bit id or null.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn maybe_bits(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<Option<u128>, StoreError> {
        let bytes = row.maybe_fixed(column).map_err(|error| self.column(column, error))?;
        Ok(bytes.map(u128::from_be_bytes))
    }

    /// Reads a column that contains a hash.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn hash(&self, row: &impl Columns<D>, column: &str) -> Result<Hash, StoreError> {
        self.fixed(row, column).map(Hash)
    }

    /// Reads a column that contains a count.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn count<T: TryFrom<i64>>(
        &self,
        row: &impl Columns<D>,
        column: &str,
    ) -> Result<T, StoreError> {
        let found: i64 = self.plain(row, column)?;
        let valid = T::try_from(found);
        valid.map_err(|_| self.column(column, format_args!("{found} is not a valid count")))
    }
}

/// Serialises a value for a JSON column.
///
/// # Errors
/// [`StoreError::Conflict`] for a value without a JSON form.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unwritable(&error))
}

/// Returns the name of an enum variant, as serde writes it.
///
/// # Errors
/// [`StoreError::Conflict`] for a value that is not written as a text.
pub fn to_word<T: Serialize>(value: &T) -> Result<String, StoreError> {
    let text = serde_json::to_value(value).map_err(|error| unwritable(&error))?;
    String::deserialize(text).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Conflict {
        location: "a record".to_owned(),
        expected: "a value that has a JSON form".to_owned(),
        found: error.to_string(),
    }
}

/// Converts a count to the integer type of databases, saturating. Such large counts do not occur.
pub fn to_integer(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
