//! A rollback as the progress of an orchestration has it: the effects since a step, and the undoing of
//! those that have an undo.

use super::progress::StepRecord;
use crate::records::{RecordId, RecordKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_types::task::AgentFailure;
use weftwork_types::tool::Effect;

/// A rollback of an orchestration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    /// Step that the orchestration went back to.
    pub(crate) step: String,
    /// Effects of the steps that had begun, in the order of their first starts.
    pub(crate) effects: Vec<StepEffects>,
    /// Plans and deliverables that were written since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) records: Vec<ChangedRecord>,
    /// Records of the steps that are rolled back, which the requests to undo agents read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) results: BTreeMap<String, StepRecord>,
    /// Outcomes of undo agents, by the keys of the steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) undone: BTreeMap<String, UndoRecord>,
    /// `true` once plans and deliverables have their former versions.
    #[serde(default)]
    pub(crate) restored: bool,
}

/// The effects of a step, or of an item of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepEffects {
    /// Key of the step, such as `order` or `each.0`.
    pub(crate) step: String,
    /// Agent that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    pub(crate) status: EffectStatus,
    /// Agent that undoes the effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undo: Option<String>,
    /// Calls that change something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallEffect>,
}

/// Consequences of a rollback for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectStatus {
    /// It is before the step, and its result is used again.
    Reused,
    /// Its undo agent undoes it.
    Undone,
    /// It changed nothing that is left after the rollback.
    Reversible,
    /// It changed something, and has no undo agent.
    Irreversible,
    /// It began, and has no result. If it has an undo agent, that is asked.
    Unknown,
}

/// A call of a tool that changes something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallEffect {
    pub(crate) tool: String,
    /// Arguments as they are shown.
    pub(crate) arguments: Value,
    pub(crate) effect: Effect,
    pub(crate) outcome: CallOutcome,
}

/// Outcomes of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallOutcome {
    Succeeded,
    Failed,
    Unknown,
}

/// A plan or a deliverable that was written since the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedRecord {
    pub(crate) kind: RecordKind,
    pub(crate) id: RecordId,
    /// Number of the current version.
    pub(crate) current: u64,
    /// Number of the version that becomes the current one again; `None` for a record that is kept.
    pub(crate) former: Option<u64>,
}

/// The outcome of an undo agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum UndoRecord {
    /// It undid the effects.
    Undone,
    /// It failed, and a person decides.
    Asking { failure: AgentFailure },
    /// It failed, and a person wants a further attempt.
    Retrying { attempts: u32 },
    /// It failed, and a person leaves the effects as they are.
    Skipped { failure: AgentFailure },
}

impl UndoRecord {
    fn has_ended(&self) -> bool {
        matches!(self, Self::Undone | Self::Skipped { .. })
    }
}

impl Rollback {
    /// Returns the effects that are undone next: those that began last.
    pub(crate) fn next(&self) -> Option<&StepEffects> {
        let is_open =
            |of: &&StepEffects| !self.undone.get(&of.step).is_some_and(UndoRecord::has_ended);
        self.effects.iter().rev().filter(|of| of.undo.is_some()).find(is_open)
    }

    /// Returns `true` until all is undone and restored.
    pub(crate) fn is_open(&self) -> bool {
        !self.restored || self.next().is_some()
    }

    /// Describes the rollback in an answer.
    pub(crate) fn report(&self) -> Value {
        let described = |effects: &StepEffects| {
            let mut shown = json!(effects);
            match self.undone.get(&effects.step) {
                Some(UndoRecord::Undone) => shown["status"] = "undone".into(),
                Some(UndoRecord::Asking { failure } | UndoRecord::Skipped { failure }) => {
                    shown["status"] = "undo_failed".into();
                    shown["failure"] = json!(failure);
                }
                Some(UndoRecord::Retrying { .. }) => shown["status"] = "undoing".into(),
                None if effects.undo.is_some() => shown["status"] = "undoing".into(),
                None => {}
            }
            if effects.status == EffectStatus::Unknown {
                shown["outcome"] = "unknown".into();
            }
            shown
        };
        let effects: Vec<Value> = self.effects.iter().map(described).collect();
        json!({"step": self.step, "effects": effects, "records": self.records})
    }
}
