//! The progress of an orchestration, as the state of a thread has it.

use crate::agent::Agent;
use crate::definition::{Outline, OutlineStep};
use crate::state::AgentState;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use weftwork_graph::{NodeError, NodeResult, State};
use weftwork_types::task::{AgentFailure, Mode};

/// The progress of an orchestration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    pub(crate) request: OrchestrationRequest,
    /// Plan whose steps it carries out; `None` if the definition has the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<RunPlan>,
    /// Records of the steps that began, by their ids; of items of loops by id and number: `each.0`.
    #[serde(default)]
    pub(crate) records: BTreeMap<String, StepRecord>,
    /// Failures of all attempts, in the order in which they were recorded.
    #[serde(default)]
    pub(crate) failures: Vec<AgentFailure>,
}

/// The request that began an orchestration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrchestrationRequest {
    pub(crate) mode: Mode,
    pub(crate) message: String,
    pub(crate) payload: Value,
    pub(crate) input: Value,
    pub(crate) depth: u64,
    /// Ids of the steps in the order of the definition, for those who read the state.
    #[serde(default)]
    pub(crate) steps: Vec<String>,
    /// Steps around the orchestration, from the outside in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) path: Vec<String>,
}

/// The plan that an orchestration carries out. Its steps are those of this text, whatever becomes of the
/// record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPlan {
    /// Id of the record.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Number of its version, where it is known before the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    pub(crate) text: String,
}

/// The record of a step, or of an item of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum StepRecord {
    /// It ended with a content.
    Done { content: Value },
    /// Its condition did not hold, or it failed and is left out.
    Skipped { failed: bool },
    /// A person, or nobody in time, rejected its values.
    Rejected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
    /// It does not begin: a checkpoint before it was rejected, or the one that leads to it was not.
    NotReached,
    /// It failed, and the orchestration ends.
    Failed { failure: AgentFailure },
    /// Its last attempt failed, and a further one begins.
    Retrying { attempts: u32 },
    /// Its last attempt failed, and a person decides.
    Asking { failure: AgentFailure },
    /// Its items are asked for.
    Looping { items: Vec<Value> },
}

impl StepRecord {
    /// Returns `true` if nothing further begins for it.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self, Self::Retrying { .. } | Self::Asking { .. } | Self::Looping { .. })
    }

    /// Returns the failure that it has.
    pub(crate) fn failure(&self) -> Option<&AgentFailure> {
        match self {
            Self::Failed { failure } | Self::Asking { failure } => Some(failure),
            _ => None,
        }
    }
}

/// A change of the progress, as a node writes it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begin: Option<OrchestrationRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<RunPlan>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) records: BTreeMap<String, StepRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<AgentFailure>,
    /// `true` once the answer has the progress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) end: bool,
}

/// Applies a change that a node wrote. The nodes of one superstep write records of different steps.
pub(crate) fn merge(old: Value, change: Value) -> Value {
    let Ok(change) = serde_json::from_value::<Change>(change) else { return old };
    if change.end {
        return Value::Null;
    }
    let progress = match change.begin {
        Some(request) => {
            Some(Progress { request, plan: None, records: BTreeMap::new(), failures: Vec::new() })
        }
        None => serde_json::from_value(old).ok(),
    };
    let Some(mut progress) = progress else { return Value::Null };
    progress.plan = change.plan.or(progress.plan);
    progress.records.extend(change.records);
    progress.failures.extend(change.failures);
    json!(progress)
}

impl Progress {
    /// Reads the progress of the orchestration of a run; `None` in a run without one.
    pub(crate) fn of(state: &State<AgentState>) -> NodeResult<Option<Self>> {
        match state.orchestration() {
            Value::Null => Ok(None),
            value => Ok(Some(serde_json::from_value(value.clone())?)),
        }
    }

    /// Returns the steps: those of the plan, or of the definition.
    pub(crate) fn outline<'a>(&self, agent: &'a Agent) -> NodeResult<Cow<'a, Outline>> {
        let Some(plan) = &self.plan else { return Ok(Cow::Borrowed(&agent.outline)) };
        let wrong = || NodeError::message(format!("plan `{}` of the run cannot be read", plan.id));
        Outline::of_plan(&plan.text).map(Cow::Owned).ok_or_else(wrong)
    }

    /// Returns the values that placeholders and conditions of steps read.
    pub(crate) fn values(&self, outline: &Outline) -> Map<String, Value> {
        let OrchestrationRequest { message, input, payload, .. } = &self.request;
        Map::from_iter([
            ("message".to_owned(), message.clone().into()),
            ("input".to_owned(), input.clone()),
            ("payload".to_owned(), payload.clone()),
            ("steps".to_owned(), self.results(outline)),
        ])
    }

    /// Returns the status and the content of each step that has ended, by ids.
    pub(crate) fn results(&self, outline: &Outline) -> Value {
        let ended = outline.steps.iter().filter_map(|OutlineStep { id, .. }| {
            let record = self.records.get(id).filter(|record| record.has_ended())?;
            let content = match record {
                StepRecord::Done { content } => content.clone(),
                _ => Value::Null,
            };
            Some((id.clone(), json!({"status": json!(record)["status"], "content": content})))
        });
        Value::Object(ended.collect())
    }

    /// Describes the steps in an answer, without their contents, in the order of the definition.
    pub(crate) fn report(&self, outline: &Outline) -> Value {
        let shown = |OutlineStep { id, .. }: &OutlineStep| {
            let status = self.records.get(id).map(|record| json!(record)["status"].clone());
            json!({"id": id, "status": status.unwrap_or_else(|| "not_begun".into())})
        };
        outline.steps.iter().map(shown).collect()
    }
}
