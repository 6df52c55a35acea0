//! Creation of a loop's checkpoints, and the records stored between them.

use super::api::{Durability, Going, LoopOutcome};
use super::cycle::Cycle;
use super::event::{Metadata, Modes, Source};
use super::saver::{Checkpoint, Kept, Memo, Outside, Put, Puts, Records, SaverError, TaskRecord};
use super::scope::{Scope, lock};
use super::slot::{Slot, SlotState};
use crate::error::RuntimeError;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::planted::{self, Bug};
use weftwork_engine::pregel::Machine;
use weftwork_engine::{ChannelIdx, NodeIdx, Unknown};
use weftwork_types::{BoxFuture, CheckpointId};

/// Supersteps after which the counts of a counted channel start over, however few updates it had.
const COUNTED_STEPS_MAX: u64 = 5_000;

/// State of the superstep when records are stored: open or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    Open,
    Closed,
}

impl Cycle {
    pub(super) fn keeps(&self) -> bool {
        self.scope.keep.saver.is_some()
    }

    pub(super) fn on_exit(&self) -> bool {
        self.scope.shared.durability == Durability::Exit
    }

    /// Makes a checkpoint of the state as it stands, and keeps it unless that is done at the end.
    pub(super) async fn checkpoint(&mut self, source: Source) -> Going<()> {
        let unkept = planted::has(Bug::StreamsKeepNothing) && self.scope.shared.wants(Modes::TASKS);
        if !self.keeps() || self.on_exit() || unkept {
            self.advance(source, false);
            return Ok(());
        }
        let of = self.id;
        let ran = self.ran(source);
        let tasks = self.unkept(Still::Closed);
        self.advance(source, true);
        let mut put = self.to_keep(of, tasks);
        put.ran = ran;
        self.keep(put).await
    }

    /// The state as it stands, to be kept as a checkpoint.
    fn to_keep(&self, of: CheckpointId, tasks: Records) -> Box<Put> {
        let mut put = Box::new(Put {
            checkpoint: Checkpoint {
                id: self.id,
                parent: self.saved,
                metadata: self.meta.clone(),
                machine: self.machine.stored(),
            },
            of,
            tasks,
            ran: None,
        });
        if self.meta.source == Source::Fork {
            put.checkpoint.machine.forget_updated();
        }
        put
    }

    /// The nodes that ran, where somebody is told.
    fn ran(&self, source: Source) -> Option<Vec<String>> {
        let told = source == Source::Loop && !self.scope.is_nested();
        if !told || !self.scope.shared.host.environment().has_log() {
            return None;
        }
        let graph = &self.scope.graph;
        let of = |slot: &Slot| slot.name(graph).to_string();
        let ran = self.tasks.iter().filter(|slot| slot.task.node != NodeIdx::START).map(of);
        Some(ran.collect()).filter(|ran: &Vec<_>| !ran.is_empty())
    }

    async fn keep(&mut self, put: Box<Put>) -> Going<()> {
        let (id, held) = (put.checkpoint.id, self.held.take());
        // The hidden first superstep runs nobody's code: its checkpoint follows at once.
        let input = put.checkpoint.metadata.source == Source::Input && !self.on_exit();
        let rebuilds = self.scope.shared.host.rebuilds();
        if input && held.is_none() && !rebuilds && !self.scope.graph.plan().is_single() {
            self.held = Some(put);
        } else {
            let mut puts = Puts::from_buf([put]);
            if let Some(held) = held {
                puts.insert(0, held);
            }
            if self.scope.behind.is_some() {
                self.write_behind(puts).await?;
            } else if let Some(saver) = &self.scope.keep.saver {
                self.memo = match saver.put(&self.scope.place, &self.memo, puts) {
                    Kept::Now(result) => result?,
                    Kept::Later(future) => future.await?,
                };
            }
        }
        self.prev = self.saved;
        self.saved = Some(id);
        if self.scope.behind.is_none() && self.rebuilds() {
            Box::pin(self.rebuild(id)).await?;
        }
        Ok(())
    }

    /// `true` if the state of the loop is to be read back from its newest checkpoint.
    fn rebuilds(&self) -> bool {
        // A branch starts its tasks in the order of the checkpoint it leaves; a thread that is
        // loaded there, in the order of the graph, as in the reference.
        let forked = self.meta.source == Source::Fork;
        self.scope.shared.host.rebuilds() && !self.on_exit() && !forked
    }

    /// The same for a checkpoint that was written while the tasks of the open superstep ran.
    pub(super) async fn rebuild_behind(&mut self) -> Going<()> {
        let made_here = self.saved == Some(self.id) && self.id != self.loaded;
        if self.scope.behind.is_none() || !made_here || !self.rebuilds() {
            return Ok(());
        }
        self.caught_up().await?;
        Box::pin(self.rebuild(self.id)).await?;
        self.machine.set_managed(self.step, self.stop);
        Ok(())
    }

