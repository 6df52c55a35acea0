//! Events of an orchestration, in the stream mode `custom`.

use super::progress::{Progress, StepRecord};
use super::rollback::UndoRecord;
use crate::definition::{Outline, Work};
use serde_json::{Value, json};
use weftwork_graph::Ctx;
use weftwork_types::task::AgentFailure;

/// Emits the events of the steps of one orchestration.
pub(super) struct StepEvents<'a> {
    pub(super) outline: &'a Outline,
    /// Steps around the orchestration, from the outside in.
    pub(super) path: &'a [String],
    pub(super) ctx: &'a Ctx,
}

/// A change of a step.
pub(super) enum StepChange<'a> {
    /// An attempt begins.
    Started,
    /// A person is asked, by the step itself or by an agent that it asks.
    Asked,
    /// The step waits for its time.
    Waiting,
    /// The orchestration goes back to the state before the step.
    RolledBack,
    /// The undo of the step ended, or failed.
    Undo { record: &'a UndoRecord },
    /// A record was made.
    Recorded { record: &'a StepRecord, failure: Option<&'a AgentFailure> },
}

impl<'a> StepEvents<'a> {
    pub(super) fn of(progress: &'a Progress, outline: &'a Outline, ctx: &'a Ctx) -> Self {
        Self { outline, path: &progress.request.path, ctx }
    }

    /// Emits a change of a step, or of an item of a loop.
    pub(super) fn emit(&self, key: &str, change: &StepChange<'_>) {
        let status = match change {
            StepChange::Started => json!("started"),
            StepChange::Asked => json!("asked"),
            StepChange::Waiting => json!("waiting"),
            StepChange::RolledBack => json!("rolled_back"),
            StepChange::Undo { record: UndoRecord::Asking { .. } } => json!("undo_failed"),
            StepChange::Undo { record } => json!(record)["status"].clone(),
            StepChange::Recorded { record, .. } => json!(record)["status"].clone(),
        };
        let mut event = json!({"step": key, "status": status});
        if !self.path.is_empty() {
            event["path"] = json!(self.path);
        }
        if let Some(agent) = self.agent_of(key) {
            event["agent"] = agent.into();
        }
        if let StepChange::Recorded { failure: Some(failure), .. } = change {
            event["failure"] = json!(failure);
        }
        self.ctx.emit(Value::from_iter([("orchestration", event)]));
    }

    /// Emits the records that a decision made, in the order of the definition.
    pub(super) fn emit_decided(&self, decided: impl Fn(&str) -> Option<StepRecord>) {
        for step in &self.outline.steps {
            match decided(&step.id) {
                None => {}
                Some(StepRecord::Looping { .. }) => self.emit(&step.id, &StepChange::Started),
                Some(record) => {
                    let failure = record.failure();
                    self.emit(&step.id, &StepChange::Recorded { record: &record, failure });
                }
            }
        }
    }

    fn agent_of(&self, key: &str) -> Option<&'a str> {
        // Ids of steps have no dots, keys of items have one.
        let id = key.split('.').next().unwrap_or_default();
        let step = self.outline.steps.iter().find(|step| step.id == id)?;
        match &step.work {
            Work::Agent(work) => Some(&work.agent),
            Work::Checkpoint(_) | Work::Wait(_) => None,
        }
    }
}
