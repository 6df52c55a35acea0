//! Events that need no checkpoints: values that nodes emit, and frames of remote runs.

use weftwork_graph::run_loop::{Modes, StreamEvent};
use weftwork_types::event::AiEvent;

/// Returns the mode of an event, the namespace of its graph, and its content.
pub(super) fn event(event: &AiEvent) -> Option<(Modes, &str, StreamEvent)> {
    match event {
        AiEvent::Custom { ns, value, .. } => {
            Some((Modes::CUSTOM, ns, StreamEvent::Custom(value.clone())))
        }
        AiEvent::RemoteFrame { ns, mode, data } => {
            let mode = Modes::parse(mode).filter(|mode| mode.remote_name().is_some())?;
            Some((mode, ns, StreamEvent::Data { mode, data: data.clone() }))
        }
        _ => None,
    }
}
