//! The effects that an orchestration has had since a step began, from its checkpoints and the logs of its
//! runs.

use super::error::OrchestrationError;
use super::is_orchestration;
use crate::agent::version_key;
use crate::definition::{AgentWork, Outline, Work};
use crate::mode::RequestError;
use crate::orchestration::{
    CallEffect, CallOutcome, ChangedRecord, EffectStatus, OWN_WORK, PLANNED_STEP, Progress,
    StepEffects, StepRecord, id_of_node, root_of,
};
use crate::platform::HostedAgents;
use crate::records::RecordKind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_graph::run_loop::{HistoryFilter, Snapshot};
use weftwork_runtime::Thread;
use weftwork_store::{RunRow, StoreError};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::port::{CallKind, TaskCaller};
use weftwork_types::run::RunRef;
use weftwork_types::tool::{Effect, wire_name};
use weftwork_types::{CheckpointId, Principal, RunId, TaskId, ToolCallId};

type Result<T> = std::result::Result<T, OrchestrationError>;

/// Number of checkpoints or events that are read at once.
const PAGE: usize = 64;
/// Codes of failures of calls that may have taken effect: those that were cut off, that were too slow,
/// that panicked, or whose outcome nobody knows.
const UNKNOWN_CODES: [&str; 4] = ["W0407", "W0408", "W0412", "W0413"];

/// The effects since a step began.
#[derive(Debug)]
pub(super) struct Since {
    pub(super) step: String,
    /// Checkpoint before the step began.
    pub(super) target: CheckpointId,
    /// Newest checkpoint.
    pub(super) newest: CheckpointId,
    pub(super) effects: Vec<StepEffects>,
    pub(super) records: Vec<ChangedRecord>,
    /// Records of the steps that began since.
    pub(super) results: BTreeMap<String, StepRecord>,
}

/// Reads the effects of the orchestration of a thread.
pub(super) struct Reader<'a> {
    pub(super) platform: &'a HostedAgents,
    pub(super) by: &'a TaskCaller,
    pub(super) runs: &'a Thread,
    pub(super) outline: &'a Outline,
}

/// A checkpoint of an orchestration.
struct Place {
    id: CheckpointId,
    progress: Progress,
    /// Tasks that start from it, in order.
    tasks: Vec<DueTask>,
}

/// A task that starts from a checkpoint.
struct DueTask {
    id: TaskId,
    node: String,
    waits: Waits,
}

/// A question at which a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// Its calls have ended.
    ForAnswer,
    /// It asks for the outcome of a call that was cut off.
    ForOutcome,
}

/// A call of a step.
struct StepCall {
    step: String,
    task: Option<TaskId>,
    id: ToolCallId,
    call: CallEffect,
}

impl StepCall {
    fn is(&self, task: Option<TaskId>, id: &ToolCallId) -> bool {
        self.task == task && self.id == *id
    }
}

/// The tasks of the steps that began since a checkpoint.
#[derive(Default)]
struct Begun {
    /// Keys of steps, in the order of their first starts.
    keys: Vec<String>,
    /// Keys by tasks.
    tasks: BTreeMap<TaskId, String>,
    /// Steps whose last task waits at a question.
    asking: BTreeSet<String>,
}

