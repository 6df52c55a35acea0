//! Creation of a loop's checkpoints, and the records stored between them.

use super::RunLoop;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{
    Checkpoint, CheckpointWrite, CheckpointWrites, CheckpointerError, ExternalInput, TaskRecord,
    TaskRecords, WriteHint,
};
use crate::run_loop::context::LoopContext;
use crate::run_loop::event::Source;
use crate::run_loop::options::{LoopOutcome, LoopResult};
use crate::run_loop::sync::lock;
use crate::run_loop::task::{OpenTask, tasks_due};
use std::sync::Arc;
use weftwork_engine::pregel::Machine;
use weftwork_types::event::TaskEnd;
use weftwork_types::{BoxFuture, CheckpointId};

/// State of the superstep when records are stored: open or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepState {
    Open,
    Closed,
}

impl RunLoop {
    /// Returns `true` if only the last checkpoint is stored, at the end of the run.
    pub(crate) fn on_exit(&self) -> bool {
        self.loop_context.run.stores_last_only()
    }

    /// Makes a checkpoint of the current state, and stores it unless that is done at the end.
    pub(crate) async fn checkpoint(&mut self, source: Source) -> LoopResult<()> {
        if !self.writer.is_on() || self.on_exit() {
            self.advance(source, false);
            return Ok(());
        }
        let of = self.position.id();
        let ended = self.ended(source);
        // Before the position advances: the records belong to the superstep that the checkpoint closes,
        // and their ids are derived from the checkpoint before it.
        let tasks = self.take_unstored(StepState::Closed);
        self.advance(source, true);
        let mut put = self.next_write(of, tasks)?;
        put.ended = ended;
        self.store_checkpoint(put).await
    }

    /// The current state as a checkpoint to be stored.
    fn next_write(
        &self,
        of: Option<CheckpointId>,
        tasks: TaskRecords,
    ) -> LoopResult<Box<CheckpointWrite>> {
        let id = self.position.id().ok_or_else(no_checkpoint)?;
        let metadata = self.position.metadata();
        let mut put = Box::new(CheckpointWrite {
            checkpoint: Checkpoint {
                id,
                parent: self.writer.newest(),
                metadata: metadata.clone(),
                machine: self.machine.stored(),
            },
            of,
            tasks,
            ended: Vec::new(),
            due: None,
        });
        if metadata.source == Source::Fork {
            let ns = &self.loop_context.address.ns;
            let due = || tasks_due(&self.machine, ns, id, metadata.step);
            let due = self.loop_context.run.report(due).transpose();
            put.due = due.map_err(RuntimeError::Engine)?;
            // A process that loads the branch starts its tasks in the order of the graph. The log
            // has the order in which this loop starts them.
            put.checkpoint.machine.forget_updated();
        }
        Ok(put)
    }

    /// Reports of the tasks of the superstep that a checkpoint closes.
    fn ended(&self, source: Source) -> Vec<TaskEnd> {
        if source != Source::Loop {
            return Vec::new();
        }
        let ns = &self.loop_context.address.ns;
        let graph = &self.loop_context.graph;
        let shown = self.open.tasks().iter().filter(|slot| slot.is_shown());
        let ended = || shown.filter_map(|slot| slot.ended(ns, graph)).collect();
        self.loop_context.run.report(ended).unwrap_or_default()
    }

    async fn store_checkpoint(&mut self, put: Box<CheckpointWrite>) -> LoopResult<()> {
        let id = put.checkpoint.id;
        let deferred = self.writer.take_deferred();
        // The hidden first superstep runs no code of a node: its checkpoint follows at once.
        let input = put.checkpoint.metadata.source == Source::Input && !self.on_exit();
        let rebuilds = self.loop_context.run.host.rebuilds();
        if input && deferred.is_none() && !rebuilds && !self.loop_context.graph.plan().is_single() {
            self.writer.defer(put);
        } else {
            let mut puts = CheckpointWrites::from_buf([put]);
            if let Some(deferred) = deferred {
                puts.insert(0, deferred);
            }
            if self.loop_context.write_progress.is_some() {
                self.writer.write_behind(&self.loop_context, puts).await?;
            } else {
                self.writer.write(&self.loop_context, puts).await?;
            }
        }
        // The parent is the checkpoint before this one in the store. With `exit` it is not the one of
        // the superstep before.
        self.position.set_parent(self.writer.newest());
        self.writer.set_newest(id);
        if self.loop_context.write_progress.is_none() && self.rebuilds() {
            Box::pin(self.rebuild_from(id)).await?;
        }
        Ok(())
    }

    /// Returns `true` if the state of the loop is to be read back from its newest checkpoint.
    fn rebuilds(&self) -> bool {
        // A branch starts its tasks in the order of the checkpoint it leaves; a thread that is
        // loaded there, in the order of the graph, as in the reference.
        let forked = self.position.metadata().source == Source::Fork;
        self.loop_context.run.host.rebuilds() && !self.on_exit() && !forked
    }

