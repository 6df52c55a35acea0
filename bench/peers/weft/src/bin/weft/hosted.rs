//! Runs hosted by a runtime over the SQLite store: accepted, claimed, committed after each
//! superstep, with a log of events.

use crate::graph_of;
use peers_harness::{Case, Cell, Engine, Failure, Found, wide};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::caller::Caller;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunFinal, RunInput, RunOptions, RunRequest};
use weftwork_types::{Principal, ThreadId};

const GRAPH: &str = "bench:case";

pub(crate) struct Hosted {
    runtime: Runtime,
    is_wide: bool,
}

impl Engine for Hosted {
    type Input = RunRequest;
    type Output = Value;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let store = Arc::new(SqliteStore::open(&cell.file, &options)?);
        let runtime = Runtime::builder(store).graph(GRAPH, graph_of(cell.case)?).open().await?;
        Ok(Self { runtime, is_wide: cell.case == Case::Wide100 })
    }

    fn input(&self, run: u64) -> Result<RunRequest, Failure> {
        let input = if self.is_wide { wide().collect() } else { json!({}) };
        Ok(RunRequest {
            principal: Principal::local(),
            caller: Caller::local("bench")?,
            graph: GRAPH.to_owned(),
            thread: ThreadId::new(format!("t{run}"))?,
            input: RunInput::Start { input },
            options: RunOptions { step_limit: Some(1_000), ..RunOptions::default() },
        })
    }

    async fn run(&self, request: RunRequest) -> Result<Value, Failure> {
        let handle = self.runtime.execute(request).await?;
        drop(handle.events);
        match handle.outcome.await {
            RunFinal::Completed { output } => Ok(output),
            other => Err(format!("the run did not complete: {other:?}").into()),
        }
    }

    fn found(output: &Value) -> Found {
        let entries = output.as_object().into_iter().flatten();
        Found::in_json(entries.map(|(key, value)| (key.as_str(), value)))
    }

    async fn stored(&self, _run: u64) -> Result<Option<u64>, Failure> {
        Ok(None)
    }
}
