//! Starting a task: what it gets, and its first poll.

use super::RunLoop;
use super::plan::TaskEnded;
use crate::context::LazyCtx;
use crate::error::RuntimeError;
use crate::run_loop::context::{Earlier, Purpose, TaskContext, TaskState};
use crate::run_loop::namespace::task_ns;
use crate::run_loop::options::LoopResult;
use crate::run_loop::spans::{task_span, within_span};
use crate::run_loop::stream::By;
use crate::run_loop::task::{
    End, Follows, NodeFuture, OpenTask, Polled, TaskOutcome, TaskRunner, finish_attempt,
    record_task_end, route_result, routed_after,
};
use futures_util::FutureExt;
use serde_json::Value as Json;
use std::cell::OnceCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use tracing::Span;
use weftwork_engine::pregel::{Machine, Path, StartInput};
use weftwork_engine::{NodeIdx, TaskOutput};
use weftwork_types::BoxFuture;
use weftwork_types::run::Durability;

impl RunLoop {
    /// Starts a task and polls it once.
    pub(crate) async fn start(&mut self, index: usize) -> LoopResult<Started> {
        let slot = self.open.task_mut(index)?;
        // Before the first poll: a task that is cut off later is known to have begun.
        slot.run();
        let node_index = slot.task.node;
        if node_index == NodeIdx::START {
            return Ok(Started::Ended(self.start_input()));
        }
        let node = self.loop_context.graph.node(node_index).ok_or_else(no_node)?;
        let handler = matches!(slot.task.path, Path::Handler(_));
        if handler || !node.options.is_plain() {
            let job = self.job(index)?;
            let future = Box::pin(async move { TaskEnded { index, end: job.attempts().await } });
            return Ok(Started::of(future).await);
        }
        let cell = OnceCell::new();
        let span = self.plain_task_span(index)?;
        let called = span.in_scope(|| self.call_plain(index, &cell))?;
        let mut future = match called {
            Ok(future) => within_span(&span, future),
            Err(panic) => {
                let end = self.finish_plain(index, Err(panic), &cell)?;
                record_task_end(&span, &end);
                return Ok(Started::Ended(end));
            }
        };
        // Polled here once: most nodes end at it, and never join the running tasks.
        let polled: Poll<Polled> = poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
            Poll::Ready(match polled {
                Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(panic)),
            })
        })
        .await;
        match polled {
            Poll::Ready(polled) => {
                let end = self.finish_plain(index, polled, &cell)?;
                record_task_end(&span, &end);
                Ok(Started::Ended(end))
            }
            Poll::Pending => {
                let job = self.job(index)?;
                let ctx = cell.into_inner();
                Ok(Started::Running(Box::pin(async move {
                    let polled = AssertUnwindSafe(future).catch_unwind().await;
                    // The answers that the node consumed are shared by its context and its attempt.
                    let end = match &ctx {
                        Some(ctx) => {
                            TaskRunner { at: ctx.at().clone(), ..job }.finish(polled, Some(ctx))
                        }
                        None => job.finish(polled, None),
                    };
                    record_task_end(&span, &end);
                    TaskEnded { index, end }
                })))
            }
        }
    }

    /// Span of a task that has one attempt.
    fn plain_task_span(&self, index: usize) -> LoopResult<Span> {
        let slot = self.open.task(index)?;
        let graph = &self.loop_context.graph;
        let id = || slot.id(&self.loop_context.address.ns, graph);
        Ok(task_span(slot.name(graph), id, 1))
    }

    /// Calls a node that takes one call on this thread, without anything it does not ask for.
    fn call_plain(
        &self,
        index: usize,
        cell: &OnceCell<crate::context::Ctx>,
    ) -> LoopResult<Result<NodeFuture, Box<dyn std::any::Any + Send>>> {
        let slot = self.open.task(index)?;
        let graph = &self.loop_context.graph;
        let node = graph.node(slot.task.node).ok_or_else(no_node)?;
        let source = LazyCtx { cell, make: &|| self.make_ctx(index) };
        let input = crate::extract::TaskInput {
            slots: self.machine.slots(),
            plan: graph.plan(),
            node: slot.task.node,
            arg: slot.task.arg.as_deref(),
            source: &source,
        };
        // A panic is a failure of the node: the results of the other tasks are still stored.
        Ok(catch_unwind(AssertUnwindSafe(|| node.call(&input))))
    }

    #[expect(clippy::expect_used, reason = "a task that is called is one of the superstep's")]
    fn make_ctx(&self, index: usize) -> crate::context::Ctx {
        self.job(index).expect("the task is one of this superstep").ctx(1)
    }

    fn finish_plain(
        &self,
        index: usize,
        polled: Polled,
        cell: &OnceCell<crate::context::Ctx>,
    ) -> LoopResult<End> {
        let slot = self.open.task(index)?;
        // Making a job costs more than most nodes do.
        if let Some(ctx) = cell.get() {
            return Ok(finish_attempt(
                ctx.at(),
                slot.task.node,
                Follows::Routes,
                polled,
                Some(ctx),
            ));
        }
        match polled {
            Ok(Ok(output)) => Ok(self.finish_output(slot, output)),
            polled => Ok(self.job(index)?.finish(polled, None)),
        }
    }

    /// Settles a node that used nothing but its input.
    fn finish_output(&self, slot: &OpenTask, output: TaskOutput) -> End {
        let loop_context = &self.loop_context;
        let slots = self.machine.slots();
        let messages = loop_context.messages_in(&output);
        let mut what = route_result(&loop_context.graph, slot.task.node, slots, output);
        if let TaskOutcome::Failed(failed) = &mut what {
            loop_context.shape_fault(slots, &mut failed.fault);
        }
        if matches!(what, TaskOutcome::Done(..)) && !messages.is_empty() {
            let node = slot.name(&loop_context.graph);
            let step = self.position.step();
            loop_context.emit_messages(&By { ns: &loop_context.address.ns, node, step }, messages);
        }
        End { what, answers: None, records: Vec::new() }
    }

    /// Runs the hidden first node.
    fn start_input(&self) -> End {
        let mut what = match self.machine.start_output() {
            Ok(output) => {
                let graph = &self.loop_context.graph;
                let slots = self.machine.slots();
                let lenient = graph.settings().ignores_unknown;
                // Routes of the reference read the input as it came, with the names that the graph
                // ignores.
                let returned = match self.machine.start_input() {
                    Some(StartInput::Json(json)) if lenient => json.as_object().cloned(),
                    _ => None,
                };
                if graph.routes(NodeIdx::START).is_empty() {
                    TaskOutcome::Done(output, None)
                } else {
                    let output = Arc::unwrap_or_clone(output);
                    routed_after(graph, NodeIdx::START, slots, output, returned.map(Arc::new))
                }
            }
            Err(error) => TaskOutcome::failed(error.fault()),
        };
        if let TaskOutcome::Failed(failed) = &mut what {
            self.loop_context.shape_fault(self.machine.slots(), &mut failed.fault);
        }
        End { what, answers: None, records: Vec::new() }
    }

    /// Returns the earlier attempts that may have made calls of the open superstep. Nested tasks
    /// inherit the answer of their parent.
    fn earlier_attempts(&self) -> Earlier {
        let begun = match self.loop_context.run.options.durability {
            Durability::Sync => self.open.is_loaded(),
            // The superstep after it may have begun too, because the loop did not wait for its
            // checkpoint.
            Durability::Async => self.open.follows_loaded(),
            // The checkpoints since the loaded one are not stored: all of them may have been made.
            Durability::Exit => true,
        };
        if begun && !self.loop_context.is_nested() {
            return Earlier::Processes;
        }
        self.loop_context.earlier
    }

    /// Everything a task needs to run by itself.
    pub(super) fn job(&self, index: usize) -> LoopResult<TaskRunner> {
        let slot = self.open.task(index)?;
        let graph = &self.loop_context.graph;
        let node = graph.node(slot.task.node).ok_or_else(no_node)?;
        let resume = slot.record.answers().cloned().unwrap_or_default();
        let new = || {
            Arc::new(TaskState::new(Arc::clone(&self.loop_context), resume, &slot.recorded_calls))
        };
        // One for all attempts: the next one takes the answers and finds the calls of the one that
        // failed.
        let task_state = slot.task_state.get_or_init(new);
        let (checkpoint, step) = slot.at();
        let at = TaskContext {
            loop_context: Arc::clone(&self.loop_context),
            task_state: Arc::clone(task_state),
            key: slot.key(graph),
            from: self.started_by(slot)?,
            checkpoint,
            step,
            entry: self.loop_context.entry(),
            earlier: self.earlier_attempts(),
            recorder: self.loop_context.recorder.clone(),
            // The state at the start of the superstep: no task sees the writes of another one.
            slots: self.machine.slots().clone(),
            purpose: Purpose::Finish,
        };
        let index = slot.task.node;
        let arg = slot.task.arg.clone();
        let Path::Handler(_) = slot.task.path else {
            let node = node.clone();
            return Ok(TaskRunner {
                at,
                index,
                node,
                arg,
                failure: None,
                follows: Follows::Routes,
            });
        };
        let none = || RuntimeError::broken_invariant("a node without an error handler has one due");
        let node = node.options.on_error.clone().ok_or_else(none)?;
        let failed = self.failed_task(slot)?;
        let none = || RuntimeError::broken_invariant("an error handler has no failure to handle");
        let failure = failed.record.fault().filter(|_| failed.record.is_handled());
        let failure = Some(failure.cloned().ok_or_else(none)?);
        Ok(TaskRunner { at, index, node, arg, failure, follows: Follows::Nothing })
    }

    /// The task whose failure a handler handles.
    fn failed_task(&self, handler: &OpenTask) -> LoopResult<&OpenTask> {
        let mut tasks = self.open.tasks().iter();
        let failed = tasks.find(|other| {
            other.task.node == handler.task.node
                && other.task.path == failed_path(handler.task.path)
        });
        let none = || RuntimeError::broken_invariant("an error handler has no failed task");
        failed.ok_or_else(none)
    }

    /// The namespace of the origin of a task: its graph, or the task whose failure it handles.
    fn started_by(&self, slot: &OpenTask) -> LoopResult<Arc<str>> {
        let ns = &self.loop_context.address.ns;
        let Path::Handler(_) = slot.task.path else { return Ok(Arc::clone(ns)) };
        let failed = self.failed_task(slot)?;
        let graph = &self.loop_context.graph;
        Ok(task_ns(ns, failed.name(graph), failed.id(ns, graph)).into())
    }

    /// The node of a flow gets the input as if it had been sent to it.
    pub(crate) fn single_arg(&self) -> Option<Arc<weftwork_engine::task::Arg>> {
        if !self.loop_context.graph.plan().is_single() {
            return None;
        }
        single_arg(&self.machine)
    }
}

/// The input of a flow as its node gets it.
pub(crate) fn single_arg(machine: &Machine) -> Option<Arc<weftwork_engine::task::Arg>> {
    let json = match machine.start_input()? {
        StartInput::Json(json) => Json::clone(json),
        StartInput::Writes(_) => Json::Null,
    };
    Some(Arc::new(weftwork_engine::task::Arg { typed: None, json }))
}

fn no_node() -> RuntimeError {
    RuntimeError::broken_invariant("the graph has no node of a task")
}

/// The path of the task whose failure a handler handles.
fn failed_path(handler: Path) -> Path {
    match handler {
        Path::Handler(Some(index)) => Path::Push(index),
        _ => Path::Pull,
    }
}

/// A task after its first poll.
pub(crate) enum Started {
    Ended(End),
    Running(BoxFuture<'static, TaskEnded>),
}

impl Started {
    async fn of(mut future: BoxFuture<'static, TaskEnded>) -> Self {
        match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            Poll::Ready(ended) => Self::Ended(ended.end),
            Poll::Pending => Self::Running(future),
        }
    }
}
