//! The branches from which a branch of a thread descends, for runs that reuse their calls.

use crate::patience::Patience;
use crate::stored::StoreCheckpointer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::run_loop::Origin;
use weftwork_graph::run_loop::{
    CheckpointAddress, Checkpointer, CheckpointerError, Plan, ReuseOrigins, Source,
    StoredCheckpoint,
};
use weftwork_types::CheckpointId;
use weftwork_types::port::Clock;
use weftwork_types::run::RunRef;

/// Finds the branches from which a branch descends, by the first checkpoints of branches.
#[derive(Debug)]
pub(crate) struct Lineage {
    /// The calls that are reused.
    pub(super) reuses: ReuseOrigins,
    pub(super) checkpointer: Arc<StoreCheckpointer>,
    pub(super) plan: Arc<Plan>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) run: RunRef,
    pub(super) known: Mutex<BTreeMap<CheckpointId, Arc<[Origin]>>>,
}

impl Lineage {
    /// Returns the branches from which a branch descends, nearest first. The list ends where a
    /// checkpoint is no longer stored.
    pub(crate) async fn of(
        &self,
        branch: CheckpointId,
    ) -> Result<Arc<[Origin]>, CheckpointerError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&branch) {
            return Ok(Arc::clone(found));
        }
        let mut found = Vec::new();
        let mut next = Some(branch);
        let mut earlier = 0;
        while let Some(branch) = next.take() {
            let Some(first) = self.load(branch).await? else { break };
            // A replay of the tasks due there uses one superstep for its own checkpoint.
            earlier += i64::from(first.checkpoint.metadata.source == Source::Fork);
            let Some(parent) = first.checkpoint.parent else { break };
            let Some(parent) = self.load(parent).await? else { break };
            next = parent.checkpoint.metadata.branch;
            found.push(Origin { branch: next, earlier });
        }
        let found: Arc<[Origin]> = found.into();
        // A stored checkpoint never changes, so the list is valid as long as the run.
        known().insert(branch, Arc::clone(&found));
        Ok(found)
    }

    async fn load(&self, id: CheckpointId) -> Result<Option<StoredCheckpoint>, CheckpointerError> {
        let at = CheckpointAddress { thread: self.run.thread.as_str().into(), ns: "".into() };
        let mut patience = Patience::new();
        loop {
            match self.checkpointer.load(&at, &self.plan, Some(id)).await {
                Err(CheckpointerError::Store(error)) => {
                    patience.after(error, self.clock.as_ref(), &self.run, None).await?;
                }
                found => return found,
            }
        }
    }
}
