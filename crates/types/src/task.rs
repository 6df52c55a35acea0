//! Tasks: what agents are asked, and what they answer.
//!
//! The form is the same everywhere: in Rust, on the command line, and over HTTP.

use crate::RunId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Ways in which an agent is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// Talk.
    Converse,
    /// Make and change plans.
    Plan,
    /// Make deliverables.
    Build,
}

impl Mode {
    /// All modes, in the order in which an agent has one of them by default.
    pub const ALL: [Self; 3] = [Self::Converse, Self::Plan, Self::Build];

    /// Returns the word for the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Converse => "converse",
            Self::Plan => "plan",
            Self::Build => "build",
        }
    }

    /// Returns the mode of a word.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A request to an agent. The principal is that of the caller, and never a member of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TaskRequest {
    /// Slug of the agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Mode: `converse`, `plan` or `build`; by default the first of these that the agent has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Message of the user.
    pub user_message: String,
    /// Input of the agent, as its `input_schema` describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Id of the conversation: any text of at most 512 bytes. A request without one begins a new
    /// conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// Details.
    #[serde(skip_serializing_if = "Payload::is_empty")]
    pub payload: Payload,
}

/// Details of a request. Unknown members are refused: a misspelt version would lose an edit of another
/// one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Payload {
    /// Title of the conversation, plan or deliverable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Tool of a tool agent, as `server/tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Several calls of tools, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolRequest>,
    /// Plan of the action, or that a build follows, or that an orchestration carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Deliverable of the action, or of which a build makes a further version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliverable_id: Option<String>,
    /// Action on plans or deliverables: `create`, `read`, `list`, `edit`, `rerun`, `set_current`,
    /// `copy_version`, `delete_version`, `merge_versions` or `delete`; `create` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Version of the action; the current one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Second version of `merge_versions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_version: Option<u64>,
    /// Content of `edit`; the resolved content of `merge_versions`; the content of `create` that is
    /// not made by a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// Request for an orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrate: Option<bool>,
    /// Request to show the plan of an orchestration before it runs, which a person then approves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_plan: Option<bool>,
    /// Action of an orchestration: `execute`, `continue`, `pause`, `resume`, `human-response` or
    /// `rollback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_action: Option<String>,
    /// Approval that the request answers, of any agent: the id of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Decision about the approval: `approve`, `edit`, with the values as the `input` of the request,
    /// or `reject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Time in which the token of a `pause` is taken, such as `2h`; by default, and at most, 7 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// Token of a `pause`, which `resume` uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Step that a `rollback` goes back to: the state before it began. By default the step that ended
    /// last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Value of the list of effects that a `rollback` confirms. Without one, it returns the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// Request for a stream of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

impl Payload {
    /// Returns `true` if it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if it answers an approval: with the action `human-response`, or with its id and the
    /// decision alone.
    #[must_use]
    pub fn answers_approval(&self) -> bool {
        match self.orchestration_action.as_deref() {
            Some(action) => action == "human-response",
            None => {
                let is_other = self.orchestrate == Some(true) || self.action.is_some();
                self.approval_id.is_some() && self.decision.is_some() && !is_other
            }
        }
    }
}

/// A call of a tool that is requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolRequest {
    /// Tool, as `server/tool`.
    pub tool: String,
    /// Arguments; without them a model takes them from the message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

/// A failure of an agent that another one asked. All types of agents fail in this form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentFailure {
    /// Slug of the agent.
    pub agent: String,
    /// Id of the step; with the number of its item, such as `each.0`, in a loop.
    pub step: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Stable code, such as `W0301`.
    pub code: String,
    /// Description without secrets.
    pub safe_message: String,
    /// `true` if a further attempt may succeed without a change.
    pub retriable: bool,
    /// Run in which it failed, by which those who may read the run find the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_id: Option<RunId>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskResponse {
    /// `true` if the request was fulfilled.
    pub success: bool,
    /// Mode, as requested.
    pub mode: String,
    /// Content of a successful answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// Agent, version, run, thread, usage, and what else is known of the answer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Reason why the request was not fulfilled, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TaskResponse {
    /// Creates the answer to a request that was fulfilled.
    #[must_use]
    pub fn success(mode: Mode, content: Value, metadata: Map<String, Value>) -> Self {
        let mode = mode.name().to_owned();
        Self { success: true, mode, content: Some(content), metadata, error: None }
    }

    /// Creates the answer to a request that was not fulfilled.
    pub fn failure(mode: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            success: false,
            mode: mode.into(),
            content: None,
            metadata: Map::new(),
            error: Some(error.into()),
        }
    }
}
