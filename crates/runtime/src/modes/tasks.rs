//! Mode `tasks`: tasks as they start and end.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};
use weftwork_types::event::TaskStatus;

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Started(task) => step.started(*task).map(StreamEvent::TaskStarted),
        Incident::Ended(end) => {
            let unseen = matches!(end.status, TaskStatus::Cached | TaskStatus::Stopped);
            if unseen || end.fault.as_ref().is_some_and(StoredStep::was_cut_off) {
                return None;
            }
            let fault = end.fault.as_ref();
            let ended = step.ended(end.id, end.status.is_ok(), fault, &end.questions);
            ended.map(StreamEvent::TaskEnded)
        }
        _ => None,
    }
}
