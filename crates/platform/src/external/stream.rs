//! Streams of events of a server.

use super::card::Interface;
use super::error::FailedAttempt;
use super::peer::{Opened, Peer};
use crate::api::without;
use futures_util::StreamExt;
use serde_json::Value;
use std::collections::VecDeque;
use weftwork_types::sse::{SseEvent, SseParser};

/// Longest event of a stream in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Longest stream in bytes.
const STREAM_BYTES_MAX: usize = 64 << 20;

/// A stream of events.
pub(super) struct EventStream {
    opened: Opened,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
    bytes: usize,
}

/// Returns `true` for an answer that is a stream of events.
pub(super) fn is_stream(opened: &Opened) -> bool {
    let kind = opened.response.header("content-type").unwrap_or_default();
    kind.to_ascii_lowercase().starts_with("text/event-stream")
}

impl EventStream {
    pub(super) fn new(opened: Opened) -> Self {
        let parser = SseParser::new(EVENT_BYTES_MAX);
        Self { opened, parser, ready: VecDeque::new(), bytes: 0 }
    }

    /// Returns the next event; `None` if the stream has ended or its connection broke.
    ///
    /// # Errors
    /// The refusal in an event, and an error for an event that is not of the protocol, or too long.
    pub(super) async fn next(
        &mut self,
        peer: &Peer,
        interface: &Interface,
    ) -> Result<Option<Value>, FailedAttempt> {
        const WHAT: &str = "a stream";
        loop {
            if let Some(event) = self.ready.pop_front() {
                let text = without(event.data, &self.opened.secrets);
                let value = serde_json::from_str(&text);
                let value = value
                    .map_err(|error| peer.invalid(WHAT, format!("it is no JSON ({error})")))?;
                return interface.result(peer, value).map(Some);
            }
            let piece = match self.opened.response.body.next().await {
                None => return Ok(None),
                Some(Ok(piece)) => piece,
                Some(Err(error)) if error.is_retriable() => return Ok(None),
                Some(Err(error)) => return Err(peer.network(error, &self.opened.secrets)),
            };
            self.bytes = self.bytes.saturating_add(piece.len());
            if self.bytes > STREAM_BYTES_MAX {
                let reason = format!("it is longer than {STREAM_BYTES_MAX} bytes");
                return Err(peer.invalid(WHAT, reason).into());
            }
            let mut events = Vec::new();
            let pushed = self.parser.push(&piece, &mut events);
            self.ready.extend(events);
            pushed.map_err(|error| peer.invalid(WHAT, error.to_string()))?;
        }
    }
}
