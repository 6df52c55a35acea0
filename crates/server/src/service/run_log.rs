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

impl Service {
    /// Returns the end of a run and the events of its log. Texts, messages and values that nodes
    /// emit are left out: their size is that of the conversation, and other routes return them.
    ///
    /// # Errors
    /// Status 404 if there is no such run.
    pub(crate) async fn run_log(&self, run: &RunRef) -> Result<Value> {
        let row = self.run_row(run).await?;
        let mut events = Vec::new();
        self.read_events(run, |stored| {
            if is_structure(&stored.event) {
                let event = stored.event.clone().into_shown();
                events.push(json!({"seq": stored.seq, "at": stored.at, "event": event}));
            }
        })
        .await?;
        Ok(json!({
            "run_id": run.run,
            "status": row.status,
            "error": row.outcome.as_ref().and_then(rows::failure_of),
            "created_at": time::format_time(row.new.created_at),
            "ended_at": row.ended_at.map(time::format_time),
            "events": events,
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
            | AiEvent::Custom { .. }
            | AiEvent::RemoteFrame { .. }
    )
}
