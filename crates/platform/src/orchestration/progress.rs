//! The progress of an orchestration, as the state of a thread has it.

use super::rollback::{Rollback, UndoRecord};
use crate::agent::Agent;
use crate::definition::{Outline, OutlineStep};
use crate::state::AgentState;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use weftwork_graph::{NodeError, NodeResult, State};
use weftwork_types::CallChain;
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
    /// Keys of the steps that began, in the order in which they began; again for each attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) starts: Vec<String>,
    /// Current versions of plans and deliverables before the last steps began, by kinds and ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) versions: BTreeMap<String, u64>,
    /// Last rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<Rollback>,
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
    /// Agents that asked one another before, as [`CallChain`] names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ancestors: Vec<String>,
    /// Ids of the steps in the order of the definition, for those who read the state.
    #[serde(default)]
    pub(crate) steps: Vec<String>,
    /// Steps around the orchestration, from the outside in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) path: Vec<String>,
}

impl OrchestrationRequest {
    /// Returns the agents that asked one another before.
    pub(crate) fn chain(&self) -> CallChain {
        CallChain { depth: self.depth, agents: self.ancestors.clone() }
    }
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) starts: Vec<String>,
    /// Versions that replace the known ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) versions: Option<BTreeMap<String, u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<Rollback>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) undone: BTreeMap<String, UndoRecord>,
    /// `true` once plans and deliverables have their former versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) restored: bool,
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
        Some(request) => Some(Progress::new(request)),
        None => serde_json::from_value(old).ok(),
    };
    let Some(mut progress) = progress else { return Value::Null };
    progress.plan = change.plan.or(progress.plan);
    progress.records.extend(change.records);
    progress.failures.extend(change.failures);
    progress.starts.extend(change.starts);
    if let Some(versions) = change.versions {
        progress.versions = versions;
    }
    if change.rollback.is_some() {
        progress.rollback = change.rollback;
    }
    if let Some(rollback) = &mut progress.rollback {
        rollback.undone.extend(change.undone);
        rollback.restored |= change.restored;
    }
    json!(progress)
}

impl Progress {
    fn new(request: OrchestrationRequest) -> Self {
        Self {
            request,
            plan: None,
            records: BTreeMap::new(),
            failures: Vec::new(),
            starts: Vec::new(),
            versions: BTreeMap::new(),
            rollback: None,
        }
    }

    /// Returns `true` if a step has begun, or an item of it.
    pub(crate) fn has_begun(&self, step: &str) -> bool {
        self.starts.iter().any(|key| key.split('.').next() == Some(step))
    }

    /// Returns `true` if effects are to be undone before anything begins.
    pub(crate) fn rolls_back(&self) -> bool {
        self.rollback.as_ref().is_some_and(Rollback::is_open)
    }

    /// Reads the progress of the orchestration of a run; `None` in a run without one.
    pub(crate) fn of(state: &State<AgentState>) -> NodeResult<Option<Self>> {
        match state.orchestration() {
            Value::Null => Ok(None),
            value => Ok(Some(serde_json::from_value(value.clone())?)),
        }
    }

    /// Returns the steps: those of the plan, or of the definition.
    pub(crate) fn outline<'a>(&self, agent: &'a Agent) -> NodeResult<Cow<'a, Outline>> {
        let unread = || NodeError::message("the plan of the run cannot be read");
        self.outline_over(&agent.outline).ok_or_else(unread)
    }

    /// Returns the steps: those of the plan, or else the written ones; `None` if the plan cannot be read.
    pub(crate) fn outline_over<'a>(&self, written: &'a Outline) -> Option<Cow<'a, Outline>> {
        match &self.plan {
            None => Some(Cow::Borrowed(written)),
            Some(plan) => Outline::of_plan(&plan.text).map(Cow::Owned),
        }
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

    /// Returns the members of the metadata of an answer that describe the orchestration.
    pub(crate) fn describe(&self, outline: &Outline) -> Map<String, Value> {
        let mut described = Map::from_iter([("steps".to_owned(), self.report(outline))]);
        if !self.failures.is_empty() {
            described.insert("failures".to_owned(), json!(self.failures));
        }
        if let Some(rollback) = &self.rollback {
            described.insert("rollback".to_owned(), rollback.report());
        }
        described
    }

    /// Describes the steps in an answer, without their contents, in the order of the definition.
    fn report(&self, outline: &Outline) -> Value {
        let shown = |OutlineStep { id, .. }: &OutlineStep| {
            let status = self.records.get(id).map(|record| json!(record)["status"].clone());
            json!({"id": id, "status": status.unwrap_or_else(|| "not_begun".into())})
        };
        outline.steps.iter().map(shown).collect()
    }
}
