//! A single task: its attempts and its outcome.

use crate::clock::millis;
use crate::compiled::{CompiledGraph, NodeFn};
use crate::context::{AttemptContext, Ctx, LazyCtx, Local};
use crate::error::{Drain, NODE_FAILED, NODE_TIMED_OUT, NodeError, Stop, records_not_stored};
use crate::extract::TaskInput;
use crate::output::NodeResult;
use crate::run_loop::checkpointer::TaskAnswers;
use crate::run_loop::context::{AttemptSignals, Earlier, Purpose, RunEntry, TaskContext};
use crate::run_loop::panics::{choose_targets, node_panicked};
use crate::run_loop::spans::{task_span, within_span};
use crate::run_loop::task::{on_thread, record_task_end};
use crate::state::{Members, Seen};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::any::Any;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tracing::Span;
use weftwork_engine::pregel::Ahead;
use weftwork_engine::task::Arg;
use weftwork_engine::{NodeIdx, TaskOutput, Write};
use weftwork_types::BoxFuture;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::sequence::SequenceWrite;

/// End of a task.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) what: TaskOutcome,
    /// The answers its questions took.
    pub(crate) answers: Option<TaskAnswers>,
    /// Writes of records that are stored with its result.
    pub(crate) records: Vec<SequenceWrite>,
}

/// Outcome of a task.
#[derive(Debug)]
pub(crate) enum TaskOutcome {
    /// Its writes, and the state with them if its routes have seen it.
    Done(Arc<TaskOutput>, Option<Box<Ahead>>),
    /// Questions are open; none: a subgraph stopped before or after a node.
    Waiting(Vec<Interrupt>),
    Failed(Box<Failed>),
    /// A command for the parent graph, which ends the loop.
    Parent(Box<TaskOutput>),
    /// A graph that it ran was drained, which ends the loop.
    Drained(Drain),
}

/// Failure of a task.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    /// Its writes before it failed.
    pub(crate) partial: Option<TaskOutput>,
    /// Questions of graphs that it called, or its own, that are open nevertheless.
    pub(crate) open: Vec<Interrupt>,
}

impl End {
    /// Returns `true` if a task ended with a question, which is emitted only once the checkpoint it
    /// depends on is stored.
    pub(crate) fn asks(&self) -> bool {
        matches!(self.what, TaskOutcome::Waiting(_))
    }
}

impl TaskOutcome {
    pub(crate) fn failed(fault: Fault) -> Self {
        Self::Failed(Box::new(Failed { fault, partial: None, open: Vec::new() }))
    }
}

/// The result of a node's future, or its panic.
pub(crate) type Polled = Result<NodeResult<TaskOutput>, Box<dyn Any + Send>>;

pub(crate) type NodeFuture = BoxFuture<'static, NodeResult<TaskOutput>>;

/// Everything a task needs to be tried as often as its policy allows.
#[derive(Debug)]
pub(crate) struct TaskRunner {
    pub(crate) at: TaskContext,
    pub(crate) index: NodeIdx,
    pub(crate) node: NodeFn,
    pub(crate) arg: Option<Arc<Arg>>,
    pub(crate) failure: Option<Fault>,
    pub(crate) follows: Follows,
}

/// The consumer of the node's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    Routes,
    /// Nothing: it is an error handler.
    Nothing,
    /// Nothing, and what it returns is no update: it is a task that a node's code called.
    Caller,
}

impl TaskRunner {
    fn graph(&self) -> &CompiledGraph {
        &self.at.loop_context.graph
    }

    pub(crate) fn ctx(&self, attempt: u32) -> Ctx {
        // The idle limit counts from the start of the attempt.
        let beat = millis(self.at.loop_context.run.host.clock().elapsed());
        Ctx(Arc::new(AttemptContext {
            node: Arc::clone(self.at.key.name()),
            step: self.at.step,
            attempt,
            messages: 0.into(),
            own_calls: OnceLock::new(),
            muted: false.into(),
            graphs: 0.into(),
            failure: self.failure.clone(),
            signals: Arc::new(AttemptSignals::new(beat)),
            open: Mutex::default(),
            writes: OnceLock::new(),
            records: OnceLock::new(),
            run: Local { at: self.at.clone(), calls: OnceLock::new() },
        }))
    }