    /// Goes on with what the saver has.
    async fn rebuild(&mut self, id: CheckpointId) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        let Some(saver) = &scope.keep.saver else { return Ok(()) };
        let plan = scope.graph.plan();
        let lost = || self::lost(&scope, id);
        let saved = saver.load(&scope.place, plan, Some(id)).await?.ok_or_else(lost)?;
        let newest = Memo { newest: true, ..saved.memo };
        self.machine = saved.checkpoint.machine.over(plan).map_err(RuntimeError::Engine)?;
        (self.meta, self.memo) = (saved.checkpoint.metadata, newest);
        Ok(())
    }

    async fn put(&mut self, put: Box<Put>) -> Going<()> {
        let Some(saver) = &self.scope.keep.saver else { return Ok(()) };
        let puts = Puts::from_buf([put]);
        self.memo = saver.put(&self.scope.place, &self.memo, puts).done().await?;
        Ok(())
    }

    /// Keeps a checkpoint that waits for the next one.
    async fn release_held(&mut self) -> Going<()> {
        match self.held.take() {
            Some(put) => self.put(put).await,
            None => Ok(()),
        }
    }

    fn advance(&mut self, source: Source, keep: bool) {
        let parents = self.scope.around.clone();
        let delta = self.counts(keep);
        self.id = self.scope.shared.next_id();
        let branches = std::mem::take(&mut self.branches);
        let branch = if branches { Some(self.id) } else { self.meta.branch };
        if branches && !self.scope.is_nested() {
            self.scope.shared.set_branch(branch);
        }
        self.meta = Metadata { source, step: self.step, parents, branch, delta };
        self.step += 1;
    }

    /// The counts of counted channels after this superstep.
    fn counts(&mut self, keep: bool) -> BTreeMap<String, (u64, u64)> {
        let plan = self.scope.graph.plan();
        let mut counts = BTreeMap::new();
        for (index, every) in plan.counted() {
            let name = plan.channel_name(index);
            let (updates, steps) = self.meta.delta.get(name).copied().unwrap_or_default();
            let updated = u64::from(self.written.contains(&index));
            if updated > 0 {
                self.counted_written.insert(index);
            }
            let (updates, steps) = (updates + updated, steps + 1);
            let full = updates >= every || steps >= COUNTED_STEPS_MAX;
            let over = keep && (full || self.recount.contains(&index));
            if over {
                self.recount.remove(&index);
            } else {
                counts.insert(name.to_owned(), (updates, steps));
            }
        }
        counts
    }

    /// Takes the task outcomes that are not stored yet.
    pub(super) fn unkept(&mut self, still: Still) -> Records {
        if !self.keeps() {
            return Records::new();
        }
        let fresh =
            |slot: &Slot| slot.state == SlotState::Ended && !slot.kept && !slot.record.is_blank();
        let plan = self.scope.graph.plan();
        let mut records = Records::new();
        if still == Still::Closed {
            records.reserve_exact(self.tasks.len());
        }
        for slot in &mut self.tasks {
            // TaskOutcome runs on has called something, perhaps.
            let (fresh, calls) = (fresh(slot), slot.take_calls());
            if !fresh && calls.is_none() {
                continue;
            }
            slot.kept |= fresh;
            let mut record = match still {
                _ if !fresh => TaskRecord::default(),
                Still::Closed => std::mem::take(&mut slot.record),
                Still::Open => slot.record.clone(),
            };
            record.calls = calls;
            // TaskOutcome is kept at the end is kept as it is, in the reference as well.
            if plan.has_untracked() && self.scope.shared.durability != Durability::Exit {
                record.untrack(plan, slot.task.node);
            }
            records.push((slot.key(&self.scope.graph), record));
        }
        records
    }

    /// Keeps what became of tasks while their superstep is open.
    pub(super) async fn flush(&mut self) -> Going<()> {
        if self.held.is_some() && self.scope.graph.semantics().unknown == Unknown::Refuse {
            // The input is not taken yet.
            return Ok(());
        }
        self.caught_up().await?;
        self.release_held().await?;
        match self.flushing() {
            Some(flushed) => Ok(flushed.await?),
            None => Ok(()),
        }
    }

    /// The same as a piece of work that may go on beside tasks; none when there is nothing to keep.
    pub(super) fn flushing(&mut self) -> Option<BoxFuture<'static, Result<(), SaverError>>> {
        let unkept = planted::has(Bug::KeepsNothing);
        if unkept || self.on_exit() {
            return None;
        }
        let tasks = self.unkept(Still::Open);
        let scope = Arc::clone(&self.scope);
        let (saver, of) = (scope.keep.saver.clone()?, self.id);
        if tasks.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            scope.stored_around().await?;
            saver.put_tasks(&scope.place, scope.graph.plan(), of, tasks).await
        }))
    }

    /// Keeps what is kept at the end only, and tells how the loop stands.
    pub(super) async fn leave(&mut self, ended: &Going<LoopOutcome>) -> Going<()> {
        if self.broken {
            return Ok(());
        }
        let stopped = !matches!(
            ended,
            Ok(LoopOutcome::Completed | LoopOutcome::LimitReached | LoopOutcome::Drained(_))
        );
        let drained = matches!(ended, Ok(LoopOutcome::Drained(_)));
        // Input that cannot be applied leaves the thread as it was; not so in the reference.
        let refuses = self.scope.graph.semantics().unknown == Unknown::Refuse;
        let fails = ended.as_ref().map_or(true, LoopOutcome::by_task);
        if fails && refuses && self.held.take().is_some() {
            return Ok(());
        }
        self.caught_up().await?;
        self.release_held().await?;
        self.flush().await?;
        let nested = self.scope.is_nested();
        if self.on_exit() && self.keeps() && (!nested || stopped || self.scope.keep.own) {
            self.keep_at_exit().await?;
        }
        if let (Ok(LoopOutcome::Interrupted(interrupts)), false, false) = (ended, nested, drained) {
            self.tell_stop(interrupts.is_empty())?;
        }
        Ok(())
    }

    async fn keep_at_exit(&mut self) -> Going<()> {
        if self.id != self.loaded {
            self.keep_stub().await?;
            let put = self.to_keep(CheckpointId(0), Records::new());
            self.keep(put).await?;
        }
        let tasks = self.unkept(Still::Open);
        let calls = std::mem::take(&mut *lock(&self.scope.calls));
        let calls = calls.into_iter().filter(|called| called.fresh);
        let calls = calls.map(|called| (called.key, called.record));
        let tasks: Records = tasks.into_iter().chain(calls).collect();
        // An answer that a question took is none that waits for one.
        let resume = lock(&self.scope.answer).clone();
        let outside = Outside { output: self.outside.output.clone(), resume };
        if let Some(saver) = &self.scope.keep.saver {
            let (at, plan) = (&self.scope.place, self.scope.graph.plan());
            saver.put_tasks(at, plan, self.id, tasks).await?;
            saver.put_outside(at, plan, self.id, outside).await?;
        }
        Ok(())
    }

    /// The counts of the last checkpoint, kept at the end. When a counted channel does not start
    /// over there and nothing was kept before, an empty checkpoint comes first.
    async fn keep_stub(&mut self) -> Going<()> {
        let plan = Arc::clone(self.scope.graph.plan());
        let counted: BTreeMap<ChannelIdx, u64> = plan.counted().collect();
        if counted.is_empty() {
            return Ok(());
        }
        if self.saved.is_some() && self.addressed {
            self.recount.extend(&self.counted_written);
        }
        let mut meta = self.meta.clone();
        let mut open = false;
        for (index, every) in counted {
            let name = plan.channel_name(index);
            let (updates, steps) = meta.delta.get(name).copied().unwrap_or_default();
            let over = updates >= every || steps >= COUNTED_STEPS_MAX;
            if over || self.recount.contains(&index) {
                meta.delta.remove(name);
            } else {
                open |= self.counted_written.contains(&index);
            }
        }
        self.meta = meta;
        // TaskOutcome ran since it was told shows that somebody has read it.
        let ran = |slot: &Slot| slot.state != SlotState::Open && !slot.cached;
        if !self.tasks.iter().any(ran) {
            self.scope.retell(self.id, &self.meta);
        }
        if open && self.saved.is_none() {
            let stub = Metadata { source: Source::Nothing, step: -2, ..Metadata::default() };
            let checkpoint = Checkpoint {
                id: self.loaded,
                parent: None,
                metadata: stub,
                machine: Machine::new(plan),
            };
            let of = CheckpointId(0);
            let put = Put { checkpoint, of, tasks: Records::new(), ran: None };
            self.put(Box::new(put)).await?;
            self.saved = Some(self.loaded);
        }
        Ok(())
    }
}

fn lost(scope: &Scope, checkpoint: CheckpointId) -> RuntimeError {
    let (thread, ns) = (scope.place.thread.to_string(), scope.place.ns.to_string());
    RuntimeError::UnknownCheckpoint { thread, ns, checkpoint }
}