impl Reader<'_> {
    /// Reads the effects since a step began; by default, since the one that ended last.
    pub(super) async fn since(&self, step: Option<&str>) -> Result<Since> {
        let rows = self.rows().await?;
        let place = self.places().await?;
        let Some(last) = place.first() else {
            return Err(self.nothing("its last request began none"));
        };
        let progress = self.newest_progress(last).await?;
        if progress.rolls_back() {
            return Err(self.nothing("a rollback is not at its end; `continue` continues it"));
        }
        let step = self.step(step, &progress)?;
        let target = place.iter().position(|of| !of.progress.has_begun(&step));
        let Some(target) = target else {
            return Err(self.nothing("the checkpoint before the step was deleted"));
        };
        let begun = begun_since(&place, target);
        let calls = self.calls(&rows, &begun).await?;
        let before = place.get(target).map(|of| &of.progress.starts);
        let unread = || self.nothing("its plan cannot be read");
        let outline = progress.outline_over(self.outline).ok_or_else(unread)?;
        let reader = Reader { outline: &outline, ..*self };
        let mut effects = Vec::new();
        let mut reused: Vec<&String> = before.into_iter().flatten().collect();
        reused.dedup();
        for key in reused.into_iter().filter(|key| !begun.keys.contains(key)) {
            if effects.iter().all(|of: &StepEffects| of.step != *key) {
                effects.push(reader.effects_of(key, EffectStatus::Reused, Vec::new()));
            }
        }
        let mut calls = calls;
        for key in &begun.keys {
            let of_step = calls.remove(key).unwrap_or_default();
            effects.push(reader.weigh(key, &progress, &begun, of_step));
        }
        let is_since = |key: &String| begun.keys.iter().any(|of| of == key || id_of(of) == key);
        let results = progress.records.iter().filter(|(key, _)| is_since(key));
        let results = results.map(|(key, record)| (key.clone(), record.clone())).collect();
        let first = place.get(..target).and_then(<[Place]>::last).map(|of| &of.progress.versions);
        let records = match first {
            Some(versions) => self.changed_records(versions, &rows).await?,
            None => Vec::new(),
        };
        let target = place.get(target).map_or(last.id, |of| of.id);
        let newest = self.newest_id().await?;
        Ok(Since { step, target, newest, effects, records, results })
    }

    fn nothing(&self, reason: impl Into<String>) -> OrchestrationError {
        OrchestrationError::Nothing { action: "roll back", reason: reason.into() }
    }

    fn who(&self) -> &Principal {
        &self.by.principal
    }

    /// Returns the runs of the last request, which must have begun an orchestration and have ended.
    async fn rows(&self) -> Result<Vec<RunRow>> {
        let store = self.platform.runtime().store();
        let mut rows = match store.runs(self.who(), self.runs.id()).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => rows?,
        };
        let root = root_of(rows.clone()).filter(|row| is_orchestration(&row.new.input));
        let root = root.ok_or_else(|| self.nothing("its last request began none"))?;
        if rows.iter().any(|row| !row.status.is_final()) {
            return Err(self.nothing("a run is under way, or was cut off: `continue` goes on with one that was cut off, and `pause` ends one that is under way at its next step"));
        }
        rows.retain(|row| row.new.created_at >= root.new.created_at);
        Ok(rows)
    }

    /// Returns the checkpoints of the orchestration on the present branch, newest first.
    async fn places(&self) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        let mut filter = HistoryFilter { limit: PAGE, ..HistoryFilter::default() };
        let mut wanted: Option<CheckpointId> = None;
        loop {
            let page = self.runs.clone().whole_state().history(&filter).await?;
            let Some(last) = page.last().and_then(Snapshot::checkpoint) else { return Ok(places) };
            for snapshot in &page {
                let Some(id) = snapshot.checkpoint() else { continue };
                // Those between are on branches that were left.
                if wanted.is_some_and(|wanted| wanted != id) {
                    continue;
                }
                if let Some(error) = &snapshot.error {
                    return Err(error.clone().into());
                }
                match progress_of(snapshot)? {
                    Some(progress) => {
                        let tasks = snapshot.tasks.iter().map(DueTask::of).collect();
                        places.push(Place { id, progress, tasks });
                    }
                    // An orchestration that has ended is before; one that began is behind.
                    None if places.is_empty() => {}
                    None => return Ok(places),
                }
                wanted = snapshot.parent.as_ref().and_then(|of| of.id);
                if wanted.is_none() {
                    return Ok(places);
                }
            }
            filter.before = Some(last);
        }
    }

    async fn newest_id(&self) -> Result<CheckpointId> {
        let state = self.runs.state().await?;
        state.checkpoint().ok_or_else(|| self.nothing("it has no state"))
    }

    /// Returns the progress with what the finished tasks of an open superstep have recorded.
    async fn newest_progress(&self, last: &Place) -> Result<Progress> {
        let state = self.runs.clone().whole_state().state().await?;
        Ok(progress_of(&state)?.unwrap_or_else(|| last.progress.clone()))
    }

    /// Returns the step of a request.
    fn step(&self, asked: Option<&str>, progress: &Progress) -> Result<String> {
        let wrong = |found: String, expected: String| {
            RequestError::Member { member: "payload.step", found, expected }.fault()
        };
        let begun = || {
            let mut ids: Vec<_> = progress.starts.iter().map(|key| id_of(key)).collect();
            ids.retain(|id| *id != OWN_WORK);
            ids.dedup();
            ids.join(", ")
        };
        match asked {
            Some(step) if progress.has_begun(step) && step != OWN_WORK => Ok(step.to_owned()),
            Some(step) => {
                Err(wrong(format!("`{step}`"), format!("a step that began: {}", begun())).into())
            }
            None => {
                let ids = progress.starts.iter().rev().map(|key| id_of(key));
                let has_ended =
                    |id: &&str| progress.records.get(*id).is_some_and(|of| of.has_ended());
                let found = ids.into_iter().find(has_ended);
                let none = || wrong("missing".to_owned(), "the id of a step that began".to_owned());
                Ok(found.ok_or_else(none)?.to_owned())
            }
        }
    }

    /// Returns the calls that change something, by the keys of the steps that made them.
    async fn calls(
        &self,
        rows: &[RunRow],
        begun: &Begun,
    ) -> Result<BTreeMap<String, Vec<CallEffect>>> {
        let effects = self.effects_of_tools().await?;
        let mut found: Vec<StepCall> = Vec::new();
        for row in rows {
            for event in self.events(&row.new.at).await? {
                match event {
                    AiEvent::ToolCallStart { tool_call_id, tool_name, args, task, ns, .. } => {
                        let Some(step) = begun.step_of(task, &ns) else { continue };
                        let Some((tool, effect)) = effects.get(&tool_name) else { continue };
                        // A call that goes on after a crash starts again.
                        found.retain(|call| !call.is(task, &tool_call_id));
                        let call = CallEffect {
                            tool: tool.clone(),
                            arguments: args,
                            effect: *effect,
                            outcome: CallOutcome::Unknown,
                        };
                        found.push(StepCall { step: step.clone(), task, id: tool_call_id, call });
                    }
                    AiEvent::ToolCallResult { tool_call_id, result, is_error, task } => {
                        let call = found.iter_mut().find(|call| call.is(task, &tool_call_id));
                        if let Some(StepCall { call, .. }) = call {
                            call.outcome = outcome_of(&result, is_error);
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut calls: BTreeMap<String, Vec<CallEffect>> = BTreeMap::new();
        for StepCall { step, call, .. } in found {
            calls.entry(step).or_default().push(call);
        }
        Ok(calls)
    }

    /// Returns the tools of the thread that change something, by their wire names. Their intents are
    /// on record before they are called.
    async fn effects_of_tools(&self) -> Result<BTreeMap<String, (String, Effect)>> {
        let calls = self.platform.runtime().store().calls(self.who(), self.runs.id()).await?;
        let changes = calls
            .into_iter()
            .filter(|call| call.kind == CallKind::Tool && call.effect != Effect::ReadOnly);
        Ok(changes.map(|call| (wire_name(&call.name), (call.name, call.effect))).collect())
    }

    async fn events(&self, run: &RunRef) -> Result<Vec<AiEvent>> {
        let store = self.platform.runtime().store();
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let page = match store.events(self.who(), run, after, PAGE).await {
                // What is gone cannot be listed.
                Err(StoreError::Dropped { .. }) => {
                    return Err(self.nothing("events of its runs are no longer retained"));
                }
                page => page?,
            };
            let Some(last) = page.last() else { return Ok(all) };
            after = last.seq;
            all.extend(page.into_iter().map(|stored| stored.event));
        }
    }

    fn effects_of(&self, key: &str, status: EffectStatus, calls: Vec<CallEffect>) -> StepEffects {
        let work = self.work_of(key);
        let agent = work.map(|work| work.agent.clone());
        StepEffects { step: key.to_owned(), agent, status, undo: None, calls }
    }

    fn work_of(&self, key: &str) -> Option<&AgentWork> {
        let step = self.outline.steps.iter().find(|step| step.id == id_of(key))?;
        match &step.work {
            Work::Agent(work) => Some(work),
            Work::Checkpoint(_) | Work::Wait(_) => None,
        }
    }

    /// Decides what a rollback does about a step that began.
    fn weigh(
        &self,
        key: &str,
        progress: &Progress,
        begun: &Begun,
        calls: Vec<CallEffect>,
    ) -> StepEffects {
        let work = self.work_of(key);
        let has = |outcome| calls.iter().any(|call: &CallEffect| call.outcome == outcome);
        // A checkpoint or a wait changes nothing outside. The agent's own work has no record.
        let lacks_record = work.is_some() && !progress.records.contains_key(key);
        let is_unknown = has(CallOutcome::Unknown) || lacks_record && !begun.asking.contains(key);
        let has_changed = has(CallOutcome::Succeeded);
        let is_done = matches!(progress.records.get(key), Some(StepRecord::Done { .. }));
        let undo = work.and_then(|work| work.undo.as_ref()).map(|undo| undo.agent.clone());
        let undo = undo.filter(|_| is_unknown || has_changed || is_done);
        let status = match (is_unknown, &undo, has_changed) {
            (true, ..) => EffectStatus::Unknown,
            (false, Some(_), _) => EffectStatus::Undone,
            (false, None, true) => EffectStatus::Irreversible,
            (false, None, false) => EffectStatus::Reversible,
        };
        StepEffects { undo, ..self.effects_of(key, status, calls) }
    }

    /// Returns the plans and deliverables whose current version is another one than before the step.
    async fn changed_records(
        &self,
        before: &BTreeMap<String, u64>,
        rows: &[RunRow],
    ) -> Result<Vec<ChangedRecord>> {
        let records = self.platform.records(self.who());
        let made: BTreeSet<&RunId> = rows.iter().map(|row| &row.new.at.run).collect();
        let mut changed = Vec::new();
        for kind in [RecordKind::Plan, RecordKind::Deliverable] {
            let all = records.list(kind, self.runs.id()).await;
            for record in all.map_err(|error| error.fault())? {
                let former = before.get(&version_key(&record.at)).copied();
                if former == Some(record.current) {
                    continue;
                }
                let current = record.find(record.current).and_then(|version| version.run.as_ref());
                // The version of a person stays, and a former one that was deleted is gone.
                let is_of_run = current.is_some_and(|run| made.contains(run));
                let former = former.filter(|of| is_of_run && record.find(*of).is_some());
                if is_of_run {
                    let id = record.at.id.clone();
                    changed.push(ChangedRecord { kind, id, current: record.current, former });
                }
            }
        }
        Ok(changed)
    }
}

impl DueTask {
    fn of(task: &weftwork_graph::run_loop::TaskSnapshot) -> Self {
        let is_unknown = |asked: &Interrupt| match &asked.ask {
            Ask::Value { value } => value["kind"] == "tool_outcome_unknown",
            _ => false,
        };
        let waits = match task.interrupts.as_slice() {
            [] => Waits::No,
            asked if asked.iter().any(is_unknown) => Waits::ForOutcome,
            _ => Waits::ForAnswer,
        };
        Self { id: task.id, node: task.name.clone(), waits }
    }
}

impl Begun {
    /// Returns the step that a task belongs to: its own, or that of the outermost task around it.
    fn step_of(&self, task: Option<TaskId>, ns: &str) -> Option<&String> {
        let outermost = ns.split('|').next().and_then(|part| part.split_once(':'));
        let outermost = outermost.and_then(|(_, id)| id.parse().ok());
        self.tasks.get(&outermost.or(task)?)
    }
}

/// Returns the tasks of the steps that began since a place.
fn begun_since(places: &[Place], target: usize) -> Begun {
    let mut begun = Begun::default();
    for at in (0..target).rev() {
        let (Some(place), Some(before)) = (places.get(at), places.get(at + 1)) else { continue };
        let new = place.progress.starts.get(before.progress.starts.len()..).unwrap_or_default();
        let mut open: Vec<&DueTask> = place.tasks.iter().collect();
        for key in new {
            if !begun.keys.contains(key) {
                begun.keys.push(key.clone());
            }
            // Tasks of one node are in the order in which they were sent.
            let is_of = |task: &&DueTask| match id_of_node(&task.node) {
                _ if task.node == PLANNED_STEP => key != OWN_WORK,
                Some(id) => id == id_of(key),
                None => key == OWN_WORK,
            };
            let Some(found) = open.iter().position(is_of) else { continue };
            let task = open.remove(found);
            begun.tasks.insert(task.id, key.clone());
            match task.waits {
                Waits::ForAnswer => begun.asking.insert(key.clone()),
                Waits::No | Waits::ForOutcome => begun.asking.remove(key),
            };
        }
    }
    begun
}

/// Returns the id of the step of a key.
fn id_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn progress_of(snapshot: &Snapshot) -> Result<Option<Progress>> {
    let value = snapshot.values.get("orchestration").cloned().unwrap_or_default();
    if value.is_null() {
        return Ok(None);
    }
    let progress = serde_json::from_value(value);
    progress.map(Some).map_err(|error| {
        let reason = format!("its state cannot be read: {error}");
        OrchestrationError::Nothing { action: "roll back", reason }
    })
}

/// Returns the outcome of a call from its result as it is shown.
fn outcome_of(result: &Value, is_error: bool) -> CallOutcome {
    let code = result["code"].as_str().unwrap_or_default();
    match is_error {
        false => CallOutcome::Succeeded,
        true if UNKNOWN_CODES.contains(&code) => CallOutcome::Unknown,
        true => CallOutcome::Failed,
    }
}
