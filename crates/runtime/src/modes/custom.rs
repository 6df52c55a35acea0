//! Mode `custom`: values that nodes emit.

use weftwork_graph::run_loop::StreamEvent;
use weftwork_types::event::AiEvent;

/// Returns the namespace of a value, and its event.
pub(super) fn event(event: &AiEvent) -> Option<(&str, StreamEvent)> {
    match event {
        AiEvent::Custom { ns, value, .. } => Some((ns, StreamEvent::Custom(value.clone()))),
        _ => None,
    }
}
