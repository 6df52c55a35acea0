//! A store of one's own, over one SQLite file, and its conformance: `cargo run --example own_store`.
//!
//! The library needs four methods of a database, and derives everything else. Several processes can
//! use the file at once.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "cases fail by panics and are reported"
)]

use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork::prelude::*;
use weftwork::store::rows::{Batch, Key, KeyRange, Order, RowStore, Rows, Value, Written};
use weftwork::store::{self, Store, StoreError};
use weftwork::types::BoxFuture;
use weftwork_store_conformance::{CASES, rows, run_case};

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

#[derive(Debug)]
struct OwnRows {
    location: String,
    database: Mutex<Connection>,
}

impl OwnRows {
    fn open(file: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(file)?;
        database.busy_timeout(Duration::from_secs(10))?;
        database.pragma_update(None, "journal_mode", "wal")?;
        database.execute(SCHEMA, [])?;
        Ok(Self { location: format!("own:{}", file.display()), database: Mutex::new(database) })
    }

    /// Runs `work` in a transaction once the future is polled. A server would do so on a thread for
    /// blocking work.
    fn with<'a, T: Send + 'a>(
        &'a self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'a,
    ) -> BoxFuture<'a, store::Result<T>> {
        Box::pin(async move {
            let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
            let run = || {
                let transaction = database.transaction_with_behavior(behavior)?;
                let done = work(&transaction)?;
                transaction.commit()?;
                Ok(done)
            };
            run().map_err(|error: rusqlite::Error| StoreError::Unavailable {
                location: self.location.clone(),
                reason: error.to_string(),
                retriable: error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy),
            })
        })
    }
}

fn read(database: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<Value>> {
    let mut query = database.prepare_cached("SELECT value FROM rows WHERE key = ?")?;
    query.query_row([key.as_bytes()], |row| row.get(0)).optional()
}

impl Rows for OwnRows {
    fn location(&self) -> &str {
        &self.location
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, store::Result<Vec<Option<Value>>>> {
        self.with(TransactionBehavior::Deferred, move |database| {
            keys.iter().map(|key| read(database, key)).collect()
        })
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, store::Result<Vec<(Key, Value)>>> {
        self.with(TransactionBehavior::Deferred, move |database| {
            let order = match order {
                Order::Ascending => "ASC",
                Order::Descending => "DESC",
            };
            let mut query = database.prepare_cached(&format!(
                "SELECT key, value FROM rows WHERE key >= ? AND key < ? ORDER BY key {order} LIMIT ?"
            ))?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let KeyRange { first, end } = range;
            let found = query.query_map(params![first.as_bytes(), end.as_bytes(), limit], |row| {
                Ok((Key::from(row.get::<_, Vec<u8>>(0)?), row.get(1)?))
            })?;
            found.collect()
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, store::Result<Written>> {
        // No other process writes between the comparison and the end of the transaction.
        self.with(TransactionBehavior::Immediate, move |database| {
            for (key, expected) in batch.expected {
                if read(database, &key)? != expected {
                    return Ok(Written::Conflict);
                }
            }
            let mut put = database.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?, ?)")?;
            let mut delete = database.prepare_cached("DELETE FROM rows WHERE key = ?")?;
            for (key, value) in batch.writes {
                match value {
                    Some(value) => put.execute(params![key.as_bytes(), value])?,
                    None => delete.execute([key.as_bytes()])?,
                };
            }
            Ok(Written::Done)
        })
    }
}

async fn fresh_rows() -> Arc<dyn Rows> {
    Arc::new(OwnRows::open(Path::new(":memory:")).expect("opens"))
}

async fn fresh_store() -> Arc<dyn Store> {
    Arc::new(RowStore::new(fresh_rows().await))
}

/// Runs the suites, and returns the numbers of passed and failed cases by group.
async fn validate() -> BTreeMap<&'static str, [usize; 2]> {
    let mut report: BTreeMap<_, [usize; 2]> = BTreeMap::new();
    for case in rows::CASES {
        let ran = tokio::spawn(rows::run_case(case.name, fresh_rows)).await;
        report.entry("rows").or_default()[usize::from(ran.is_err())] += 1;
    }
    for case in CASES {
        let ran = tokio::spawn(run_case(case.name, fresh_store)).await;
        report.entry(case.group).or_default()[usize::from(ran.is_err())] += 1;
    }
    report
}

async fn answer(ctx: Ctx) -> NodeResult<ChatUpdate> {
    ctx.interrupt(json!("May I answer?"))?;
    Ok(ChatUpdate::new().messages([Message::assistant("Hello.")]))
}

/// Opens the file as a process does that starts.
async fn open(file: &Path) -> Result<Thread, Box<dyn std::error::Error>> {
    let graph = Graph::<Chat>::new("chat").node("answer", answer).edge(START, "answer").build()?;
    let store = Arc::new(RowStore::new(OwnRows::open(file)?));
    let runtime = Runtime::builder(store).graph("chat", graph).open().await?;
    Ok(runtime.thread("chat", "t")?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (group, [passed, failed]) in validate().await {
        println!("{group}: {passed} passed, {failed} failed");
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("own.db");
    let mut messages = 0;
    for _ in 0..2 {
        let input = ChatUpdate::new().messages([Message::user("Hi.")]);
        let asked = open(&file).await?.start(input).await?;
        assert_eq!(asked.questions().len(), 1);
        // The run that asked is answered after a restart.
        let ended = open(&file).await?.answer(json!(true)).await?;
        messages = ended.state::<Chat>()?.messages().len();
    }
    println!("{messages} messages after two runs");
    Ok(())
}
