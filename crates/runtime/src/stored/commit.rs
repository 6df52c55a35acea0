//! The port of a claim: it commits checkpoints together with events.

use weftwork_store::{CheckpointBatch, StoreError};
use weftwork_types::BoxFuture;
use weftwork_types::event::AiEvent;
use weftwork_types::message::Message;
use weftwork_types::sequence::SequenceWrite;

/// Commits the checkpoints of a run together with their events.
pub(crate) trait Claimed: Send + Sync + std::fmt::Debug {
    /// Stores the batch in one transaction, unless the run has lost its claim.
    fn commit_batch(
        &self,
        batch: CheckpointBatch,
        report: CheckpointReport,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes the checkpoints of a graph readable; `None` if they always are.
    fn show<'a>(&'a self, ns: &'a str) -> Option<BoxFuture<'a, Result<(), StoreError>>>;
}

/// Facts of a checkpoint that its events report.
#[derive(Debug, Default)]
pub(crate) struct CheckpointReport {
    /// Checkpoints that are stored, and tasks that ended without one.
    pub(crate) events: Vec<AiEvent>,
    /// Messages that are new or changed.
    pub(crate) messages: Vec<Message>,
    /// Writes of records by the tasks whose results are stored.
    pub(crate) records: Vec<SequenceWrite>,
    /// `true` if nothing is due any more: it may be stored with the end of the run.
    pub(crate) is_last: bool,
    /// `true` if a branch of the thread begins with it.
    pub(crate) begins_branch: bool,
}
