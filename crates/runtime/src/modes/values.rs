//! Mode `values`: the output of a graph after each superstep that changed it.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};
use weftwork_types::event::TaskStatus;

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Continued => {
            Some(StreamEvent::Values { values: step.values(), interrupts: None })
        }
        Incident::Applied(values) => {
            Some(StreamEvent::Values { values: values.clone()?, interrupts: None })
        }
        Incident::Ended(task, TaskStatus::Asks) => {
            let interrupts = Some(step.questions(*task).to_vec());
            Some(StreamEvent::Values { values: step.values(), interrupts })
        }
        _ => None,
    }
}