    /// Calls the node; its code may panic before there is a future.
    fn call(&self, ctx: &Ctx) -> Result<NodeFuture, Box<dyn Any + Send>> {
        let cell = OnceCell::new();
        let source = LazyCtx { cell: &cell, make: &|| ctx.clone() };
        let input = TaskInput {
            slots: &self.at.slots,
            plan: self.graph().plan(),
            node: self.index,
            arg: self.arg.as_deref(),
            source: &source,
        };
        catch_unwind(AssertUnwindSafe(|| self.node.call(&input)))
    }

    /// Tries until an attempt finishes, asks a question, or policy gives up.
    pub(crate) async fn attempts(mut self) -> End {
        let mut attempt = 1;
        loop {
            let ctx = self.ctx(attempt);
            let span = task_span(self.at.key.name(), || self.at.id(), attempt);
            let mut end = match self.run_once(&ctx, &span).await {
                Ok(polled) => self.finish(polled, Some(&ctx)),
                Err(cut) => self.end_with(TaskOutcome::failed(cut)),
            };
            record_task_end(&span, &end);
            // The wait before the next attempt is no part of this one.
            drop(span);
            let TaskOutcome::Failed(failed) = &end.what else { return end };
            let fault = &failed.fault;
            let clock = Arc::clone(self.at.loop_context.run.host.clock());
            let retry = self.node.options.retry.as_ref();
            let random = clock.unique();
            let Some(wait) = retry.and_then(|retry| retry.wait(attempt, fault, random)) else {
                if let TaskOutcome::Failed(failed) = &mut end.what
                    && attempt > 1
                {
                    let fault = failed.fault.clone().in_phase(Phase::Node);
                    failed.fault = fault.at_attempt(attempt);
                }
                return end;
            };
            tracing::debug!(node = %self.at.key.name(), attempt, %fault, "trying again");
            let by = self.at.event_source();
            // Before the next attempt emits text: that of the failed one is void.
            let reset = by.reset();
            self.at.emit_event(by, AiEvent::AttemptReset(reset));
            self.at.reset_chunks();
            clock.sleep(wait).await;
            attempt += 1;
            // Graphs that the task runs continue where the failed attempt stopped, as in the
            // reference.
            self.at.entry = RunEntry::Resumes;
            // The failed attempt may have started calls that left no record.
            self.at.earlier = self.at.earlier.max(Earlier::Attempts);
            // The next attempt asks from its first question on, and gets the answers that were
            // given.
            self.at.task_state.asked.store(0, Ordering::Relaxed);
            if self.graph().settings().renumbers_calls {
                // In the reference what an attempt calls is never what the one before it called.
                self.at.task_state.called.store(0, Ordering::Relaxed);
                self.at.task_state.graphs.store(0, Ordering::Relaxed);
            }
            self.at.task_state.resumed.store(false, Ordering::Relaxed);
        }
    }

    async fn run_once(&self, ctx: &Ctx, span: &Span) -> Result<Polled, Fault> {
        let future = match span.in_scope(|| self.call(ctx)) {
            Ok(future) => {
                let future = within_span(span, future);
                on_thread(self.node.options.thread, future, &ctx.0.signals)
            }
            Err(panic) => return Ok(Err(panic)),
        };
        let future = AssertUnwindSafe(future).catch_unwind();
        let limits = self.node.options.timeout;
        if limits.run.is_none() && limits.idle.is_none() {
            return Ok(future.await);
        }
        let cut = std::pin::pin!(self.time_out(ctx, limits.run, limits.idle));
        // The node is polled first: a result at the limit counts.
        match select(std::pin::pin!(future), cut).await {
            Either::Left((ended, _)) => Ok(ended),
            Either::Right((fault, _)) => Err(fault),
        }
    }

