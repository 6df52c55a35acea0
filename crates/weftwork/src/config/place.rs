//! Locations of stores.

use super::{Origin, Surroundings};
use crate::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_store::{MemoryStore, Store, StoreError};

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// In memory, lost when the process ends. Written `memory`.
    Memory,
    /// A SQLite file. Written `sqlite:PATH`.
    Sqlite(PathBuf),
    /// A Postgres database. Written as its URL, or `postgres:` and connection parameters.
    Postgres(Address),
}

/// The address of a database. It may contain a password, which `Debug` and `Display` omit.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    whole: String,
    name: String,
}

impl Address {
    fn new(whole: &str) -> Self {
        let unknown = || "postgres".to_owned();
        #[cfg(feature = "postgres")]
        let name = weftwork_postgres::name_of_address(whole).unwrap_or_else(unknown);
        #[cfg(not(feature = "postgres"))]
        let name = unknown();
        Self { whole: whole.to_owned(), name }
    }

    /// The complete address, including the password.
    #[must_use]
    pub fn whole(&self) -> &str {
        &self.whole
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

/// The accepted store settings, for error messages.
pub(super) const EXPECTED: &str =
    "`memory`, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";

impl StorePlace {
    /// Parses a store setting; `None` if it is not valid.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "memory" => Some(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Some(Self::Sqlite(PathBuf::from(path))),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Some(Self::Postgres(Address::new(text)))
            }
            Some(("postgres", rest)) if !rest.is_empty() => {
                Some(Self::Postgres(Address::new(rest)))
            }
            _ => None,
        }
    }

    /// Returns the place with the path of a file: see [`located`](super::located). A path that is
    /// relative to the working directory stays as it is written.
    pub(super) fn located(
        self,
        origin: &Origin,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Error> {
        let Self::Sqlite(path) = &self else { return Ok(self) };
        let Some(text) = path.to_str() else { return Ok(self) };
        let found = super::located(text, origin, surroundings)?;
        Ok(if found == surroundings.folder.join(path) { self } else { Self::Sqlite(found) })
    }

    /// A Postgres database, named by its URL or by connection parameters.
    #[must_use]
    pub fn postgres(address: &str) -> Self {
        Self::Postgres(Address::new(address))
    }

    /// Opens the store. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] of the store; [`StoreError::Unavailable`] for a kind that is not built in.
    pub fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let options = weftwork_sqlite::Options::default();
                Ok(Arc::new(weftwork_sqlite::SqliteStore::open(path, &options)?))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => {
                let clock = Arc::new(weftwork_graph::SystemClock::new());
                let options = weftwork_postgres::Options::new(clock);
                let store = weftwork_postgres::PostgresStore::open(address.whole(), &options)?;
                Ok(Arc::new(store))
            }
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(path) => Err(not_built_in(path.display(), "sqlite")),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(address) => Err(not_built_in(address, "postgres")),
        }
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn not_built_in(place: impl fmt::Display, feature: &str) -> StoreError {
    StoreError::Unavailable {
        location: place.to_string(),
        reason: format!("this program was built without the feature `{feature}`"),
        retriable: false,
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}
