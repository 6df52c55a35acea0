//! Events that tools dispatch to the session of their run.

use crate::ToolError;
use crate::error::code;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_types::session::SessionEvent;

/// Maximum number of events that a call dispatches.
pub const DISPATCHED_MAX: usize = 256;
/// Maximum size of the events that a call dispatches, in bytes of JSON.
pub const DISPATCHED_BYTES_MAX: usize = 256 * 1024;

/// The session events of one tool call, as a dependency of the call.
///
/// The events are part of the journal record of the call. A call that fails leaves none, a recorded
/// call that is reused has the recorded ones, and a round that ends with questions drops its own.
#[derive(Debug, Default)]
pub struct Dispatched(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    events: Vec<SessionEvent>,
    bytes: usize,
}

impl Dispatched {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`ToolError`] (W0620) over [`DISPATCHED_MAX`] events or [`DISPATCHED_BYTES_MAX`] bytes. The
    /// events before it stay.
    pub fn push(&self, event: SessionEvent) -> Result<(), ToolError> {
        let mut buffer = self.lock();
        let bytes = buffer.bytes + event.slice.len() + event.event.to_string().len();
        if buffer.events.len() >= DISPATCHED_MAX || bytes > DISPATCHED_BYTES_MAX {
            let error = ToolError::failed(format_args!(
                "a call dispatches at most {DISPATCHED_MAX} events and {DISPATCHED_BYTES_MAX} bytes to its session; the event for slice `{}` would be number {} and make it {bytes} bytes; dispatch less",
                event.slice,
                buffer.events.len() + 1,
            ));
            return Err(error.with_code(code::TOO_MANY_EVENTS));
        }
        buffer.bytes = bytes;
        buffer.events.push(event);
        Ok(())
    }

    /// Returns the events so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<SessionEvent> {
        self.lock().events.clone()
    }

    /// Replaces the events.
    pub(crate) fn set(&self, events: Vec<SessionEvent>) {
        *self.lock() = Buffer { events, bytes: 0 };
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(bytes: usize) -> SessionEvent {
        SessionEvent { slice: "s".to_owned(), event: json!("x".repeat(bytes)) }
    }

    #[test]
    fn events_are_limited_in_number_and_size() {
        let many = Dispatched::new();
        for _ in 0..DISPATCHED_MAX {
            many.push(event(1)).expect("within the limit");
        }
        let refused = many.push(event(1)).expect_err("over the limit");
        assert!(refused.message().contains("number 257"), "{}", refused.message());
        assert_eq!(many.events().len(), DISPATCHED_MAX);
        let large = Dispatched::new();
        large.push(event(DISPATCHED_BYTES_MAX / 2)).expect("half of the limit");
        large.push(event(DISPATCHED_BYTES_MAX / 2)).expect_err("over the limit");
        large.push(event(1)).expect("a small one still fits");
    }
}
