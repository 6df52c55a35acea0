//! Where the processes of a test meet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_graph::SystemClock;
use weftwork_postgres::PostgresStore;
use weftwork_sqlite::{Durability, SqliteStore};
use weftwork_store::Store;
use weftwork_types::port::Clock;

/// A store that several processes open.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    /// A schema of the database of the tests.
    Postgres(String),
}

impl Place {
    pub(crate) fn sqlite(folder: &Path) -> Self {
        Self::Sqlite(folder.join("weft.db"))
    }

    /// `None`, and says so, when there is no database.
    pub(crate) fn postgres(test: &str) -> Option<Self> {
        if std::env::var("WEFT_TEST_POSTGRES").is_err() {
            println!("SKIPPED(no WEFT_TEST_POSTGRES): {test}");
            return None;
        }
        Some(Self::Postgres(format!("chaos_{test}_{}", std::process::id())))
    }

    /// The place as a word for the environment of a worker.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(schema) => format!("postgres:{schema}"),
        }
    }

    pub(crate) fn of(word: &str) -> Self {
        match word.split_once(':').expect("a kind and a place") {
            ("sqlite", path) => Self::Sqlite(path.into()),
            (_, schema) => Self::Postgres(schema.to_owned()),
        }
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        self.open_by(Arc::new(SystemClock::new()))
    }

    /// Opens it with a clock of the test's.
    pub(crate) fn open_by(&self, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(path) => {
                let durability = Durability::Normal;
                let options = weftwork_sqlite::Options { durability, ..Default::default() };
                Arc::new(SqliteStore::open(path, &options).expect("opens"))
            }
            Self::Postgres(schema) => {
                let address = std::env::var("WEFT_TEST_POSTGRES").expect("a database");
                let options = weftwork_postgres::Options {
                    schema: schema.clone(),
                    ..weftwork_postgres::Options::new(clock)
                };
                Arc::new(PostgresStore::open(&address, &options).expect("opens"))
            }
        }
    }
}
