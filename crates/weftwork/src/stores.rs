//! Runtimes over the stores of this crate.

use crate::Error;
use crate::config::StorePlace;
use weftwork_runtime::{Runtime, RuntimeBuilder};

/// Constructors of runtimes over durable stores: `Runtime::sqlite(path)` and
/// `Runtime::postgres(url)`.
pub trait OpenRuntime {
    /// A runtime over the SQLite store in a file, which is created if it does not exist. Several
    /// processes may use the file at a time.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be opened.
    fn sqlite(file: impl Into<std::path::PathBuf>) -> Result<RuntimeBuilder, Error>;

    /// A runtime over a Postgres database, named by its URL. The tables are created if they do not
    /// exist.
    ///
    /// # Errors
    /// [`Error::Store`] if the database cannot be opened.
    fn postgres(url: &str) -> Result<RuntimeBuilder, Error>;
}

impl OpenRuntime for Runtime {
    fn sqlite(file: impl Into<std::path::PathBuf>) -> Result<RuntimeBuilder, Error> {
        Ok(Self::builder(StorePlace::Sqlite(file.into()).open()?))
    }

    fn postgres(url: &str) -> Result<RuntimeBuilder, Error> {
        Ok(Self::builder(StorePlace::postgres(url).open()?))
    }
}
