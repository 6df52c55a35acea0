//! Mode `debug`: tasks and checkpoints with the number of their superstep.

use super::incident::Incident;
use super::{checkpoints, tasks};
use weftwork_graph::run_loop::{StoredStep, StreamEvent};

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    let number = step.step();
    let (number, event) = match checkpoints::event(step, incident) {
        Some(checkpoint) => (number - 1, checkpoint),
        None => (number, tasks::event(step, incident)?),
    };
    Some(StreamEvent::Debug { step: number, event: Box::new(event) })
}
