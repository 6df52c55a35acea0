//! Counts of updates and supersteps of counted channels.

use super::RunLoop;
use crate::run_loop::checkpointer::TaskKey;
use crate::run_loop::context::RunEntry;
use crate::run_loop::event::Metadata;
use crate::run_loop::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_engine::{ChannelIdx, Plan, Slots, TaskOutput, Write};

/// Supersteps after which the counts of a counted channel start over, however few updates it had.
const COUNTED_STEPS_MAX: u64 = 5_000;

/// Channels that a loop wrote, as far as counts depend on them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Channels that the last superstep wrote.
    written: Vec<ChannelIdx>,
    /// Counted channels that were written in this run.
    counted: BTreeSet<ChannelIdx>,
    /// Counted channels whose counts start over with the next checkpoint.
    recount: BTreeSet<ChannelIdx>,
}

/// Result of [`Counters::at_exit`].
pub(crate) struct ExitCounts {
    pub(crate) delta: BTreeMap<String, (u64, u64)>,
    /// `true` if a channel that was written does not start over.
    pub(crate) is_open: bool,
}

impl Counters {
    /// Takes the list of written channels, for reuse by the next superstep.
    pub(crate) fn take_written(&mut self) -> Vec<ChannelIdx> {
        std::mem::take(&mut self.written)
    }

    /// Sets the channels that the superstep wrote and that have a value.
    pub(crate) fn set_written(&mut self, mut written: Vec<ChannelIdx>, slots: &Slots) {
        written.retain(|index| slots.get(index.0).is_some());
        self.written = written;
    }

    pub(crate) fn clear_written(&mut self) {
        self.written.clear();
    }

    /// Channels that the last superstep wrote.
    pub(crate) fn written(&self) -> &[ChannelIdx] {
        &self.written
    }

    /// Sets the counted channels whose counts start over.
    pub(crate) fn set_recount(&mut self, channels: BTreeSet<ChannelIdx>) {
        self.recount = channels;
    }

    /// Adds counted channels whose counts start over.
    pub(crate) fn recount(&mut self, channels: impl IntoIterator<Item = ChannelIdx>) {
        self.recount.extend(channels);
    }

    /// Returns the counts of counted channels after this superstep. Counts start over only with a
    /// checkpoint that is stored.
    pub(crate) fn next(
        &mut self,
        plan: &Plan,
        before: &Metadata,
        stored: bool,
    ) -> BTreeMap<String, (u64, u64)> {
        let mut counts = BTreeMap::new();
        for (index, every) in plan.counted() {
            let name = plan.channel_name(index);
            let (updates, steps) = before.delta.get(name).copied().unwrap_or_default();
            let updated = u64::from(self.written.contains(&index));
            if updated > 0 {
                self.counted.insert(index);
            }
            let updates = updates + updated;
            let steps = steps + 1;
            // Supersteps count too, as in the reference, which reads all checkpoints since the last
            // whole value of a channel.
            let full = updates >= every || steps >= COUNTED_STEPS_MAX;
            // Counts that start over mark a checkpoint that has the whole value of the channel. One that is
            // not stored cannot be that.
            let over = stored && (full || self.recount.contains(&index));
            if over {
                self.recount.remove(&index);
            } else {
                counts.insert(name.to_owned(), (updates, steps));
            }
        }
        counts
    }

    /// Returns the counts of the only checkpoint that is stored, at the end of the run. With
    /// `restarts`, the counts of all channels that the run wrote start over.
    pub(crate) fn at_exit(
        &mut self,
        plan: &Plan,
        mut delta: BTreeMap<String, (u64, u64)>,
        restarts: bool,
    ) -> ExitCounts {
        if restarts {
            self.recount.extend(&self.counted);
        }
        let mut is_open = false;
        let counted: BTreeMap<ChannelIdx, u64> = plan.counted().collect();
        for (index, every) in counted {
            let name = plan.channel_name(index);
            let (updates, steps) = delta.get(name).copied().unwrap_or_default();
            let over = updates >= every || steps >= COUNTED_STEPS_MAX;
            if over || self.recount.contains(&index) {
                delta.remove(name);
            } else {
                is_open |= self.counted.contains(&index);
            }
        }
        ExitCounts { delta, is_open }
    }
}

impl RunLoop {
    /// Counted channels that were overwritten start over, and so do those of results that were on
    /// record and not used.
    pub(crate) fn recount_overwritten(&mut self) {
        let plan = Arc::clone(self.loop_context.graph.plan());
        let outputs = self.open.tasks().iter().filter_map(|slot| slot.record.output());
        let overwrites = outputs.flat_map(|output| &output.writes);
        let overwrites = overwrites.filter(|(_, write)| matches!(write, Write::Overwrite(_)));
        let overwritten: Vec<_> = overwrites.map(|(index, _)| *index).collect();
        let all: Vec<_> = plan.counted().map(|(index, _)| index).collect();
        self.counters.recount(overwritten.into_iter().filter(|index| all.contains(index)));
        // In these cases the start of the loop has counted the results on record, or there are
        // none.
        if self.open.runs_again() || self.loop_context.entry() != RunEntry::Resumes {
            return;
        }
        let used = |key: &TaskKey| {
            let called = lock(&self.loop_context.calls).iter().any(|called| called.key == *key);
            let tasks = self.open.tasks().iter();
            let mut tasks = tasks.filter(|slot| slot.is_reused());
            called || tasks.any(|slot| slot.is(key, &self.loop_context.graph))
        };
        let unused = self.open.recorded().iter().filter(|(key, _)| !used(key));
        let unused = unused.filter_map(|(_, record)| record.output());
        let found: Vec<_> = unused.flat_map(|output| counted_channels(&plan, output)).collect();
        self.counters.recount(found);
    }

    /// Counted channels that tasks wrote whose results are not used.
    pub(crate) fn counted_in_records(&self) -> BTreeSet<ChannelIdx> {
        let plan = self.loop_context.graph.plan();
        let outputs = self.open.recorded().iter().filter_map(|(_, record)| record.output());
        let mut found: BTreeSet<_> =
            outputs.flat_map(|output| counted_channels(plan, output)).collect();
        found.extend(counted_channels(plan, &self.open.outside().output));
        found
    }
}

/// The counted channels that an output writes.
pub(crate) fn counted_channels(plan: &Plan, output: &TaskOutput) -> Vec<ChannelIdx> {
    let counted: Vec<_> = plan.counted().map(|(index, _)| index).collect();
    if counted.is_empty() {
        return counted;
    }
    output.writes.iter().map(|(index, _)| *index).filter(|i| counted.contains(i)).collect()
}
