//! A checkpointer that cuts a run off at one of its writes.

use super::clock::Ids;
use super::pass_on::pass_on;
use crate::node::Shared;
use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use weftwork_graph::run_loop::Checkpointer;
use weftwork_graph::run_loop::{
    CheckpointAddress, CheckpointWrites, CheckpointerError, ExternalInput, Path, Plan,
    StoredCheckpoint, TaskKey, TaskRecords, WriteHint, WriteResult,
};
use weftwork_types::{BoxFuture, CheckpointId};

/// Time of the death of a process, relative to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Before the write took effect.
    Before,
    /// After it took effect, before it returned to the run.
    After,
}

/// The write at which a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// From 1.
    pub(crate) write: usize,
    pub(crate) side: Side,
}

impl At {
    /// The clock of the process that finds what is left: each comes before and after writes.
    pub(super) fn ids(self) -> Ids {
        let even = self.write.is_multiple_of(2);
        if even == (self.side == Side::Before) { Ids::OfNow } else { Ids::Late }
    }
}

/// A task in the superstep that starts at a checkpoint.
type Due = (CheckpointAddress, CheckpointId, TaskKey);

/// An observer of the writes of one entry.
#[derive(Debug)]
pub(crate) struct Watch {
    world: Arc<Shared>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    dies: Option<At>,
    dead: bool,
    /// Number of writes requested.
    writes: usize,
    /// Signatures of the writes that took effect.
    kept: Vec<String>,
    /// `true` if one of them records that a question was answered.
    answered: bool,
    /// Tasks whose results were stored.
    finished: BTreeSet<Due>,
    /// A task whose result was stored twice, so that it ran again.
    again: Option<Due>,
}

impl Watch {
    pub(crate) fn new(world: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { world, seen: Mutex::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an entry; the process dies at this write, if the entry reaches it.
    pub(crate) fn begin(&self, dies: Option<At>) {
        self.world.closed();
        *self.seen() = Seen { dies, ..Seen::default() };
    }

    /// Begins the next process. Observations of the entry are retained.
    pub(crate) fn revive(&self) {
        self.world.lost();
        let mut seen = self.seen();
        seen.dead = false;
        seen.dies = None;
    }

    /// Signatures of the writes that took effect, sorted, since their order carries no meaning:
    /// tasks that run side by side may finish in another order, and several of them may share a
    /// write.
    pub(crate) fn kept(&self) -> Vec<String> {
        let mut kept = self.seen().kept.clone();
        kept.sort();
        kept
    }

    /// `true` if one of them records that a question was answered.
    pub(crate) fn answered(&self) -> bool {
        self.seen().answered
    }

    /// The name of a task that ran again although its result was stored.
    pub(crate) fn again(&self) -> Option<String> {
        let seen = self.seen();
        let (_, _, key) = seen.again.as_ref()?;
        Some(match key {
            TaskKey::Node { node, .. } => node.to_string(),
            TaskKey::Call { name, .. } => name.to_string(),
        })
    }

    /// Executes work until it ends; returns `None` if the process dies meanwhile.
    pub(crate) async fn survive<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            // A dead process receives no result.
            if self.seen().dead { Poll::Ready(None) } else { polled.map(Some) }
        })
        .await
    }

    /// Takes up a write. True when the process dies after it.
    async fn arrive(&self) -> bool {
        let side = {
            let mut seen = self.seen();
            seen.writes += 1;
            let here = seen.dies.filter(|at| at.write == seen.writes).map(|at| at.side);
            seen.dead |= here == Some(Side::Before);
            if seen.dead { Some(Side::Before) } else { here }
        };
        if side == Some(Side::Before) {
            pending::<()>().await;
        }
        side == Some(Side::After)
    }

    fn took_effect(&self, write: What, dies: bool) {
        let What { sign, closes, answered, ended, finished } = write;
        self.world.kept(|node| ended.iter().any(|name| **name == *node));
        if closes {
            self.world.closed();
        }
        let mut seen = self.seen();
        seen.kept.push(sign);
        seen.answered |= answered;
        seen.dead |= dies;
        for due in finished {
            if !seen.finished.insert(due.clone()) {
                seen.again.get_or_insert(due);
            }
        }
    }
}

/// A summary of a write.
#[derive(Default)]
struct What {
    /// The graphs and tasks, without their ids.
    sign: String,
    /// `true` if no task of the outermost graph is open any more.
    closes: bool,
    /// `true` if it records that a question was answered.
    answered: bool,
    /// The names of the tasks whose end it records. The failure of a task of a subgraph is not
    /// visible to the graphs around it, whose task runs again after a crash.
    ended: Vec<Arc<str>>,
    /// The tasks that finished. Error handlers are left out: in the reference they run again.
    finished: Vec<Due>,
}

impl What {
    fn add(&mut self, at: &CheckpointAddress, of: Option<CheckpointId>, tasks: &TaskRecords) {
        let outermost = at.ns.is_empty();
        self.sign.push('/');
        let parts = at.ns.split('|').filter_map(|part| part.split(':').next());
        parts.for_each(|part| self.sign.push_str(part));
        for (key, record) in tasks {
            let (name, handles) = match key {
                TaskKey::Node { node, path } => (node, matches!(path, Path::Handler(_))),
                TaskKey::Call { name, .. } => (name, false),
            };
            self.answered |= record.answers().is_some();
            self.sign.push(' ');
            self.sign.push_str(name);
            if outermost || record.failure().is_none() {
                self.ended.push(Arc::clone(name));
            }
            self.closes |= outermost && record.failure().is_some() && !record.is_handled();
            if let Some(of) = of.filter(|_| record.is_finished() && !handles) {
                self.finished.push((at.clone(), of, key.clone()));
            }
        }
    }
}

/// A checkpointer whose writes are watched.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    pub(crate) watch: Arc<Watch>,
}

impl Watched {
    async fn write<T>(
        &self,
        what: What,
        work: impl Future<Output = Result<T, CheckpointerError>>,
    ) -> Result<T, CheckpointerError> {
        let dies = self.watch.arrive().await;
        let done = work.await?;
        self.watch.took_effect(what, dies);
        if dies {
            pending::<()>().await;
        }
        Ok(done)
    }
}

impl Checkpointer for Watched {
    pass_on!(load, newest, newest_of_all, list, graphs);

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a> {
        let mut what = What { closes: at.ns.is_empty(), ..What::default() };
        for put in &puts {
            what.add(at, put.of, &put.tasks);
        }
        let hint = hint.clone();
        WriteResult::Later(Box::pin(async move {
            self.write(what, async { self.checkpointer.put(at, &hint, puts).done().await }).await
        }))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let mut what = What::default();
        what.add(at, Some(of), &tasks);
        // Checkpointers may do their work when they are called.
        let work = async move { self.checkpointer.put_tasks(at, plan, of, tasks).await };
        Box::pin(self.write(what, work))
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let work = async move { self.checkpointer.put_outside(at, plan, of, outside).await };
        Box::pin(self.write(What::default(), work))
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let work = async move { self.checkpointer.delete(thread).await };
        Box::pin(self.write(What::default(), work))
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let work = async move { self.checkpointer.copy(from, to).await };
        Box::pin(self.write(What::default(), work))
    }

    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let work = async move { self.checkpointer.prune(at, plan, keep).await };
        Box::pin(self.write(What::default(), work))
    }
}
