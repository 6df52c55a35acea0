//! Mode `checkpoints`: each checkpoint, with the tasks that are due there.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    let checkpoint = || StreamEvent::Checkpoint(Box::new(step.snapshot()));
    matches!(incident, Incident::Checkpoint).then(checkpoint)
}
