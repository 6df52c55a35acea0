//! Requests and their results.

use super::message::Message;
use super::task::{Task, TaskState};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Reads a state; an unspecified one is none.
fn specified<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TaskState>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        value if value == "TASK_STATE_UNSPECIFIED" => Ok(None),
        value => TaskState::deserialize(value).map(Some).map_err(D::Error::custom),
    }
}

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Slug of the agent, at the address that all agents share.
    #[serde(default)]
    pub tenant: String,
    /// The message.
    pub message: Message,
    /// Options.
    #[serde(default)]
    pub configuration: SendConfiguration,
    /// Data of the client.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// Options of a message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendConfiguration {
    /// Media types that the client takes.
    #[serde(alias = "accepted_output_modes")]
    pub accepted_output_modes: Vec<String>,
    /// Push notifications of the task.
    #[serde(alias = "task_push_notification_config")]
    pub task_push_notification_config: Option<PushConfig>,
    /// Maximum number of messages in the history.
    #[serde(alias = "history_length")]
    pub history_length: Option<i64>,
    /// Asks for the task before it has ended.
    #[serde(alias = "return_immediately")]
    pub return_immediately: bool,
}

/// A configuration of push notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// As [`SendMessage::tenant`].
    #[serde(skip_serializing)]
    pub tenant: String,
    /// Id, unique within the task.
    pub id: String,
    /// Task.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// Address that gets the notifications.
    pub url: String,
    /// Token that the notifications carry. Answers never have it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Authentication at the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// The authentication of notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    /// Scheme of HTTP, such as `Bearer`.
    pub scheme: String,
    /// Credentials. Answers never have them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credentials: String,
}

/// A request about a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskRef {
    /// Slug of the agent, at the address that all agents share.
    pub tenant: String,
    /// Id of the task.
    pub id: String,
    /// Maximum number of messages in the history.
    #[serde(alias = "history_length")]
    pub history_length: Option<i64>,
}

/// A request about a configuration of push notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigRef {
    /// Slug of the agent, at the address that all agents share.
    pub tenant: String,
    /// Id of the task.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// Id of the configuration.
    pub id: String,
}

/// A request for the configurations of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListConfigs {
    /// Slug of the agent, at the address that all agents share.
    pub tenant: String,
    /// Id of the task.
    #[serde(alias = "task_id")]
    pub task_id: String,
}

/// The configurations of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListConfigsResult {
    /// The configurations, without secrets, ordered by id.
    pub configs: Vec<PushConfig>,
    /// Always empty: a task has few of them.
    pub next_page_token: String,
}

/// A request for tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    /// Slug of the agent, at the address that all agents share.
    pub tenant: String,
    /// The only context.
    #[serde(alias = "context_id")]
    pub context_id: String,
    /// The only state.
    #[serde(deserialize_with = "specified")]
    pub status: Option<TaskState>,
    /// Maximum number of tasks.
    #[serde(alias = "page_size")]
    pub page_size: Option<i64>,
    /// Place after an earlier result.
    #[serde(alias = "page_token")]
    pub page_token: String,
    /// Maximum number of messages in the history of each task.
    #[serde(alias = "history_length")]
    pub history_length: Option<i64>,
    /// Time after which the status changed.
    #[serde(alias = "status_timestamp_after")]
    pub status_timestamp_after: String,
    /// Asks for the artifacts.
    #[serde(alias = "include_artifacts")]
    pub include_artifacts: bool,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasksResult {
    /// The tasks, those first whose status changed last.
    pub tasks: Vec<Task>,
    /// Place after the last task; empty on the last page.
    pub next_page_token: String,
    /// Maximum number of tasks.
    pub page_size: usize,
    /// Number of tasks of all pages.
    pub total_size: usize,
}
