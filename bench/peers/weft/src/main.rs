//! The benchmark cases on this repository's engine: runs in this process without a checkpointer,
//! with the one in memory, and with one over the SQLite store.

mod graphs;
mod wide;

use graphs::{Bench, BenchUpdate};
use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, Waits};
use std::sync::Arc;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{CompiledGraph, State};
use weftwork_runtime::StoreCheckpointer;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::Principal;
use wide::Wide;

fn graph_of(case: Case) -> Result<CompiledGraph, Failure> {
    match case {
        Case::Seq10 => graphs::chain(),
        Case::Fan100 => graphs::fan(),
        Case::React50 => graphs::react(),
        Case::Wide100 => wide::chain(),
    }
}

const OTHER: &str = "the run has a state of another type";

/// The state at the end of a run.
enum Ended {
    Bench(State<Bench>),
    Wide(State<Wide>),
}

struct InProcess {
    graph: CompiledGraph,
    host: Host,
    case: Case,
}

impl Engine for InProcess {
    type Input = (Start, Arc<str>);
    type Output = Ended;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let mut host = Host::new();
        match cell.checkpointer {
            Saver::Memory => host = host.with_checkpointer(InMemoryCheckpointer::new()),
            Saver::Sqlite => {
                let durability = match cell.waits {
                    Waits::Seldom => Durability::Normal,
                    Waits::Always => Durability::Full,
                };
                let options = Options { durability, ..Options::default() };
                let store = Arc::new(SqliteStore::open(&cell.file, &options)?);
                host = host.with_checkpointer(StoreCheckpointer::new(store, Principal::local()));
            }
            Saver::None => {}
        }
        Ok(Self { graph: graph_of(cell.case)?, host, case: cell.case })
    }

    fn input(&self, run: u64) -> Result<Self::Input, Failure> {
        let start = match self.case {
            Case::Wide100 => wide::start(),
            _ => Start::typed(BenchUpdate::new()),
        };
        Ok((start.map_err(|error| format!("the input: {error:?}"))?, format!("t{run}").into()))
    }

    async fn run(&self, input: Self::Input) -> Result<Self::Output, Failure> {
        let (start, thread) = input;
        let run = self.graph.run(&self.host, start).thread(thread).step_limit(1_000);
        let finished = run.finish().await?;
        if !finished.is_completed() {
            return Err(format!("the run did not complete: {finished:?}").into());
        }
        Ok(match self.case {
            Case::Wide100 => Ended::Wide(finished.state().ok_or(OTHER)?),
            _ => Ended::Bench(finished.state().ok_or(OTHER)?),
        })
    }

    fn found(output: &Ended) -> Found {
        match output {
            Ended::Bench(state) => graphs::found(state),
            Ended::Wide(state) => wide::found(state),
        }
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        if self.host.checkpointer().is_none() {
            return Ok(None);
        }
        let history =
            self.graph.history(&self.host, &StateQuery::thread(format!("t{run}"))).await?;
        Ok(Some(history.len() as u64))
    }
}

fn main() -> Result<(), Failure> {
    peers_harness::main::<InProcess>(Cell::from_args()?)
}
