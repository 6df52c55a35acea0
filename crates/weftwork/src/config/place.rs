//! Where a store is.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_store::{MemoryStore, Store, StoreError};

/// Where threads are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// Nowhere: they end with the process. Written `memory`.
    Memory,
    /// In a SQLite file. Written `sqlite:PATH`.
    Sqlite(PathBuf),
}

impl StorePlace {
    /// Reads `memory` or `sqlite:PATH`; says what was expected otherwise.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match text.trim().split_once(':') {
            None if text.trim() == "memory" => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            _ => Err("`memory` or `sqlite:PATH`".to_owned()),
        }
    }

    /// Opens the store. Blocks.
    ///
    /// # Errors
    /// What the store says; [`StoreError::Unavailable`] for a kind that is not built in.
    pub fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let options = weftwork_sqlite::Options::default();
                Ok(Arc::new(weftwork_sqlite::SqliteStore::open(path, &options)?))
            }
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(path) => Err(StoreError::Unavailable {
                place: path.display().to_string(),
                reason: "this program was built without the feature `sqlite`".to_owned(),
                retriable: false,
            }),
        }
    }

    /// The folder beside which an app may keep files of its own; `None` for a store in memory.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Memory => None,
            Self::Sqlite(path) => Some(path.parent().map(PathBuf::from).unwrap_or_default()),
        }
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}
