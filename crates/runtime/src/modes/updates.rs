//! Mode `updates`: the writes of each task that finished, and the questions of one that waits.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};
use weftwork_types::event::TaskStatus;

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Ended(end) => match end.status {
            TaskStatus::Ok => step.updates(end.id, false),
            TaskStatus::Cached => step.updates(end.id, true),
            _ if !end.questions.is_empty() => Some(StreamEvent::Interrupts(end.questions.clone())),
            TaskStatus::Failed if end.answered => step.no_update(end.id),
            _ => None,
        },
        Incident::StillOpen(questions) => Some(StreamEvent::Interrupts(questions.clone())),
        Incident::StoppedAtNode => Some(StreamEvent::Interrupts(Vec::new())),
        _ => None,
    }
}
