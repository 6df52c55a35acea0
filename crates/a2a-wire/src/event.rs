//! Events of streams and push notifications.

use super::message::Message;
use super::task::{Artifact, Task, TaskStatus};
use serde::{Deserialize, Serialize};

/// A change of the status of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    /// Task.
    pub task_id: String,
    /// Context.
    pub context_id: String,
    /// New status.
    pub status: TaskStatus,
}

/// A change of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    /// Task.
    pub task_id: String,
    /// Context.
    pub context_id: String,
    /// The artifact, or a part of it.
    pub artifact: Artifact,
    /// `true` if the parts follow those that were sent before; `false` if they replace them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// `true` if the artifact is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    /// The task, at the beginning of a stream.
    Task(Task),
    /// An answer without a task.
    Message(Message),
    /// A change of the status.
    StatusUpdate(StatusUpdate),
    /// A change of an artifact.
    ArtifactUpdate(ArtifactUpdate),
}

/// The result of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendResult {
    /// The task that it began or continued.
    Task(Task),
    /// An answer without a task.
    Message(Message),
}
