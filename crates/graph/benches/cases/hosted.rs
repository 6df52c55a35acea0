//! The work as hosted runs over the SQLite store: accepted, claimed, committed after each
//! superstep, with a log of events.

use super::Case;
use crate::inline::{self, Work};
use std::sync::Arc;
use weftwork_graph::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::caller::Caller;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunFinal, RunInput, RunOptions, RunRequest};
use weftwork_types::{Principal, ThreadId};

const GRAPH: &str = "bench:case";

/// A runtime over a file of its own.
pub(crate) struct Hosted {
    runtime: Runtime,
    work: Work,
    _dir: tempfile::TempDir,
}

impl Hosted {
    pub(crate) async fn open(case: &Case) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
        let builder = Runtime::builder(Arc::new(store)).graph(GRAPH, case.graph.clone());
        let runtime = builder.open().await.expect("opens");
        Self { runtime, work: case.work, _dir: dir }
    }

    pub(crate) fn input(&self, thread: u64) -> RunRequest {
        let wide = self.work == Work::Wide100;
        let input = if wide { inline::wide().collect() } else { serde_json::json!({}) };
        RunRequest {
            principal: Principal::local(),
            caller: Caller::local("bench").expect("valid id"),
            graph: GRAPH.to_owned(),
            thread: ThreadId::new(format!("t{thread}")).expect("valid id"),
            input: RunInput::Start { input },
            options: RunOptions::default(),
        }
    }

    /// One run on a thread of its own; its checkpoints are in the file when it ends.
    pub(crate) async fn run(&self, request: RunRequest) {
        let at = (request.principal.clone(), request.thread.clone());
        let handle = self.runtime.execute(request).await.expect("accepted");
        drop(handle.events);
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunFinal::Completed { .. }), "{outcome:?}");
        let row = self.runtime.store().thread(&at.0, &at.1).await.expect("can be read");
        assert!(row.head.is_some(), "its checkpoints are in the file");
    }
}
