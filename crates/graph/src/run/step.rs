//! One superstep: plan, start, settle, close.

use super::attempt::{Attempts, TaskEnd};
use super::{Going, panicked};
use crate::compiled::RouteFn;
use crate::error::{NodeError, RuntimeError, Stop};
use crate::state::Seen;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use weftwork_engine::task::TaskPath;
use weftwork_engine::{Closed, Goto, NodeIdx, Task, TaskOutput};
use weftwork_store::Commit;
use weftwork_types::BoxFuture;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunFinal;

/// How a superstep ended.
pub(super) enum StepEnd {
    /// All tasks finished.
    Closed(Closed),
    /// The run ends here, with these questions open.
    Stopped(RunFinal, Vec<Interrupt>),
}

/// The tasks of an open superstep and how far they are.
struct Open {
    tasks: Vec<Task>,
    done: BTreeMap<usize, TaskOutput>,
    interrupts: Vec<Interrupt>,
    /// Finished tasks whose outputs are not on disk yet.
    unsaved: Vec<(Task, String, TaskOutput)>,
    failed: Option<Fault>,
}

type Running = FuturesUnordered<BoxFuture<'static, (usize, TaskEnd)>>;

impl Going {
    pub(super) async fn superstep(&mut self) -> Result<StepEnd, RuntimeError> {
        let (mut open, mut running) = self.plan_and_start();
        let mut cancel = self.run.cancel.subscribe();
        let cancelled = loop {
            while let Some(Some((index, end))) = running.next().now_or_never() {
                self.settle(&mut open, index, end);
            }
            if open.failed.is_some() || running.is_empty() {
                break false;
            }
            self.flush_beside(&mut open, &mut running).await?;
            if open.failed.is_some() || running.is_empty() {
                break false;
            }
            tokio::select! {
                biased;
                _ = cancel.wait_for(|cancelled| *cancelled) => break true,
                Some((index, end)) = running.next() => self.settle(&mut open, index, end),
                () = self.run.hub.durable_arrived() => {}
            }
        };
        // Dropping what still runs cuts it off at its await point.
        drop(running);
        self.close(open, cancelled).await
    }

    /// Makes the tasks and starts those that did not finish before, in task order.
    fn plan_and_start(&mut self) -> (Open, Running) {
        let tasks = self.machine.tasks();
        let mut open = Open {
            done: BTreeMap::new(),
            interrupts: Vec::new(),
            unsaved: Vec::new(),
            failed: None,
            tasks,
        };
        let running = Running::new();
        let mut tasks = std::mem::take(&mut open.tasks);
        for (index, task) in tasks.iter_mut().enumerate() {
            if let Some((output, handled)) = self.pending.remove(&task.id) {
                if handled {
                    task.path = TaskPath::Handled;
                }
                open.done.insert(index, output);
            } else if let Some(interrupts) = self.waiting.remove(&task.id) {
                open.interrupts.extend(interrupts);
            } else {
                running.push(self.start(index, task));
            }
        }
        open.tasks = tasks;
        (open, running)
    }

