//! Tasks and artifacts.

use super::message::{Message, Part};
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weftwork_types::Timestamp;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// Accepted, not yet begun.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// In progress.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// Ended with its result.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// Ended without a result.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// Stopped by a client.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// Waits for a message.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// Not taken by the agent. No task of this server has this state: it refuses the request.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// Waits for an authorization.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Returns `true` for a task that changes no more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns `true` for a task that waits for its client.
    #[must_use]
    pub fn asks(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// The status of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// State.
    pub state: TaskState,
    /// Message of the agent about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Time since which the task has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
}

/// A result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Id, unique within the task.
    pub artifact_id: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Content, in order.
    pub parts: Vec<Part>,
    /// Data about it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Id.
    pub id: String,
    /// Context, which is a conversation.
    #[serde(default)]
    pub context_id: String,
    /// Status.
    pub status: TaskStatus,
    /// Results; `None` in lists without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    /// Messages of the client, and questions of the agent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Data about it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Returns a time in the form of RFC 3339, with milliseconds.
#[must_use]
pub fn timestamp(at: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    PRINTER.timestamp_to_string(&at)
}
