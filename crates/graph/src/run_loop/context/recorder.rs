//! Storage of the calls of a task in the record of a task.

use super::{Scope, Scratch, TaskAt};
use crate::run_loop::checkpointer::TaskKey;
use std::sync::Arc;
use weftwork_types::CheckpointId;
/// The task in whose record calls are kept: one of the outermost graph, whatever graph or task within
/// it makes them. So they are found by whoever makes them again, in another attempt or after the
/// graph within was left, wherever that keeps its checkpoints this time.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    pub(crate) scope: Arc<Scope>,
    pub(crate) scratch: Arc<Scratch>,
    pub(crate) key: TaskKey,
    pub(crate) of: CheckpointId,
    /// The task that makes the calls, when it is another.
    pub(crate) own: Option<Arc<Keeper>>,
}

impl TaskAt {
    /// Returns the keeper that stores the calls of the task; `None` without a checkpointer.
    pub(crate) fn keeper(&self) -> Option<Keeper> {
        let own = || Keeper {
            scope: Arc::clone(&self.scope),
            scratch: Arc::clone(&self.scratch),
            key: self.key.clone(),
            of: self.checkpoint,
            own: None,
        };
        if let Some(keeper) = &self.keeper {
            let own = Some(Arc::new(own()));
            return Some(Keeper { own, ..Keeper::clone(keeper) });
        }
        let hosted = self.scope.shared.host.environment().has_log();
        self.scope.keep.saver.as_ref().filter(|_| !hosted)?;
        Some(own())
    }
}