    fn start(&self, index: usize, task: &Task) -> BoxFuture<'static, (usize, TaskEnd)> {
        let (run, name) = (&self.run, self.machine.plan().node_name(task.node).to_owned());
        let Some(node) = run.graph.node(task.node).cloned() else {
            let fault = Fault::new(crate::error::NODE_FAILED, format!("no node `{name}`"));
            return Box::pin(async move { (index, TaskEnd::Failed(fault)) });
        };
        let attempts = Attempts {
            host: Arc::clone(&run.host),
            hub: Arc::clone(&run.hub),
            who: run.who.clone(),
            claim: run.claim.clone(),
            caller: self.caller.clone(),
            answers: Arc::clone(&self.answers),
            deps: Arc::clone(run.graph.deps()),
            node,
            name,
            task: task.id,
            path: task.path,
            step: self.machine.step() + 1,
            branch: self.machine.branch(),
            slots: self.machine.slots().clone(),
            plan: Arc::clone(self.machine.plan()),
            arg: task.arg.clone(),
            index: task.node,
        };
        Box::pin(async move { (index, attempts.run().await) })
    }

    /// Takes up how a task ended; a finished one is asked where it goes on.
    fn settle(&self, open: &mut Open, index: usize, end: TaskEnd) {
        let Some(task) = open.tasks.get_mut(index) else { return };
        match end.resolved(self.machine.plan(), task.node) {
            TaskEnd::Handled(output) => {
                task.path = TaskPath::Handled;
                let node = self.machine.plan().node_name(task.node).to_owned();
                open.unsaved.push((task.clone(), node, output.clone()));
                open.done.insert(index, output);
            }
            TaskEnd::Waiting(interrupts) => open.interrupts.extend(interrupts),
            TaskEnd::Failed(fault) => open.failed = open.failed.take().or(Some(fault)),
            TaskEnd::Done(mut output) => match self.routes_of(task.node, &output) {
                Ok(goto) => {
                    output.goto.extend(goto);
                    let node = self.machine.plan().node_name(task.node).to_owned();
                    open.unsaved.push((task.clone(), node, output.clone()));
                    open.done.insert(index, output);
                }
                Err(error) => open.failed = open.failed.take().or(Some(error.fault())),
            },
        }
    }

    /// Where the routes of a node lead after this output.
    pub(super) fn routes_of(
        &self,
        node: NodeIdx,
        output: &TaskOutput,
    ) -> Result<Vec<Goto>, RuntimeError> {
        let mut goto = Vec::new();
        for route in self.run.graph.routes(node) {
            let name = self.machine.plan().node_name(node);
            let slots = self.machine.preview(name, output)?;
            let plan = self.machine.plan();
            let seen = Seen { slots, plan, node, returned: None };
            goto.extend(choose(route, seen).map_err(RuntimeError::Node)?);
        }
        Ok(goto)
    }

    /// Flushes while the tasks go on. They must: a task may hold the store's only connection.
    async fn flush_beside(
        &self,
        open: &mut Open,
        running: &mut Running,
    ) -> Result<(), RuntimeError> {
        let unsaved = std::mem::take(&mut open.unsaved);
        let mut flushed = std::pin::pin!(self.flush(&unsaved));
        loop {
            tokio::select! {
                biased;
                done = &mut flushed => return done,
                Some((index, end)) = running.next() => self.settle(open, index, end),
            }
        }
    }

    /// While a superstep is open, puts on disk what is worth keeping: outputs of finished tasks,
    /// and events that watchers wait for.
    async fn flush(&self, unsaved: &[(Task, String, TaskOutput)]) -> Result<(), RuntimeError> {
        if !unsaved.is_empty() {
            self.commit_writes(unsaved).await
        } else if !self.run.hub.uncommitted().is_empty() {
            self.commit(Commit::default()).await
        } else {
            Ok(())
        }
    }

    async fn close(&mut self, mut open: Open, cancelled: bool) -> Result<StepEnd, RuntimeError> {
        let stopped = if let Some(fault) = open.failed.take() {
            Some(RunFinal::Failed { fault })
        } else if cancelled {
            Some(RunFinal::Cancelled)
        } else if !open.interrupts.is_empty() {
            let interrupts = open.interrupts.iter().map(|i| i.id).collect();
            Some(RunFinal::Interrupted { interrupts })
        } else {
            None
        };
        if let Some(outcome) = stopped {
            if !open.unsaved.is_empty() {
                self.commit_writes(&open.unsaved).await?;
            }
            return Ok(StepEnd::Stopped(outcome, open.interrupts));
        }
        let done: Vec<_> = open
            .tasks
            .into_iter()
            .enumerate()
            .filter_map(|(index, task)| Some((task, open.done.remove(&index)?)))
            .collect();
        drop(open.unsaved);
        Ok(StepEnd::Closed(self.machine.close(done)?))
    }
}

/// Asks a route, with its panics caught.
pub(crate) fn choose(route: &RouteFn, seen: Seen<'_>) -> Result<Vec<Goto>, Fault> {
    let (plan, node) = (seen.plan, seen.node);
    let of = || match node {
        NodeIdx::START => "a route from START".to_owned(),
        node => format!("a route of node `{}`", plan.node_name(node)),
    };
    let chosen = std::panic::catch_unwind(AssertUnwindSafe(|| route.choose(seen)));
    match chosen {
        Ok(Ok(goto)) => Ok(goto),
        Ok(Err(NodeError(Stop::Failed(fault)))) => Err(fault),
        Ok(Err(NodeError(_))) => Err(Fault::new(
            crate::error::NODE_FAILED,
            format!("{} stopped to ask or to wait, which only nodes can; do it in a node", of()),
        )),
        Err(panic) => Err(panicked(&of(), panic.as_ref())),
    }
}
