//! The decision about what begins next, from the records of the steps alone.

use super::progress::{Progress, StepRecord};
use super::{REJECTED, STEP_FAILED};
use crate::definition::{
    Items, OnError, OnReject, OrchestrationMode, Outline, OutlineStep, Work, fill_value,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork_types::RunId;
use weftwork_types::code::Fault;
use weftwork_types::task::AgentFailure;

/// A task of a step, or of an item of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepTask {
    /// Position of the step in the outline.
    pub(super) position: usize,
    /// Number of the item.
    pub(super) item: Option<usize>,
}

impl StepTask {
    /// Returns the key of the record.
    pub(super) fn key(&self, outline: &Outline) -> String {
        let id = outline.steps.get(self.position).map(|step| step.id.as_str()).unwrap_or_default();
        match self.item {
            Some(item) => format!("{id}.{item}"),
            None => id.to_owned(),
        }
    }
}

/// The next part of an orchestration.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Tasks that begin together.
    Tasks(Vec<StepTask>),
    /// The agent's own work, with the results.
    Own,
    /// The end, without a result.
    Abort(Fault),
}

/// A decision, with the records that it makes.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) records: BTreeMap<String, StepRecord>,
    pub(super) failures: Vec<AgentFailure>,
    pub(super) next: Next,
}

/// Decides what begins next, and ends the steps that begin nothing.
pub(super) fn decide(outline: &Outline, progress: &Progress, run: Option<&RunId>) -> Decision {
    let mut scheduler = Scheduler {
        outline,
        progress: progress.clone(),
        run,
        made: BTreeMap::new(),
        failures: Vec::new(),
        tasks: Vec::new(),
    };
    let next = scheduler.next();
    Decision { records: scheduler.made, failures: scheduler.failures, next }
}

struct Scheduler<'a> {
    outline: &'a Outline,
    /// The progress, with the records that were made since.
    progress: Progress,
    run: Option<&'a RunId>,
    made: BTreeMap<String, StepRecord>,
    failures: Vec<AgentFailure>,
    tasks: Vec<StepTask>,
}

impl<'a> Scheduler<'a> {
    fn next(&mut self) -> Next {
        // A step that ends here may let one before it in the definition begin.
        loop {
            let made = self.made.len();
            self.tasks.clear();
            for place in 0..self.outline.steps.len() {
                self.visit(place);
            }
            if self.made.len() == made {
                break;
            }
        }
        if let Some(fault) = self.abort() {
            return Next::Abort(fault);
        }
        match self.tasks.is_empty() {
            true => Next::Own,
            false => Next::Tasks(std::mem::take(&mut self.tasks)),
        }
    }

    fn record(&self, place: usize) -> Option<&StepRecord> {
        self.progress.records.get(&self.outline.steps.get(place)?.id)
    }

    fn set(&mut self, key: &str, record: StepRecord) {
        self.progress.records.insert(key.to_owned(), record.clone());
        self.made.insert(key.to_owned(), record);
    }

    fn visit(&mut self, place: usize) {
        let outline: &'a Outline = self.outline;
        let Some(step) = outline.steps.get(place) else { return };
        match self.record(place) {
            None => self.begin(place, step),
            Some(StepRecord::Looping { items }) => {
                let count = items.len();
                self.go_round(place, step, count);
            }
            Some(record) if record.has_ended() => {}
            Some(_) => self.tasks.push(StepTask { position: place, item: None }),
        }
    }

    fn begin(&mut self, place: usize, step: &'a OutlineStep) {
        match self.may_begin(step) {
            Readiness::Waits => return,
            Readiness::Never => return self.set(&step.id, StepRecord::NotReached),
            Readiness::Begins => {}
        }
        let values = self.progress.values(self.outline);
        if let Some(when) = &step.when {
            match when.holds_over(&values) {
                Some(true) => {}
                Some(false) => return self.set(&step.id, StepRecord::Skipped { failed: false }),
                None => {
                    let reason = format!("its condition `{when}` has no truth value");
                    return self.fail(step, &reason);
                }
            }
        }
        let Work::Agent(work) = &step.work else {
            return self.tasks.push(StepTask { position: place, item: None });
        };
        let Some(items) = &work.items else {
            return self.tasks.push(StepTask { position: place, item: None });
        };
        match items_of(items, &Value::Object(values)) {
            Ok(list) => {
                let count = list.len();
                self.set(&step.id, StepRecord::Looping { items: list });
                self.go_round(place, step, count);
            }
            Err(reason) => self.fail(step, &reason),
        }
    }

