//! Starting a task: what it gets, and its first poll.

use super::api::Durability;
use super::cycle::Cycle;
use super::job::{
    End, Follows, Job, NodeFuture, Polled, TaskOutcome, finish, routed, routed_after,
};
use super::messages::By;
use super::scope::{Earlier, Scratch, TaskAt, task_ns};
use super::slot::{Slot, SlotState};
use futures_util::FutureExt;
use serde_json::Value as Json;
use std::cell::OnceCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use weftwork_engine::pregel::{Path, StartInput};
use weftwork_engine::{NodeIdx, TaskOutput, Unknown};
use weftwork_types::BoxFuture;

impl Cycle {
    /// Starts a task and polls it once.
    pub(super) async fn start(&mut self, index: usize) -> Started {
        let Some(slot) = self.tasks.get_mut(index) else { return Started::nothing() };
        slot.state = SlotState::Running;
        let node_index = slot.task.node;
        if node_index == NodeIdx::START {
            return Started::Ended(self.start_input());
        }
        let Some(node) = self.scope.graph.node(node_index) else { return Started::nothing() };
        let handler = matches!(slot.task.path, Path::Handler(_));
        if handler || !node.options.is_plain() {
            let Some(job) = self.job(index) else { return Started::nothing() };
            let future = Box::pin(async move { (index, job.attempts().await) });
            return Started::of(future).await;
        }
        let cell = OnceCell::new();
        let called = self.call_plain(index, &cell);
        let mut future = match called {
            Ok(future) => future,
            Err(panic) => return Started::Ended(self.finish_plain(index, Err(panic), &cell)),
        };
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
            Poll::Ready(polled) => Started::Ended(self.finish_plain(index, polled, &cell)),
            Poll::Pending => {
                let Some(job) = self.job(index) else { return Started::nothing() };
                let ctx = cell.into_inner();
                Started::Running(Box::pin(async move {
                    let polled = AssertUnwindSafe(future).catch_unwind().await;
                    // TaskOutcome the context shares with the job is what the node's questions took.
                    let end = match &ctx {
                        Some(ctx) => Job { at: ctx.at().clone(), ..job }.finish(polled, Some(ctx)),
                        None => job.finish(polled, None),
                    };
                    (index, end)
                }))
            }
        }
    }

    /// Calls a node that takes one call on this thread, without anything it does not ask for.
    fn call_plain(
        &self,
        index: usize,
        cell: &OnceCell<crate::context::Ctx>,
    ) -> Result<NodeFuture, Box<dyn std::any::Any + Send>> {
        let Some(slot) = self.tasks.get(index) else { return Err(Box::new("no such task")) };
        let graph = &self.scope.graph;
        let Some(node) = graph.node(slot.task.node) else { return Err(Box::new("no such node")) };
        let input = crate::extract::TaskInput {
            slots: self.machine.slots(),
            plan: graph.plan(),
            node: slot.task.node,
            arg: slot.task.arg.as_deref(),
            ctx: cell,
            make: &|| self.make_ctx(index),
        };
        catch_unwind(AssertUnwindSafe(|| node.call(&input)))
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
    ) -> End {
        // Making a job costs more than most nodes do.
        if let (Some(ctx), Some(slot)) = (cell.get(), self.tasks.get(index)) {
            return finish(ctx.at(), (slot.task.node, Follows::Routes), polled, Some(ctx));
        }
        match (polled, self.tasks.get(index)) {
            (Ok(Ok(output)), Some(slot)) => self.finish_output(slot, output),
            (polled, _) => match self.job(index) {
                Some(job) => job.finish(polled, None),
                None => End { what: TaskOutcome::Done(Arc::default(), None), answers: None },
            },
        }
    }

    /// Takes up the result of a node that asked for nothing but its input.
    fn finish_output(&self, slot: &Slot, output: TaskOutput) -> End {
        let (scope, slots) = (&self.scope, self.machine.slots());
        let messages = scope.messages_in(&output);
        let what = routed(&scope.graph, slot.task.node, slots, output);
        if matches!(what, TaskOutcome::Done(..)) && !messages.is_empty() {
            let node = slot.name(&scope.graph);
            scope.emit_messages(&By { ns: &scope.place.ns, node, step: self.step }, messages);
        }
        End { what, answers: None }
    }

    /// Runs the hidden first node.
    fn start_input(&self) -> End {
        let what = match self.machine.start_output() {
            Ok(output) => {
                let (graph, slots) = (&self.scope.graph, self.machine.slots());
                let lenient = graph.semantics().unknown == Unknown::Ignore;
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
        End { what, answers: None }
    }

    /// Returns the earlier attempts that may have made calls of the open superstep. Nested tasks
    /// inherit the answer of their parent.
    fn earlier(&self) -> Earlier {
        let begun = match self.scope.shared.durability {
            Durability::Sync => self.has_open,
            // The superstep after it was begun too, when nobody waited for its checkpoint.
            Durability::Async => self.has_open || self.had_open,
            // The checkpoints since the loaded one are not kept: all of them may have been made.
            Durability::Exit => true,
        };
        let repeats = || self.scope.shared.host.environment().repeats();
        if (begun || repeats()) && !self.scope.is_nested() {
            return Earlier::Processes;
        }
        self.scope.earlier
    }

    /// Everything a task needs to run by itself.
    fn job(&self, index: usize) -> Option<Job> {
        let slot = self.tasks.get(index)?;
        let graph = &self.scope.graph;
        let node = graph.node(slot.task.node)?;
        let id = || slot.id(&self.scope.place.ns, graph);
        let mut resume = slot.record.resume.clone().unwrap_or_default();
        let unanswered = graph.semantics().unanswered;
        resume.extend(self.scope.shared.given_answer(id, resume.len(), unanswered));
        let new = || Arc::new(Scratch::new(Arc::clone(&self.scope), resume, &slot.known_calls));
        let scratch = slot.scratch.get_or_init(new);
        let at = TaskAt {
            scope: Arc::clone(&self.scope),
            scratch: Arc::clone(scratch),
            key: slot.key(graph),
            from: self.started_by(slot),
            checkpoint: self.id,
            step: self.step,
            resuming: self.scope.resuming(),
            earlier: self.earlier(),
            keeper: self.scope.keeper.clone(),
            slots: self.machine.slots().clone(),
        };
        let handler = matches!(slot.task.path, Path::Handler(_));
        let (node, failure, follows) = match &node.options.on_error {
            Some(on_error) if handler => {
                let failed = self.tasks.iter().find(|other| {
                    other.record.handled
                        && other.task.node == slot.task.node
                        && other.task.path == failed_path(slot.task.path)
                });
                let failure = failed.and_then(|slot| slot.record.error.clone());
                (on_error.clone(), failure, Follows::Nothing)
            }
            _ => (node.clone(), None, Follows::Routes),
        };
        let arg = slot.task.arg.clone();
        Some(Job { at, index: slot.task.node, node, arg, failure, follows })
    }

    /// The way to what started a task: its graph, or the task whose failure it handles.
    fn started_by(&self, slot: &Slot) -> Arc<str> {
        let ns = &self.scope.place.ns;
        let Path::Handler(_) = slot.task.path else { return Arc::clone(ns) };
        let failed = self.tasks.iter().find(|other| {
            other.task.node == slot.task.node && other.task.path == failed_path(slot.task.path)
        });
        match failed {
            Some(failed) => {
                let graph = &self.scope.graph;
                task_ns(ns, failed.name(graph), failed.id(ns, graph)).into()
            }
            None => Arc::clone(ns),
        }
    }

    /// The node of a flow gets the input as if it had been sent to it.
    pub(super) fn single_arg(&self) -> Option<Arc<weftwork_engine::task::Arg>> {
        if !self.scope.graph.plan().is_single() {
            return None;
        }
        let json = match self.machine.start_input()? {
            StartInput::Json(json) => Json::clone(json),
            StartInput::Writes(_) => Json::Null,
        };
        Some(Arc::new(weftwork_engine::task::Arg { typed: None, json }))
    }
}

/// The path of the task whose failure a handler handles.
fn failed_path(handler: Path) -> Path {
    match handler {
        Path::Handler(Some(index)) => Path::Push(index),
        _ => Path::Pull,
    }
}

/// A task after its first poll.
pub(super) enum Started {
    Ended(End),
    Running(BoxFuture<'static, (usize, End)>),
}

impl Started {
    fn nothing() -> Self {
        Self::Ended(End { what: TaskOutcome::Done(Arc::default(), None), answers: None })
    }

    async fn of(mut future: BoxFuture<'static, (usize, End)>) -> Self {
        match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            Poll::Ready((_, end)) => Self::Ended(end),
            Poll::Pending => Self::Running(future),
        }
    }
}