    /// Ends when a limit is reached.
    async fn time_out(&self, ctx: &Ctx, run: Option<Duration>, idle: Option<Duration>) -> Fault {
        let clock = self.at.loop_context.run.host.clock();
        let began = clock.elapsed();
        loop {
            // At each wake: heartbeats move the end of the idle limit.
            let now = clock.elapsed();
            let left =
                |since: Duration, limit: Duration| since.saturating_add(limit).saturating_sub(now);
            let run_left = run.map(|limit| (left(began, limit), "an end for", limit));
            let idle_left = idle.map(|l| (left(ctx.last_beat(), l), "a sign of life for", l));
            let first = run_left.into_iter().chain(idle_left).min_by_key(|(left, ..)| *left);
            let Some((left, kind, limit)) = first else { return std::future::pending().await };
            if left.is_zero() {
                let name = self.at.key.name();
                let ms = limit.as_millis();
                let text = format!("node `{name}` was without {kind} {ms} ms, its limit");
                return Fault::new(NODE_TIMED_OUT, text)
                    .retriable(true)
                    .of_kind("NodeTimeoutError");
            }
            clock.sleep(left).await;
        }
    }

    /// Returns the outcome of an attempt.
    pub(crate) fn finish(&self, polled: Polled, ctx: Option<&Ctx>) -> End {
        finish_attempt(&self.at, self.index, self.follows, polled, ctx)
    }

    fn end_with(&self, what: TaskOutcome) -> End {
        End { what, answers: self.at.task_state.answers(), records: Vec::new() }
    }
}

/// Returns the outcome of an attempt of a node, given the consumer of its result.
pub(crate) fn finish_attempt(
    at: &TaskContext,
    node: NodeIdx,
    follows: Follows,
    mut polled: Polled,
    ctx: Option<&Ctx>,
) -> End {
    if let Some(ctx) = ctx {
        match &mut polled {
            Ok(Ok(output)) => output.named.extend(ctx.take_writes()),
            Ok(Err(NodeError(Stop::Own(output)))) => output.named.extend(ctx.take_writes()),
            _ => {}
        }
    }
    let messages = match &polled {
        Ok(Ok(output)) => at.loop_context.messages_in(output),
        _ => Vec::new(),
    };
    let all = at.loop_context.graph.settings().waits_for_answers;
    let mut what = match polled {
        Ok(Ok(output)) => follow_result(at, node, follows, output),
        Ok(Err(NodeError(Stop::Own(output)))) => follow_result(at, node, follows, *output),
        Ok(Err(NodeError(Stop::Failed(fault)))) => {
            // Questions asked beside the failure stay open. The reference drops them.
            let open = if all { ctx.map(Ctx::take_open) } else { None };
            let open = open.unwrap_or_default();
            TaskOutcome::Failed(Box::new(Failed { fault, partial: None, open }))
        }
        Ok(Err(NodeError(Stop::Interrupted))) => {
            // The reference stops at the first of several questions that were asked side by side.
            let open = if all { Ctx::take_open } else { Ctx::take_first_open };
            TaskOutcome::Waiting(ctx.map(open).unwrap_or_default())
        }
        Ok(Err(NodeError(Stop::Parent(output)))) => TaskOutcome::Parent(output),
        Ok(Err(NodeError(Stop::Drained(reason)))) => TaskOutcome::Drained(reason),
        Err(panic) => TaskOutcome::failed(node_panicked(at.key.name(), panic.as_ref())),
    };
    let mut records = Vec::new();
    if matches!(what, TaskOutcome::Done(..)) {
        records = ctx.map(Ctx::take_records).unwrap_or_default();
        if !records.is_empty() && !at.loop_context.stores_records() {
            records.clear();
            what = TaskOutcome::failed(records_not_stored(at.key.name()));
        }
    }
    if let TaskOutcome::Failed(failed) = &mut what {
        // Before it is logged, retried, stored or shown.
        at.shape_fault(&mut failed.fault);
    }
    // What a closer writes depends on a checkpoint that is not stored yet.
    let closes = at.purpose == Purpose::Close;
    let muted = || closes || ctx.is_some_and(|ctx| ctx.0.muted.load(Ordering::Relaxed));
    // Not if a route failed: the task has no result then.
    if matches!(what, TaskOutcome::Done(..)) && !messages.is_empty() && !muted() {
        at.emit_messages(messages);
    }
    End { what, answers: at.task_state.answers(), records }
}

/// The result with its channels found, and with where its routes lead.
fn follow_result(
    at: &TaskContext,
    node: NodeIdx,
    follows: Follows,
    output: TaskOutput,
) -> TaskOutcome {
    let graph = &at.loop_context.graph;
    if follows == Follows::Caller || graph.plan().is_single() {
        return flow_outcome(at.key.name(), output);
    }
    if follows == Follows::Nothing {
        return match find_channels(graph, node, output) {
            Ok(output) => check_targets(graph, node, output, None),
            Err(fault) => TaskOutcome::failed(fault),
        };
    }
    route_result(graph, node, &at.slots, output)
}

