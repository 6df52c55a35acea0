//! Checkpoints that wait for the end of their run.

use std::sync::Arc;
use weftwork_store::CheckpointBatch;
use weftwork_types::event::AiEvent;

/// Writes and events that wait for a commit.
pub(super) type Held = (Arc<CheckpointBatch>, Vec<AiEvent>);

/// Returns the approximate size of a batch, in bytes.
pub(super) fn measure_batch(batch: &CheckpointBatch) -> usize {
    let blobs = batch.blobs.iter().map(|(_, bytes)| bytes.len());
    let rows = batch.checkpoints.iter().map(|new| new.body.len() + new.tasks.len());
    let parts = batch.pending.iter().map(|part| part.body.len());
    blobs.chain(rows).chain(parts).sum()
}

/// Appends new writes and their events to the waiting ones.
pub(super) fn append_held(held: Option<Held>, batch: CheckpointBatch, own: Vec<AiEvent>) -> Held {
    let Some((mut all, mut events)) = held else { return (Arc::new(batch), own) };
    let CheckpointBatch { checkpoints, pending, blobs, layouts } = Arc::make_mut(&mut all);
    checkpoints.extend(batch.checkpoints);
    pending.extend(batch.pending);
    blobs.extend(batch.blobs);
    layouts.extend(batch.layouts);
    events.extend(own);
    (all, events)
}
