//! A common way to run a graph and inspect the result.

use futures_util::StreamExt;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use tempfile::TempDir;
use weftwork_graph::CompiledGraph;
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::memory::MemoryStore;
use weftwork_store::rows::{MemoryRows, RowStore};
use weftwork_store::{CheckpointNamespace, FoundCheckpoint, Store};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{Clock, GraphExecutor};
use weftwork_types::run::{Durability as Keeping, RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::{InterruptId, Principal, ThreadId};

/// Where the tests of a thread run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    /// Each run on a runtime of its own over the same store.
    Rebuilt,
    Sqlite(Durability),
    /// A store over the four methods of `Rows`.
    Rows,
    /// On memory or SQLite, each run writing its checkpoints behind its supersteps.
    Behind(Option<Durability>),
    /// In memory, each run keeping its checkpoints until its end.
    AtExit,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Memory) };
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// Runs a test at another place than in memory.
pub(crate) fn within(place: Place, test: fn()) {
    PLACE.set(place);
    test();
    // The stores of the test are closed by now, or fail alone.
    FOLDERS.take();
}

/// Runs the tests of a file over SQLite too, with each run on a runtime of its own, and with
/// checkpoints that are kept otherwise; those that look at the commits of supersteps, not with ones
/// that wait for the end.
macro_rules! on_each_store {
    ($($name:ident),+ $(,)?) => { on_each_store![$($name),+; each_step:]; };
    ($($name:ident),* $(,)?; each_step: $($step:ident),* $(,)?) => {
        mod rebuilt {
            use crate::support::{Place, within};
            $(#[test] fn $name() { within(Place::Rebuilt, super::$name); })*
            $(#[test] fn $step() { within(Place::Rebuilt, super::$step); })*
        }
        mod rows {
            use crate::support::{Place, within};
            $(#[test] fn $name() { within(Place::Rows, super::$name); })*
            $(#[test] fn $step() { within(Place::Rows, super::$step); })*
        }
        mod sqlite_normal {
            use crate::support::{Durability, Place, within};
            $(#[test] fn $name() { within(Place::Sqlite(Durability::Normal), super::$name); })*
            $(#[test] fn $step() { within(Place::Sqlite(Durability::Normal), super::$step); })*
        }
        mod sqlite_full {
            use crate::support::{Durability, Place, within};
            $(#[test] fn $name() { within(Place::Sqlite(Durability::Full), super::$name); })*
            $(#[test] fn $step() { within(Place::Sqlite(Durability::Full), super::$step); })*
        }
        mod behind {
            use crate::support::{Place, within};
            $(#[test] fn $name() { within(Place::Behind(None), super::$name); })*
            $(#[test] fn $step() { within(Place::Behind(None), super::$step); })*
        }
        mod behind_sqlite_full {
            use crate::support::{Durability, Place, within};
            $(#[test] fn $name() { within(Place::Behind(Some(Durability::Full)), super::$name); })*
            $(#[test] fn $step() { within(Place::Behind(Some(Durability::Full)), super::$step); })*
        }
        mod at_exit {
            $(#[test] fn $name() {
                crate::support::within(crate::support::Place::AtExit, super::$name);
            })*
        }
    };
}
pub(crate) use on_each_store;
pub(crate) use weftwork_sqlite::Durability;

/// Returns `true` if supersteps are written while the next ones run.
pub(crate) fn writes_behind() -> bool {
    matches!(PLACE.get(), Place::Behind(_))
}

/// An empty store of the kind the test runs on.
pub(crate) fn store() -> Arc<dyn Store> {
    let (Place::Sqlite(durability) | Place::Behind(Some(durability))) = PLACE.get() else {
        return match PLACE.get() {
            Place::Rows => Arc::new(RowStore::new(MemoryRows::default())),
            _ => Arc::new(MemoryStore::new()),
        };
    };
    let folder = TempDir::new().expect("a folder");
    let options = Options { durability, ..Options::default() };
    let store = SqliteStore::open(folder.path().join("weft.db"), &options).expect("opens");
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    Arc::new(store)
}

/// A runtime with one graph, and the thread `t` on it.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Runtime,
    graph: CompiledGraph,
    clock: Option<Arc<dyn Clock>>,
}

impl Bench {
    pub(crate) async fn new(graph: CompiledGraph) -> Self {
        Self::on(store(), graph).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, graph: CompiledGraph) -> Self {
        Self::open(store, graph, None).await
    }

    pub(crate) async fn with_clock(
        store: Arc<dyn Store>,
        graph: CompiledGraph,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::open(store, graph, Some(clock)).await
    }

    async fn open(
        store: Arc<dyn Store>,
        graph: CompiledGraph,
        clock: Option<Arc<dyn Clock>>,
    ) -> Self {
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph.clone());
        let builder = match &clock {
            Some(clock) => builder.clock(Arc::clone(clock)),
            None => builder,
        };
        let runtime = builder.open().await.expect("the runtime opens");
        Self { store, runtime, graph, clock }
    }

    pub(crate) fn request(input: RunInput) -> RunRequest {
        RunRequest {
            principal: Principal::local(),
            caller: Caller::local("request").expect("valid id"),
            graph: "test:graph".to_owned(),
            thread: thread(),
            input,
            options: options(),
        }
    }

    pub(crate) async fn run(&self, request: RunRequest) -> (Vec<RunEvent>, RunOutcome) {
        if PLACE.get() == Place::Rebuilt {
            let graph = self.graph.clone();
            let clock = self.clock.clone();
            let fresh = Self::open(Arc::clone(&self.store), graph, clock).await;
            return Self::watched(&fresh.runtime, request).await;
        }
        Self::watched(&self.runtime, request).await
    }

    async fn watched(runtime: &Runtime, request: RunRequest) -> (Vec<RunEvent>, RunOutcome) {
        let handle = runtime.execute(request).await.expect("the run is accepted");
        let events: Vec<_> = handle.events.collect().await;
        (events, handle.outcome.await)
    }

    /// The checkpoints of the outermost graph, newest first.
    pub(crate) async fn checkpoints(&self) -> Vec<FoundCheckpoint> {
        let at = CheckpointNamespace { thread: thread(), ns: String::new() };
        let page = self.store.page(&Principal::local(), &at, None, usize::MAX).await;
        page.expect("reads")
    }

    pub(crate) async fn start(&self, input: Value) -> RunOutcome {
        self.run(Self::request(RunInput::Start { input })).await.1
    }

    pub(crate) async fn resume(&self, answers: BTreeMap<InterruptId, Value>) -> RunOutcome {
        self.run(Self::request(RunInput::answers(answers))).await.1
    }

    pub(crate) async fn proceed(&self) -> RunOutcome {
        self.run(Self::request(RunInput::Continue)).await.1
    }
}

/// Returns the run options of the test.
pub(crate) fn options() -> RunOptions {
    let durability = match PLACE.get() {
        Place::Behind(_) => Keeping::Async,
        Place::AtExit => Keeping::Exit,
        _ => Keeping::Sync,
    };
    RunOptions { durability, ..RunOptions::default() }
}

pub(crate) fn thread() -> ThreadId {
    ThreadId::new("t").expect("valid id")
}

pub(crate) fn completed(outcome: RunOutcome) -> Value {
    match outcome {
        RunOutcome::Completed { output } => output,
        other => panic!("expected a completed run, got {other:?}"),
    }
}

pub(crate) fn interrupted(outcome: RunOutcome) -> Vec<InterruptId> {
    match outcome {
        RunOutcome::Interrupted { interrupts, .. } => interrupts,
        other => panic!("expected an interrupted run, got {other:?}"),
    }
}

pub(crate) fn failed(outcome: RunOutcome) -> (String, String) {
    match outcome {
        RunOutcome::Failed { fault } => (fault.code, fault.message),
        other => panic!("expected a failed run, got {other:?}"),
    }
}

/// The laws of every run's stream: one `done`, at the end; durable events numbered without gaps.
pub(crate) fn check_stream(events: &[RunEvent]) {
    let done = events.iter().filter(|e| matches!(e.event, AiEvent::Done { .. })).count();
    assert_eq!(done, 1, "exactly one done: {events:#?}");
    assert!(matches!(events.last().expect("events").event, AiEvent::Done { .. }));
    let seqs: Vec<_> = events.iter().filter_map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

/// Waits for a future while time goes by, ten milliseconds whenever nothing else can go on.
pub(crate) async fn moving<T>(clock: &ManualClock, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        let idle = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            done = &mut future => return done,
            () = idle => clock.advance(std::time::Duration::from_millis(10)),
        }
    }
}
