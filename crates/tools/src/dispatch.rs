//! Events that tools dispatch to the session of their run.

use crate::ToolError;
use crate::error::code;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_types::port::IdempotencyKey;
use weftwork_types::session::SessionEvent;

/// Maximum number of events that a call dispatches.
pub const DISPATCHED_MAX: usize = 256;
/// Maximum size of the events that a call dispatches, in bytes of JSON.
pub const DISPATCHED_BYTES_MAX: usize = 256 * 1024;

/// The session events of one tool call, as a dependency of the call.
///
/// The events are part of the journal record of the call. A call that fails leaves none, a recorded
/// call that is reused has the recorded ones, and a round that ends with questions drops its own.
/// After the end of the tool, events are refused.
#[derive(Debug, Default)]
pub struct Dispatched(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    events: Vec<SessionEvent>,
    bytes: usize,
    is_closed: bool,
    key: Option<IdempotencyKey>,
    rounds: u32,
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
    /// [`ToolError`] (W0620) over [`DISPATCHED_MAX`] events or [`DISPATCHED_BYTES_MAX`] bytes, and
    /// after the end of the tool. The events before it stay.
    pub fn push(&self, event: SessionEvent) -> Result<(), ToolError> {
        let mut buffer = self.lock();
        if buffer.is_closed {
            let error = ToolError::failed(format_args!(
                "the event for slice `{}` was dispatched after the end of its call; wait in the tool for the tasks that it starts",
                event.slice,
            ));
            return Err(error.with_code(code::TOO_MANY_EVENTS));
        }
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

    /// Key that identifies the call, the same in all its repetitions; `None` if its tool was not
    /// started.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<IdempotencyKey> {
        self.lock().key
    }

    /// Number of times that the tool was started, for a round or an attempt.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.lock().rounds
    }

    /// Begins a round of a call: drops the events of an earlier one, and accepts new ones.
    pub(crate) fn open(&self, key: IdempotencyKey) {
        let mut buffer = self.lock();
        let rounds = buffer.rounds + 1;
        *buffer = Buffer { key: Some(key), rounds, ..Buffer::default() };
    }

    /// Refuses further events, and returns those so far.
    pub(crate) fn close(&self) -> Vec<SessionEvent> {
        let mut buffer = self.lock();
        buffer.is_closed = true;
        buffer.events.clone()
    }

    /// Replaces the events, and refuses further ones.
    pub(crate) fn set(&self, events: Vec<SessionEvent>) {
        let mut buffer = self.lock();
        buffer.events = events;
        buffer.bytes = 0;
        buffer.is_closed = true;
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

    #[test]
    fn events_after_the_end_of_a_round_are_refused() {
        let late = Dispatched::new();
        late.push(event(1)).expect("open");
        assert_eq!(late.close().len(), 1);
        let refused = late.push(event(1)).expect_err("closed");
        assert!(refused.message().contains("after the end"), "{}", refused.message());
        late.set(Vec::new());
        late.push(event(1)).expect_err("closed");
        let key = IdempotencyKey(weftwork_types::canonical::hash_bytes(b"call"));
        late.open(key);
        assert_eq!(late.idempotency_key(), Some(key));
        late.push(event(1)).expect("open again");
        assert_eq!(late.events().len(), 1);
    }
}
