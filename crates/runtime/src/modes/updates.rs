//! Mode `updates`: the writes of each task that finished, and the questions of one that waits.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};
use weftwork_types::event::TaskStatus;

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Ended(task, TaskStatus::Ok) => step.updates(*task, false),
        Incident::Ended(task, TaskStatus::Cached) => step.updates(*task, true),
        Incident::Ended(task, TaskStatus::Asks) => {
            Some(StreamEvent::Interrupts(step.questions(*task).to_vec()))
        }
        Incident::StoppedAtNode => Some(StreamEvent::Interrupts(Vec::new())),
        _ => None,
    }
}
