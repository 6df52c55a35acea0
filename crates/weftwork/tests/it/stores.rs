//! The three stores over which tests run.

use rusqlite::types::ValueRef;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::NoTls;
use weftwork::graph::SystemClock;
use weftwork::postgres::PostgresStore;
use weftwork::sqlite::SqliteStore;
use weftwork::store::{MemoryStore, Store};

/// A place for a store, which survives a restart of the runtime.
pub(crate) enum Place {
    Memory(Arc<dyn Store>),
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) fn memory(_: &str) -> Self {
        Self::Memory(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn sqlite(_: &str) -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn postgres(test: &str) -> Self {
        // Names of schemas have at most 63 characters.
        let test: String = test.chars().take(40).collect();
        Self::Postgres(format!("{test}_{}", std::process::id()))
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::clone(store),
            Self::Sqlite(folder) => sqlite(folder.path()),
            Self::Postgres(schema) => postgres(schema),
        }
    }

    /// Reads the bytes of all rows of a table; `None` in memory. Of rows of the log, those of
    /// events: recorded calls are whole.
    pub(crate) async fn rows(&self, table: &str) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            Self::Sqlite(folder) => Some(rows_of_sqlite(folder.path(), table)),
            Self::Postgres(schema) => Some(rows_of_postgres(schema, table).await),
        }
    }
}

/// Opens the store in a folder.
pub(crate) fn sqlite(folder: &Path) -> Arc<dyn Store> {
    let options = weftwork::sqlite::Options::default();
    Arc::new(SqliteStore::open(folder.join("store"), &options).expect("opens"))
}

/// Opens the store in a schema.
pub(crate) fn postgres(schema: &str) -> Arc<dyn Store> {
    let options = weftwork::postgres::Options::new(Arc::new(SystemClock::new()));
    let options = weftwork::postgres::Options { schema: schema.to_owned(), ..options };
    Arc::new(PostgresStore::open(&address(), &options).expect("opens"))
}

fn address() -> String {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork",
    )
}

fn rows_of_sqlite(folder: &Path, table: &str) -> String {
    let db = rusqlite::Connection::open(folder.join("store")).expect("opens");
    let columns = if table == "log" { "events" } else { "*" };
    let mut rows = db.prepare(&format!("SELECT {columns} FROM {table}")).expect("a table");
    let count = rows.column_count();
    let mut rows = rows.query([]).expect("reads");
    let mut text = String::new();
    while let Some(row) = rows.next().expect("reads") {
        for column in 0..count {
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = row.get_ref(column).expect("one")
            {
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
    }
    text
}

async fn rows_of_postgres(schema: &str, table: &str) -> String {
    let table = if table == "log" { "events" } else { table };
    let (client, connection) = tokio_postgres::connect(&address(), NoTls).await.expect("connects");
    let served = tokio::spawn(connection);
    // Bytes are shown as text, otherwise as hexadecimal digits.
    client.batch_execute("SET bytea_output = 'escape'").await.expect("sets");
    let sql = format!("SELECT coalesce(string_agg(t::text, ''), '') FROM {schema}.{table} t");
    let text = client.query_one(&sql, &[]).await.expect("reads").get(0);
    drop(client);
    served.await.expect("no panic").expect("ends well");
    text
}

/// Runs tests of a file over the three stores.
macro_rules! on_three_stores {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::stores::Place::memory(stringify!($name))).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::stores::Place::sqlite(stringify!($name))).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::stores::Place::postgres(stringify!($name))).await;
            })+
        }
    };
}
pub(crate) use on_three_stores;
