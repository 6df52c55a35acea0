//! A request for a run, before the run is in the store.

use crate::context::begins_from;
use crate::runtime::Runtime;
use crate::thread_snapshot::ThreadSnapshot;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio::sync::OnceCell;
use weftwork_engine::EngineError;
use weftwork_graph::run_loop::out_of_node;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::invariants::missing;
use weftwork_store::{RunRow, ThreadRow};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{Multitask, RunInput, RunRequest, RunStatus};

/// A request for a run, its graph, and its thread as the checks of the request see it.
pub(super) struct RequestedRun<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) request: RunRequest,
    pub(super) graph: CompiledGraph,
    pub(super) thread: ThreadSnapshot,
    /// Questions of the state from which the run begins, once this state was read.
    pub(super) asked: OnceCell<Vec<Interrupt>>,
}

impl<'a> RequestedRun<'a> {
    pub(super) fn new(runtime: &'a Runtime, request: RunRequest, graph: CompiledGraph) -> Self {
        let thread = ThreadSnapshot::new(runtime.store(), &request.principal, &request.thread);
        Self { runtime, request, graph, thread, asked: OnceCell::new() }
    }

    /// Checks that the graph can read the thread, and that the thread has the checkpoint from which to
    /// continue.
    pub(super) async fn check_thread(&self) -> Result<(), RuntimeError> {
        let Self { request, .. } = self;
        // A request with a key may be a repetition, whose checkpoint is no longer the newest.
        let may_repeat = request.options.idempotency_key.is_some();
        if request.options.at.is_some() && !may_repeat {
            self.check_loads().await?;
        }
        let Some(thread) = self.thread.row().await? else {
            return match &request.input {
                RunInput::Start { .. } | RunInput::Update { .. } => Ok(()),
                RunInput::Command(command) if !command.only_answers() => Ok(()),
                RunInput::Command(_) => Err(missing("thread", &request.thread).into()),
                _ => Err(self.nothing_to_continue()),
            };
        };
        self.check_other_graph(thread).await?;
        let is_at_rest = is_at_rest(thread);
        let lacks_state = thread.head.is_none() && request.input == RunInput::Continue;
        if is_at_rest && is_of_other(thread, request) {
            let read = self.check_loads().await;
            read.map_err(|error| as_of_other(error, thread, &request.graph))?;
            return if lacks_state { Err(self.nothing_to_continue()) } else { Ok(()) };
        }
        if is_at_rest && lacks_state && !may_repeat {
            let runs = self.thread.runs().await?;
            // A run that waits for its turn may have begun by the time of this one.
            if runs.iter().all(|run| run.status.is_final()) {
                return Err(self.nothing_to_continue());
            }
        }
        Ok(())
    }

    /// Refuses a run without input on an instance that has nothing to continue: it would end as an
    /// activity that failed. Behind an activity, the run would find what that one leaves, so that it
    /// begins at once or is refused.
    pub(super) async fn check_continuation(&mut self) -> Result<(), RuntimeError> {
        self.request.options.multitask = Multitask::Reject;
        let key = &self.request.options.idempotency_key;
        let same_key = |run: &RunRow| run.new.options.idempotency_key == *key;
        if key.is_some() && self.thread.runs().await?.iter().any(same_key) {
            return Ok(());
        }
        let RunRequest { principal, thread, .. } = &self.request;
        if self.runtime.state(principal, thread).await?.next.is_empty() {
            return Err(self.nothing_to_continue());
        }
        Ok(())
    }

    /// Refuses a run on the thread of another graph, unless the request allows it and no question is
    /// open there: a superstep of this graph would replace that of the question.
    async fn check_other_graph(&self, thread: &ThreadRow) -> Result<(), RuntimeError> {
        let request = &self.request;
        if !is_of_other(thread, request) {
            return Ok(());
        }
        if !request.options.other_graph {
            let reason = "a thread is continued by the graph that ran on it last";
            return Err(other_graph(thread, &request.graph, reason.to_owned()));
        }
        let rows = self.thread.questions().await?;
        let Some(open) = rows.iter().find(|row| row.is_open()) else { return Ok(()) };
        let id = open.interrupt.id;
        let reason = format!("it waits for interrupt `{id}`, which the run would replace");
        Err(other_graph(thread, &request.graph, reason))
    }

    /// Reads the thread as the run would, once. This decodes types of users, which may panic.
    pub(super) async fn check_loads(&self) -> Result<(), RuntimeError> {
        self.asked.get_or_try_init(|| self.read_asked(Subgraphs::Included)).await.map(drop)
    }

    /// Reads the questions of the state from which the run begins.
    pub(super) async fn read_asked(
        &self,
        subgraphs: Subgraphs,
    ) -> Result<Vec<Interrupt>, RuntimeError> {
        let request = &self.request;
        let host = self.runtime.0.context.admitting(&request.principal);
        let at = begins_from(&request.thread, &request.options, request.options.at);
        let state = self.graph.state(&host, &at, subgraphs == Subgraphs::Included);
        let state = AssertUnwindSafe(state).catch_unwind().await;
        Ok(state.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref())))?.interrupts)
    }

    fn nothing_to_continue(&self) -> RuntimeError {
        RuntimeError::NothingToContinue { thread: self.request.thread.to_string() }
    }
}

/// Treatment of subgraphs by a read of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subgraphs {
    /// Their states are read too.
    Included,
    Omitted,
}

/// Returns `true` if the last run of a thread was of another graph. What a run that rolls back will
/// read is not known yet.
fn is_of_other(thread: &ThreadRow, request: &RunRequest) -> bool {
    thread.graph.as_ref().is_some_and(|found| *found != request.graph)
        && request.options.roll_back.is_none()
}

/// Returns `true` if no run of a thread is unfinished; otherwise what the next one reads is not known.
fn is_at_rest(thread: &ThreadRow) -> bool {
    thread.status.is_none_or(RunStatus::is_final)
}

/// Returns the error of a graph that cannot read the thread of another one: it lacks a node that is
/// due, or has a channel of the same name and another kind.
fn as_of_other(error: RuntimeError, thread: &ThreadRow, asked: &str) -> RuntimeError {
    match error {
        RuntimeError::Engine(EngineError::LostNode { .. } | EngineError::OtherBuild { .. }) => {
            other_graph(thread, asked, error.to_string())
        }
        error => error,
    }
}

fn other_graph(thread: &ThreadRow, asked: &str, reason: String) -> RuntimeError {
    RuntimeError::OtherGraph {
        thread: thread.id.to_string(),
        found: thread.graph.clone().unwrap_or_default(),
        asked: asked.to_owned(),
        reason,
    }
}
