//! Events of a thread, as clients receive them.

use serde_json::{Value, json};
use weftwork_types::Timestamp;

/// The channel of an event, by which clients select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Values,
    Updates,
    Messages,
    Tools,
    Lifecycle,
    Input,
    Checkpoints,
    Tasks,
    Custom,
}

impl Channel {
    pub(crate) const ALL: [Self; 9] = [
        Self::Values,
        Self::Updates,
        Self::Messages,
        Self::Tools,
        Self::Lifecycle,
        Self::Input,
        Self::Checkpoints,
        Self::Tasks,
        Self::Custom,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Updates => "updates",
            Self::Messages => "messages",
            Self::Tools => "tools",
            Self::Lifecycle => "lifecycle",
            Self::Input => "input",
            Self::Checkpoints => "checkpoints",
            Self::Tasks => "tasks",
            Self::Custom => "custom",
        }
    }

    /// Returns the method of the events of the channel.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Input => "input.requested",
            other => other.name(),
        }
    }
}

/// An event of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Number of the event; see [`number`](super::number).
    pub(crate) seq: u64,
    /// Id of the event, by which clients recognise an event that they received before.
    pub(crate) id: String,
    pub(crate) channel: Channel,
    /// Namespace of its graph; empty for the outermost graph.
    pub(crate) namespace: Vec<String>,
    pub(crate) at: Timestamp,
    /// The node, for messages that overlap with other messages.
    pub(crate) node: Option<String>,
    pub(crate) data: Value,
    /// Text that a client has of each unfinished message after the event; see
    /// [`PartialMessages`](crate::translate::partial::PartialMessages).
    pub(crate) received: String,
}

/// An event, and its number if it has one of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NumberedEvent {
    pub(crate) event: Event,
    pub(crate) number: Option<u64>,
}

impl Event {
    /// Returns the id under which a stream sends the event. A client that names it in
    /// `last-event-id` gets the rest of the texts that it has, also after the end of the run.
    pub(crate) fn stream_id(&self) -> String {
        format!("{}{}", self.seq, self.received)
    }

    /// Returns the name of a custom event that has one.
    pub(crate) fn custom_name(&self) -> Option<&str> {
        let name = self.data.get("name").and_then(Value::as_str);
        name.filter(|_| self.channel == Channel::Custom)
    }

    /// Returns the event as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut params = json!({"namespace": self.namespace, "timestamp": self.at.0});
        if let Some(node) = &self.node {
            params["node"] = json!(node);
        }
        params["data"] = self.data.clone();
        json!({
            "type": "event",
            "event_id": self.id,
            "seq": self.seq,
            "method": self.channel.method(),
            "params": params,
        })
    }
}
