//! Notifications of the progress of a call.

use crate::message::notification;
use serde_json::{Value, json};
use std::time::Duration;
use weftwork_types::event::{AiEvent, RunEvent};

/// Time between notifications of a call in which nothing happens. Clients give up calls that say nothing
/// for a minute, or for half of one.
const EVERY: Duration = Duration::from_secs(10);

/// The progress of a call whose client wants to know it.
#[derive(Debug)]
pub(crate) struct Progress {
    token: Value,
    /// Number of notifications.
    count: u64,
    /// Time since the last one in which nothing has happened.
    quiet: Duration,
}

impl Progress {
    pub(crate) fn new(token: Value) -> Self {
        Self { token, count: 0, quiet: Duration::ZERO }
    }

    /// Returns the notification of an event; `None` for one that is no progress.
    pub(crate) fn of_event(&mut self, event: &RunEvent) -> Option<Value> {
        let message = match &event.event {
            AiEvent::RunStarted { .. } => "the agent has begun".to_owned(),
            AiEvent::TakenOver { .. } => "another process continues".to_owned(),
            AiEvent::ToolCallStart { tool_name, .. } => format!("calls {tool_name}"),
            AiEvent::ToolCallResult { is_error: false, .. } => "a call has ended".to_owned(),
            AiEvent::ToolCallResult { is_error: true, .. } => "a call has failed".to_owned(),
            AiEvent::Checkpoint(stored) if stored.is_step() => {
                format!("step {} has ended", stored.step)
            }
            _ => return None,
        };
        Some(self.notice(&message))
    }

    /// Returns the notification of a call in which nothing has happened for a further time, if it is time
    /// for one.
    pub(crate) fn of_quiet(&mut self, time: Duration) -> Option<Value> {
        self.quiet += time;
        (self.quiet >= EVERY).then(|| self.notice("the agent works"))
    }

    fn notice(&mut self, message: &str) -> Value {
        self.count += 1;
        self.quiet = Duration::ZERO;
        let Self { token, count, .. } = self;
        let params = json!({"progressToken": token, "progress": count, "message": message});
        notification("notifications/progress", &params)
    }
}
