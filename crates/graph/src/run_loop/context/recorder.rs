//! Storage of the calls of a task in the record of a task.

use super::{LoopContext, TaskContext, TaskState};
use crate::run_loop::checkpointer::TaskKey;
use std::sync::Arc;
use weftwork_types::CheckpointId;

/// The task in whose record calls are kept: one of the outermost graph, whatever graph or task within
/// it makes them. So they are found by whoever makes them again, in another attempt or after the
/// graph within was left, wherever that keeps its checkpoints this time.
#[derive(Debug, Clone)]
pub(crate) struct TaskRecorder {
    pub(crate) scope: Arc<LoopContext>,
    pub(crate) task_state: Arc<TaskState>,
    pub(crate) key: TaskKey,
    pub(crate) of: CheckpointId,
    /// The task that makes the calls, when it is another.
    pub(crate) own: Option<Arc<TaskRecorder>>,
}

impl TaskContext {
    /// Returns the keeper that stores the calls of the task; `None` without a checkpointer.
    pub(crate) fn recorder(&self) -> Option<TaskRecorder> {
        let own = || TaskRecorder {
            scope: Arc::clone(&self.scope),
            task_state: Arc::clone(&self.task_state),
            key: self.key.clone(),
            of: self.checkpoint,
            own: None,
        };
        if let Some(recorder) = &self.recorder {
            let own = Some(Arc::new(own()));
            return Some(TaskRecorder { own, ..TaskRecorder::clone(recorder) });
        }
        let hosted = self.scope.shared.host.environment().has_log();
        self.scope.keep.checkpointer.as_ref().filter(|_| !hosted)?;
        Some(own())
    }
}