fn find_channels(
    graph: &CompiledGraph,
    node: NodeIdx,
    mut output: TaskOutput,
) -> Result<TaskOutput, Fault> {
    if !output.named.is_empty() && !graph.plan().is_single() {
        graph.plan().find_named(node, &mut output).map_err(|error| error.fault())?;
    }
    Ok(output)
}

/// The result of a flow or of a task of one, which is no update.
fn flow_outcome(name: &str, output: TaskOutput) -> TaskOutcome {
    let returned = output.named.iter().any(|(name, _)| name == "__return__");
    let nothing = output.named.is_empty() && output.writes.is_empty() && output.goto.is_empty();
    if returned || nothing {
        return TaskOutcome::Done(Arc::new(output), None);
    }
    let text = format!(
        "`{name}` returned an update, where a flow or a task of one returns a `Finish`; return `Finish::value(..)`"
    );
    TaskOutcome::failed(Fault::new(NODE_FAILED, text))
}

/// The output, unless it leads to nodes the graph does not have.
fn check_targets(
    graph: &CompiledGraph,
    node: NodeIdx,
    output: TaskOutput,
    ahead: Option<Box<Ahead>>,
) -> TaskOutcome {
    match graph.plan().check_targets(node, &output) {
        Ok(()) => TaskOutcome::Done(Arc::new(output), ahead),
        Err(error) => TaskOutcome::failed(error.fault()),
    }
}

/// A node's result with its channels found, and with where its routes lead.
pub(crate) fn route_result(
    graph: &CompiledGraph,
    node: NodeIdx,
    slots: &weftwork_engine::Slots,
    output: TaskOutput,
) -> TaskOutcome {
    let none = graph.routes(node).is_empty();
    let returned = if none { None } else { returned_object(graph, &output) };
    routed_after(graph, node, slots, output, returned)
}

/// The same after a node that returned this object.
pub(crate) fn routed_after(
    graph: &CompiledGraph,
    node: NodeIdx,
    slots: &weftwork_engine::Slots,
    output: TaskOutput,
    returned: Option<Arc<Members>>,
) -> TaskOutcome {
    let routes = graph.routes(node);
    let mut output = match find_channels(graph, node, output) {
        Ok(output) => output,
        Err(fault) => return TaskOutcome::failed(fault),
    };
    if routes.is_empty() {
        return check_targets(graph, node, output, None);
    }
    let plan = graph.plan();
    let wrote = !output.writes.is_empty() || !output.goto.is_empty() || plan.has_edges(node);
    // A route sees the writes of its own node only, as in the reference: the order in which tasks
    // end must not show.
    let ahead = plan.ahead(slots, node, &output).map(Box::new);
    let view = ahead.as_ref().map(|ahead| ahead.seen(plan));
    for route in routes {
        let chosen = match &view {
            Ok(view) => {
                let slots = view.clone();
                let returned = returned.as_ref();
                choose_targets(route, Seen { slots, plan, node, returned })
            }
            Err(error) => Err(error.fault()),
        };
        match chosen {
            Ok(goto) if output.goto.is_empty() => output.goto = goto,
            Ok(goto) => output.goto.extend(goto),
            Err(fault) => {
                let partial = wrote.then_some(output);
                let open = Vec::new();
                return TaskOutcome::Failed(Box::new(Failed { fault, partial, open }));
            }
        }
    }
    check_targets(graph, node, output, ahead.ok())
}

/// Returns the object that a node returned, if the graph leaves unknown names to the routes.
fn returned_object(graph: &CompiledGraph, output: &TaskOutput) -> Option<Arc<Members>> {
    let lenient = graph.settings().ignores_unknown && output.goto.is_empty();
    if !lenient || output.named.is_empty() {
        return None;
    }
    let mut members = Members::new();
    for (name, write) in &output.named {
        let Write::Json(json) = write else { return None };
        if members.insert(name.clone(), (**json).clone()).is_some() {
            return None;
        }
    }
    Some(Arc::new(members))
}