    /// Reads back a checkpoint that was written while the tasks of the open superstep ran.
    pub(crate) async fn rebuild_behind(&mut self) -> LoopResult<()> {
        let newest = self.writer.newest();
        let made_here = newest == self.position.id() && self.position.has_moved();
        if self.loop_context.write_progress.is_none() || !made_here || !self.rebuilds() {
            return Ok(());
        }
        // Only a stored checkpoint can be read back.
        self.writer.wait_durable(&self.loop_context).await?;
        if let Some(id) = newest {
            Box::pin(self.rebuild_from(id)).await?;
        }
        self.machine.set_managed(self.position.step(), self.position.stop());
        Ok(())
    }

    /// Continues with the stored state of a checkpoint.
    async fn rebuild_from(&mut self, id: CheckpointId) -> LoopResult<()> {
        let loop_context = Arc::clone(&self.loop_context);
        let none =
            || RuntimeError::broken_invariant("a checkpoint is read back without a checkpointer");
        let checkpointer = loop_context.storage.checkpointer.as_ref().ok_or_else(none)?;
        let plan = loop_context.graph.plan();
        let lost = || self::lost_checkpoint(&loop_context, id);
        let saved =
            checkpointer.load(&loop_context.address, plan, Some(id)).await?.ok_or_else(lost)?;
        self.writer.set_hint(WriteHint { newest: true, ..saved.hint });
        self.machine = saved.checkpoint.machine.over(plan).map_err(RuntimeError::Engine)?;
        self.position.set_metadata(saved.checkpoint.metadata);
        Ok(())
    }

    fn advance(&mut self, source: Source, stored: bool) {
        let plan = self.loop_context.graph.plan();
        let before = self.position.metadata();
        let delta = self.counters.next(plan, before, stored);
        self.position.advance(&self.loop_context, source, delta);
    }

    /// Takes the task outcomes that are not stored yet.
    pub(crate) fn take_unstored(&mut self, still: StepState) -> TaskRecords {
        if !self.writer.is_on() {
            return TaskRecords::new();
        }
        let plan = self.loop_context.graph.plan();
        let ns = &self.loop_context.address.ns;
        let graph = &self.loop_context.graph;
        let run = &self.loop_context.run;
        let mut records = TaskRecords::new();
        if still == StepState::Closed {
            records.reserve_exact(self.open.tasks().len());
        }
        // Each outcome is taken once, so that a record is not stored by two commits.
        for slot in self.open.tasks_mut() {
            // A task that still runs may have made calls.
            let fresh = slot.is_to_store();
            let calls = slot.take_calls();
            if !fresh && calls.is_none() {
                continue;
            }
            if fresh {
                slot.set_stored();
            }
            let mut record = match still {
                _ if !fresh => TaskRecord::default(),
                StepState::Closed => std::mem::take(&mut slot.record),
                StepState::Open => slot.record.clone(),
            };
            record.calls = calls;
            // The checkpoint that closes the superstep reports its tasks itself.
            if still == StepState::Open && fresh && slot.is_shown() {
                record.ended = run.report(|| slot.ended(ns, graph)).flatten().map(Box::new);
            }
            // At the end of the run, records are stored as they are, in the reference as well.
            if plan.has_untracked() && !run.stores_last_only() {
                record.untrack(plan, slot.task.node);
            }
            records.push((slot.key(graph), record));
        }
        records
    }

    /// Stores records of tasks while their superstep is open.
    pub(crate) async fn flush(&mut self) -> LoopResult<()> {
        if self.writer.has_deferred() && !self.loop_context.graph.settings().ignores_unknown {
            // The input is not taken yet.
            return Ok(());
        }
        // Before the records: they belong to the superstep that starts from these checkpoints.
        self.writer.wait_durable(&self.loop_context).await?;
        self.writer.write_deferred(&self.loop_context).await?;
        match self.flushing()? {
            Some(flushed) => Ok(flushed.await?),
            None => Ok(()),
        }
    }

    /// The same as a future that may run beside tasks; none when there is nothing to store.
    pub(crate) fn flushing(&mut self) -> LoopResult<Option<Flush>> {
        let loop_context = Arc::clone(&self.loop_context);
        let Some(checkpointer) =
            loop_context.storage.checkpointer.clone().filter(|_| !self.on_exit())
        else {
            return Ok(None);
        };
        let tasks = self.take_unstored(StepState::Open);
        if tasks.is_empty() {
            return Ok(None);
        }
        let of = self.position.id().ok_or_else(no_checkpoint)?;
        Ok(Some(Box::pin(async move {
            // A record names its checkpoint, and those of the loops around it: after a crash none of
            // them may be missing.
            loop_context.wait_durable_around().await?;
            checkpointer
                .put_tasks(&loop_context.address, loop_context.graph.plan(), of, tasks)
                .await
        })))
    }

