//! Steps of an orchestration, as a definition has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use weftwork_types::task::Mode;

/// A step of an orchestration: an agent that is asked, a checkpoint, a wait, or a group of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrchestrationStep {
    /// Id, by which other steps and placeholders name the step. A group may be without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z][a-z0-9_]*$"), length(max = 40))]
    pub id: Option<String>,
    /// Slug of the agent that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Question that a person answers before the steps behind it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Time to wait, such as `5m`. The wait outlives the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(w|d|h|ms|m|s))+$"))]
    pub wait: Option<String>,
    /// Steps of which each begins after the ones before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<OrchestrationStep>,
    /// Steps that begin together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parallel: Vec<OrchestrationStep>,
    /// Mode in which the agent is asked; `build` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Message to the agent, with placeholders; by default the message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100_000))]
    pub message: Option<String>,
    /// Input of the agent, with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Details of the request to the agent, with placeholders.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub payload: Map<String, Json>,
    /// Ids of the steps that end before this one begins; by default those before it in a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub needs: Option<Vec<String>>,
    /// Condition in CEL over `message`, `input` and `steps`. The step is skipped unless it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024))]
    pub when: Option<String>,
    /// List for whose items the agent is asked, each in turn or all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEach>,
    /// Repetition of an attempt that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<StepRetry>,
    /// Consequence of a failure of the last attempt; `abort` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Agent that undoes the effects of the step when it is rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
}

/// An agent that undoes the effects of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// Slug of the agent.
    pub agent: String,
    /// Mode in which the agent is asked; `build` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Message to the agent, with placeholders; by default the message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100_000))]
    pub message: Option<String>,
    /// Input of the agent, with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Details of the request to the agent, with placeholders.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub payload: Map<String, Json>,
}

/// A loop over a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// The list, or a placeholder of one. `{{item}}` and `{{index}}` are an item and its number.
    pub list: Json,
    /// Maximum number of items; a longer list fails the step. By default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max: Option<u32>,
    /// Order of the items; by default that of the orchestration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<OrchestrationMode>,
}

/// Orders of agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrchestrationMode {
    /// Each after the one before.
    #[default]
    Sequential,
    /// All at once.
    Parallel,
}

/// Attempts of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRetry {
    /// Maximum number of attempts, the first one included.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
}

/// Consequences of a step that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnError {
    /// The step is attempted again, three times in all if `retry` names no number, and then aborts.
    Retry,
    /// The orchestration goes on without the result of the step.
    Skip,
    /// A person decides: retry, skip or abort.
    Ask,
    /// The orchestration ends.
    #[default]
    Abort,
}

/// A question at which an orchestration waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Question to the person, with placeholders.
    #[schemars(length(min = 1, max = 10_000))]
    pub question: String,
    /// Values that the person approves, with placeholders: the result of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// JSON Schema of `input`. Without one, the person cannot edit the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Map<String, Json>>,
    /// Time for the decision, such as `2d`; without one, the question waits without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(w|d|h|ms|m|s))+$"))]
    pub timeout: Option<String>,
    /// Decision if nobody decides in time; `reject` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Step that a rejection leads to, or `abort`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_reject: Option<String>,
}

/// Decisions about a question that nobody answered in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnTimeout {
    /// The values are approved.
    Approve,
    /// The values are rejected.
    #[default]
    Reject,
}
