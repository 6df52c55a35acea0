//! Mode `values`: the output of a graph after each superstep that changed it.

use super::incident::Incident;
use weftwork_graph::run_loop::{StoredStep, StreamEvent};

pub(super) fn event(step: &StoredStep, incident: &Incident) -> Option<StreamEvent> {
    match incident {
        Incident::Continued => {
            Some(StreamEvent::Values { values: step.values(), interrupts: None })
        }
        Incident::Applied(values) => {
            Some(StreamEvent::Values { values: values.clone()?, interrupts: None })
        }
        Incident::Ended(end) if !end.questions.is_empty() => {
            let interrupts = Some(end.questions.clone());
            Some(StreamEvent::Values { values: step.values(), interrupts })
        }
        Incident::StillOpen(questions) => {
            let interrupts = Some(questions.clone());
            Some(StreamEvent::Values { values: step.values(), interrupts })
        }
        _ => None,
    }
}