    /// Stores the checkpoints and records that are stored at the end only, and emits the questions
    /// or the stop that ended the outermost loop.
    pub(crate) async fn leave(&mut self, ended: &LoopResult<LoopOutcome>) -> LoopResult<()> {
        // After a failed write the store may have the checkpoint or not: nothing that follows from it
        // may be stored.
        if self.writer.has_failed() {
            return Ok(());
        }
        let stopped = !matches!(
            ended,
            Ok(LoopOutcome::Completed | LoopOutcome::LimitReached | LoopOutcome::Drained(_))
        );
        let drained = matches!(ended, Ok(LoopOutcome::Drained(_)));
        // Input that cannot be applied leaves the thread as it was; not so in the reference.
        let refuses = !self.loop_context.graph.settings().ignores_unknown;
        let fails = ended.as_ref().map_or(true, LoopOutcome::by_task);
        if fails && refuses && self.writer.take_deferred().is_some() {
            return Ok(());
        }
        self.writer.wait_durable(&self.loop_context).await?;
        self.writer.write_deferred(&self.loop_context).await?;
        // Results of finished tasks are stored although the loop stops: a run that continues the thread
        // does not run them again.
        self.flush().await?;
        let nested = self.loop_context.is_nested();
        if self.on_exit()
            && self.writer.is_on()
            && (!nested || stopped || self.loop_context.storage.own)
        {
            self.store_at_exit().await?;
        }
        // After the writes: a reader of the stop may resume the thread at once.
        if let (Ok(LoopOutcome::Interrupted(interrupts)), false, false) = (ended, nested, drained) {
            self.emit_stop(interrupts.is_empty())?;
        }
        Ok(())
    }

    async fn store_at_exit(&mut self) -> LoopResult<()> {
        if self.position.has_moved() {
            // The checkpoint first: the records below belong to the superstep that starts from it.
            self.store_empty_start().await?;
            let put = self.next_write(None, TaskRecords::new())?;
            self.store_checkpoint(put).await?;
        }
        let tasks = self.take_unstored(StepState::Open);
        let calls = std::mem::take(&mut *lock(&self.loop_context.calls));
        // Results of calls of earlier processes are on record already.
        let calls = calls.into_iter().filter(|called| called.fresh);
        let calls = calls.map(|called| (called.key, called.record));
        let tasks: TaskRecords = tasks.into_iter().chain(calls).collect();
        // An answer that a question took is not pending.
        let resume = lock(&self.loop_context.answer).clone();
        let outside = ExternalInput { output: self.open.outside().output.clone(), resume };
        let Some(checkpointer) = &self.loop_context.storage.checkpointer else { return Ok(()) };
        let id = self.position.id().ok_or_else(no_checkpoint)?;
        let at = &self.loop_context.address;
        let plan = self.loop_context.graph.plan();
        checkpointer.put_tasks(at, plan, id, tasks).await?;
        checkpointer.put_outside(at, plan, id, outside).await?;
        Ok(())
    }

    /// Computes the counts of the checkpoint that is stored at the end. If a counted channel does
    /// not start over there and nothing was stored before, an empty checkpoint is stored first.
    async fn store_empty_start(&mut self) -> LoopResult<()> {
        let plan = Arc::clone(self.loop_context.graph.plan());
        if plan.counted().next().is_none() {
            return Ok(());
        }
        let restarts = self.writer.newest().is_some() && self.start.is_addressed();
        let mut metadata = self.position.metadata().clone();
        let counts = self.counters.at_exit(&plan, std::mem::take(&mut metadata.delta), restarts);
        metadata.delta = counts.delta;
        self.position.set_metadata(metadata);
        // A task that ran since the checkpoint was emitted shows that the event was read.
        let ran = |slot: &OpenTask| !slot.is_due() && !slot.is_reused();
        if let Some(id) = self.position.id().filter(|_| !self.open.tasks().iter().any(ran)) {
            self.loop_context.emit_again(id, self.position.metadata());
        }
        if counts.is_open && self.writer.newest().is_none() {
            let empty = self.position.empty_start(Machine::new(plan));
            if let Some(checkpoint) = empty {
                let id = checkpoint.id;
                let put = CheckpointWrite {
                    checkpoint,
                    of: None,
                    tasks: TaskRecords::new(),
                    ended: Vec::new(),
                    due: None,
                };
                self.writer
                    .write(&self.loop_context, CheckpointWrites::from_buf([Box::new(put)]))
                    .await?;
                self.writer.set_newest(id);
            }
        }
        Ok(())
    }
}

/// Records of an open superstep that are being stored.
pub(crate) type Flush = BoxFuture<'static, Result<(), CheckpointerError>>;

fn no_checkpoint() -> RuntimeError {
    RuntimeError::broken_invariant("tasks of a superstep are stored that starts from no checkpoint")
}

fn lost_checkpoint(loop_context: &LoopContext, checkpoint: CheckpointId) -> RuntimeError {
    let thread = loop_context.address.thread.to_string();
    let ns = loop_context.address.ns.to_string();
    RuntimeError::UnknownCheckpoint { thread, ns, checkpoint }
}