    fn may_begin(&self, step: &OutlineStep) -> Readiness {
        let mut is_rejected = false;
        for place in &step.rejections {
            match self.record(*place) {
                Some(StepRecord::Rejected { .. }) => is_rejected = true,
                Some(record) if record.has_ended() => {}
                _ => return Readiness::Waits,
            }
        }
        if !step.rejections.is_empty() {
            return if is_rejected { Readiness::Begins } else { Readiness::Never };
        }
        let mut is_cut_off = false;
        for place in &step.needs {
            match self.record(*place) {
                Some(StepRecord::Rejected { .. } | StepRecord::NotReached) => is_cut_off = true,
                Some(record) if record.has_ended() => {}
                _ => return Readiness::Waits,
            }
        }
        if is_cut_off { Readiness::Never } else { Readiness::Begins }
    }

    /// Lets items of a loop begin, or ends it.
    fn go_round(&mut self, place: usize, step: &'a OutlineStep, count: usize) {
        let Work::Agent(work) = &step.work else { return };
        let is_sequential =
            work.items.as_ref().is_some_and(|of| of.mode == OrchestrationMode::Sequential);
        let mut contents = Vec::new();
        let mut is_open = false;
        for item in 0..count {
            let task = StepTask { position: place, item: Some(item) };
            match self.progress.records.get(&task.key(self.outline)) {
                Some(StepRecord::Done { content }) => contents.push(content.clone()),
                Some(StepRecord::Failed { failure }) => {
                    let failure = failure.clone();
                    return self.set(&step.id, StepRecord::Failed { failure });
                }
                Some(record) if record.has_ended() => contents.push(Value::Null),
                _ => {
                    is_open = true;
                    self.tasks.push(task);
                    if is_sequential {
                        break;
                    }
                }
            }
        }
        if !is_open {
            self.set(&step.id, StepRecord::Done { content: contents.into() });
        }
    }

    /// Ends a step that cannot begin.
    fn fail(&mut self, step: &'a OutlineStep, reason: &str) {
        let agent = match &step.work {
            Work::Agent(work) => work.agent.as_str(),
            Work::Checkpoint(_) | Work::Wait(_) => "",
        };
        let failure = AgentFailure {
            agent: agent.to_owned(),
            step: step.id.clone(),
            attempt: 1,
            code: STEP_FAILED.0.to_owned(),
            safe_message: format!("step `{}` cannot begin: {reason}", step.id),
            retriable: false,
            cause_id: self.run.cloned(),
        };
        let record = match &step.work {
            Work::Agent(work) if work.on_error == OnError::Skip => {
                StepRecord::Skipped { failed: true }
            }
            _ => StepRecord::Failed { failure: failure.clone() },
        };
        self.failures.push(failure);
        self.set(&step.id, record);
    }

    /// Returns the reason for which the orchestration ends without a result.
    fn abort(&self) -> Option<Fault> {
        self.outline.steps.iter().find_map(|step| {
            match (self.progress.records.get(&step.id)?, &step.work) {
                (StepRecord::Failed { failure }, _) => Some(fault_of(step, failure)),
                (StepRecord::Rejected { comment }, Work::Checkpoint(work))
                    if work.on_reject == OnReject::Abort =>
                {
                    let comment = comment.as_ref().map(|text| format!(": {text}"));
                    let comment = comment.unwrap_or_default();
                    let text = format!("checkpoint `{}` was rejected{comment}", step.id);
                    Some(Fault::new(REJECTED, text))
                }
                _ => None,
            }
        })
    }
}

enum Readiness {
    Begins,
    Waits,
    Never,
}

fn fault_of(step: &OutlineStep, failure: &AgentFailure) -> Fault {
    let AgentFailure { agent, attempt, code, safe_message, retriable, .. } = failure;
    let message = match (agent.is_empty(), attempt) {
        (true, _) => safe_message.clone(),
        (false, 1) => format!("step `{}`: agent {agent} failed: {safe_message}", step.id),
        (false, attempts) => {
            format!(
                "step `{}`: agent {agent} failed in {attempts} attempts: {safe_message}",
                step.id
            )
        }
    };
    Fault { code: code.clone(), retriable: *retriable, ..Fault::new(STEP_FAILED, message) }
}

/// Returns the items of a loop; the error is the reason why there are none.
pub(super) fn items_of(of: &Items, values: &Value) -> Result<Vec<Value>, String> {
    let value = fill_value(&of.list, values)?;
    // Many agents return JSON as a text.
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Value::Array(items) = parsed.unwrap_or(value) else {
        return Err("`for_each.list` is no list".to_owned());
    };
    if items.len() > of.max {
        let found = items.len();
        return Err(format!("`for_each.list` has {found} items; `max` allows {}", of.max));
    }
    Ok(items)
}
