//! One way to run a graph and look at what came of it.

use futures_util::StreamExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{CompiledGraph, Runtime};
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::{Clock, GraphExecutor};
use weftwork_types::run::{RunFinal, RunInput, RunOptions, RunRequest};
use weftwork_types::{InterruptId, Principal, ThreadId};

/// A runtime with one graph, and the thread `t` on it.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Runtime,
}

impl Bench {
    pub(crate) async fn new(graph: CompiledGraph) -> Self {
        Self::on(Arc::new(MemoryStore::new()), graph).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, graph: CompiledGraph) -> Self {
        let runtime = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph).open().await;
        Self { store, runtime: runtime.expect("the runtime opens") }
    }

    pub(crate) async fn with_clock(
        store: Arc<dyn Store>,
        graph: CompiledGraph,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let builder = Runtime::builder(Arc::clone(&store)).graph("test:graph", graph);
        let runtime = builder.clock(clock).open().await.expect("the runtime opens");
        Self { store, runtime }
    }

    pub(crate) fn request(input: RunInput) -> RunRequest {
        RunRequest {
            principal: Principal::local(),
            caller: Caller::local("request").expect("valid id"),
            graph: "test:graph".to_owned(),
            thread: thread(),
            input,
            options: RunOptions::default(),
        }
    }

    pub(crate) async fn run(&self, request: RunRequest) -> (Vec<RunEvent>, RunFinal) {
        let handle = self.runtime.execute(request).await.expect("the run is accepted");
        let events: Vec<_> = handle.events.collect().await;
        (events, handle.outcome.await)
    }

    pub(crate) async fn start(&self, input: Value) -> RunFinal {
        self.run(Self::request(RunInput::Start { input })).await.1
    }

    pub(crate) async fn resume(&self, answers: BTreeMap<InterruptId, Value>) -> RunFinal {
        self.run(Self::request(RunInput::Resume { answers })).await.1
    }

    pub(crate) async fn proceed(&self) -> RunFinal {
        self.run(Self::request(RunInput::Continue)).await.1
    }
}

pub(crate) fn thread() -> ThreadId {
    ThreadId::new("t").expect("valid id")
}

pub(crate) fn completed(outcome: RunFinal) -> Value {
    match outcome {
        RunFinal::Completed { output } => output,
        other => panic!("expected a completed run, got {other:?}"),
    }
}

pub(crate) fn interrupted(outcome: RunFinal) -> Vec<InterruptId> {
    match outcome {
        RunFinal::Interrupted { interrupts } => interrupts,
        other => panic!("expected an interrupted run, got {other:?}"),
    }
}

pub(crate) fn failed(outcome: RunFinal) -> (String, String) {
    match outcome {
        RunFinal::Failed { fault } => (fault.code, fault.message),
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
