//! Mode `tasks`: tasks as they start and end.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};
use weftwork_types::event::TaskStatus;

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Started(task) => step.started(*task).map(StreamEvent::TaskStarted),
        Incident::Ended(_, TaskStatus::Cached | TaskStatus::Stopped) => None,
        Incident::Ended(task, TaskStatus::Failed) if step.was_cut_off(*task) => None,
        Incident::Ended(task, status) => {
            step.ended(*task, status.is_ok()).map(StreamEvent::TaskEnded)
        }
        _ => None,
    }
}
