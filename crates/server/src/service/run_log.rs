//! Logs of runs.

use super::Service;
use crate::error::Result;
use crate::translate::{rows, time};
use serde_json::{Value, json};
use weftwork_store::{StoreError, StoredEvent};
use weftwork_types::event::AiEvent;
use weftwork_types::run::RunRef;

/// Number of events of a log that are read at once.
const PAGE: usize = 256;
/// Maximum size of the events of a log that are returned, in bytes of JSON. Later ones are counted.
const LOG_BYTES_MAX: usize = 2 << 20;

/// The first events of a log.
#[derive(Debug, Default)]
struct Bounded {
    events: Vec<Value>,
    bytes: usize,
    /// Number of events that are left out because of their size.
    omitted: usize,
}

impl Bounded {
    /// Adds an event, unless it or an earlier one does not fit.
    fn add(&mut self, event: Value, bytes_max: usize) {
        let bytes = event.to_string().len();
        if self.omitted > 0 || self.bytes + bytes > bytes_max {
            self.omitted += 1;
            return;
        }
        self.bytes += bytes;
        self.events.push(event);
    }
}

impl Service {
    /// Returns the end of a run, also of one that was replaced, and the events of its log. Texts, messages and values that nodes
    /// emit are left out: their size is that of the conversation, and other routes return them. The
    /// events have at most [`LOG_BYTES_MAX`] bytes; `omitted` counts the others.
    ///
    /// # Errors
    /// Status 404 if there is no such run.
    pub(crate) async fn run_log(&self, run: &RunRef) -> Result<Value> {
        let row = self.made_run(run).await?;
        let mut log = Bounded::default();
        self.read_events(run, |stored| {
            if is_structure(&stored.event) {
                let event = stored.event.clone().into_shown();
                let event = json!({"seq": stored.seq, "at": stored.at, "event": event});
                log.add(event, LOG_BYTES_MAX);
            }
        })
        .await?;
        Ok(json!({
            "run_id": run.run,
            "status": row.status,
            "error": row.outcome.as_ref().and_then(rows::failure_of),
            "created_at": time::format_time(row.new.created_at),
            "ended_at": row.ended_at.map(time::format_time),
            "events": log.events,
            "omitted": log.omitted,
        }))
    }

    /// Reads the retained events of a run in order.
    pub(super) async fn read_events(
        &self,
        run: &RunRef,
        mut read: impl FnMut(&StoredEvent),
    ) -> Result<()> {
        let mut last = 0;
        loop {
            let page = match self.store().events(self.who(), run, last, PAGE).await {
                Err(StoreError::Dropped { oldest, .. }) if oldest > last + 1 => {
                    last = oldest - 1;
                    continue;
                }
                page => page?,
            };
            for stored in &page {
                read(stored);
                last = stored.seq;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}

/// Returns `true` for an event about the steps of a run, other than their texts and values.
fn is_structure(event: &AiEvent) -> bool {
    !matches!(
        event,
        AiEvent::TextDelta { .. }
            | AiEvent::ReasoningDelta { .. }
            | AiEvent::ToolCallDelta { .. }
            | AiEvent::MessageFinal { .. }
            | AiEvent::TextStopped { .. }
            | AiEvent::Custom { .. }
            | AiEvent::RemoteFrame { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_events_that_fit_and_counts_the_others() {
        let mut log = Bounded::default();
        let event = |text: &str| json!({"event": text});
        let bytes = event("ten").to_string().len();
        for text in ["one", "two", "ten"] {
            log.add(event(text), 2 * bytes);
        }
        // A smaller one has no place either: the log has no gap.
        log.add(json!({}), 2 * bytes);
        assert_eq!(log.events, [event("one"), event("two")]);
        assert_eq!(log.omitted, 2);
    }
}
