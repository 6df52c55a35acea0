//! The work as hosted runs, over a file or in memory: accepted, claimed, committed after each
//! superstep, with a log of events.

use super::Case;
use crate::inline::{self, Work};
use std::path::Path;
use std::sync::Arc;
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{MemoryStore, Store};
use weftwork_types::caller::Caller;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::{Principal, ThreadId};

pub(crate) const GRAPH: &str = "bench:case";
/// A thread by itself.
pub(crate) const THREAD: &str = "bench";

/// A runtime over a store of its own.
pub(crate) struct Hosted {
    runtime: Runtime,
    work: Work,
    /// Folder of the file; `None` for a store in memory.
    _dir: Option<tempfile::TempDir>,
}

impl Hosted {
    /// Opens a runtime over a file.
    pub(crate) async fn open(case: &Case) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
        Self::of_case(case, Arc::new(store), Some(dir)).await
    }

    /// Opens a runtime over a store in memory.
    pub(crate) async fn in_memory(case: &Case) -> Self {
        Self::of_case(case, Arc::new(MemoryStore::new()), None).await
    }

    async fn of_case(case: &Case, store: Arc<dyn Store>, dir: Option<tempfile::TempDir>) -> Self {
        let builder = Runtime::builder(store).graph(GRAPH, case.graph.clone());
        let runtime = builder.open().await.expect("opens");
        Self { runtime, work: case.work, _dir: dir }
    }

    /// A runtime over a store, for threads on which little happens.
    pub(crate) async fn over(store: Arc<dyn Store>) -> Runtime {
        Runtime::builder(store).graph(GRAPH, super::one()).open().await.expect("opens")
    }

    /// Makes a store with one thread, on which one node ran.
    pub(crate) async fn fill(file: &Path) {
        let store = SqliteStore::open(file, &Options::default()).expect("opens");
        let runtime = Self::over(Arc::new(store)).await;
        let made = runtime.execute(request(THREAD, serde_json::json!({}))).await;
        let handle = made.expect("accepted");
        drop(handle.events);
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
    }

    pub(crate) fn input(&self, thread: u64) -> RunRequest {
        let wide = self.work == Work::Wide100;
        let input = if wide { inline::wide().collect() } else { serde_json::json!({}) };
        request(&format!("t{thread}"), input)
    }

    /// Runs on a thread of its own; its checkpoints are in the store when the run ends.
    pub(crate) async fn run(&self, request: RunRequest) {
        let at = (request.principal.clone(), request.thread.clone());
        let handle = self.runtime.execute(request).await.expect("accepted");
        drop(handle.events);
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
        let row = self.runtime.store().thread(&at.0, &at.1).await.expect("can be read");
        assert!(row.head.is_some(), "its checkpoints are in the store");
    }
}

fn request(thread: &str, input: serde_json::Value) -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("bench").expect("valid id"),
        graph: GRAPH.to_owned(),
        thread: ThreadId::new(thread).expect("valid id"),
        input: RunInput::Start { input },
        options: RunOptions::default(),
    }
}
