//! Checkpoints that wait for the end of their run.

use std::sync::Arc;
use weftwork_store::{CheckpointBatch, Commit};
use weftwork_types::event::AiEvent;
use weftwork_types::sequence::SequenceWrite;

/// Writes and events that wait for a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub(super) batch: Arc<CheckpointBatch>,
    pub(super) events: Vec<AiEvent>,
    pub(super) records: Vec<SequenceWrite>,
}

impl Held {
    /// Creates the first writes that wait.
    pub(super) fn new(
        batch: CheckpointBatch,
        events: Vec<AiEvent>,
        records: Vec<SequenceWrite>,
    ) -> Self {
        Self { batch: Arc::new(batch), events, records }
    }

    /// Appends new writes and their events to the waiting ones.
    pub(super) fn append(&mut self, new: Self) {
        let CheckpointBatch { checkpoints, pending, blobs, layouts } =
            Arc::make_mut(&mut self.batch);
        let batch = Arc::unwrap_or_clone(new.batch);
        checkpoints.extend(batch.checkpoints);
        pending.extend(batch.pending);
        blobs.extend(batch.blobs);
        layouts.extend(batch.layouts);
        self.events.extend(new.events);
        self.records.extend(new.records);
    }

    /// Returns the commit with these writes.
    pub(super) fn into_commit(self) -> Commit {
        let Self { batch, events, records: sequence_writes } = self;
        Commit { batch, events, sequence_writes, ..Commit::default() }
    }
}

/// Returns the approximate size of a batch, in bytes.
pub(super) fn measure_batch(batch: &CheckpointBatch) -> usize {
    let blobs = batch.blobs.iter().map(|(_, bytes)| bytes.len());
    let rows = batch.checkpoints.iter().map(|new| new.body.len() + new.tasks.len());
    let parts = batch.pending.iter().map(|part| part.body.len());
    blobs.chain(rows).chain(parts).sum()
}
