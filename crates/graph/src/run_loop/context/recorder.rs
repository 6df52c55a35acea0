//! Storage of the calls of a task in the record of a task.

use super::{LoopContext, TaskContext, TaskState};
use crate::run_loop::checkpointer::TaskKey;
use std::sync::Arc;
use weftwork_types::CheckpointId;

/// Recorder of calls in the record of a task of the outermost graph, whichever subgraph or nested
/// task makes the calls. Another attempt, or a later run of the subgraph, finds them there,
/// wherever the subgraph stores its checkpoints that time.
#[derive(Debug, Clone)]
pub(crate) struct TaskRecorder {
    pub(crate) loop_context: Arc<LoopContext>,
    pub(crate) task_state: Arc<TaskState>,
    pub(crate) key: TaskKey,
    pub(crate) of: CheckpointId,
    /// The task that makes the calls, when it is another.
    pub(crate) own: Option<Arc<TaskRecorder>>,
}

impl TaskContext {
    /// Returns the recorder of the task's calls; `None` without a checkpointer.
    pub(crate) fn recorder(&self) -> Option<TaskRecorder> {
        let own = || TaskRecorder {
            loop_context: Arc::clone(&self.loop_context),
            task_state: Arc::clone(&self.task_state),
            key: self.key.clone(),
            of: self.checkpoint,
            own: None,
        };
        if let Some(recorder) = &self.recorder {
            // The record of the calling task has the answers that led to its calls: they are stored
            // before an effect.
            let own = Some(Arc::new(own()));
            return Some(TaskRecorder { own, ..TaskRecorder::clone(recorder) });
        }
        self.loop_context.storage.checkpointer.as_ref()?;
        Some(own())
    }
}
