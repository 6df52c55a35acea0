//! The undoing of effects: each undo agent is asked in a superstep of its own.

use super::event::{StepChange, StepEvents};
use super::node::progress_of;
use super::progress::{Change, Progress, StepRecord};
use super::rollback::{ChangedRecord, Rollback, StepEffects, UndoRecord};
use super::schedule::items_of;
use super::step::{Asking, ask_for};
use crate::agent::Agent;
use crate::definition::{AgentWork, Outline, OutlineStep, Work};
use crate::records::{RecordRef, current_write};
use crate::state::{AgentState, AgentStateUpdate};
use crate::sub_agent::{FailedRequest, run_of};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::{Ctx, Deps, NodeError, NodeResult, Question, State};
use weftwork_types::task::AgentFailure;

/// Undoes the effects that began last. Plans and deliverables come first.
pub(super) async fn undo(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let progress = progress_of(&state)?;
    let rollback = progress.rollback.as_ref();
    let rollback = rollback.ok_or_else(|| NodeError::message("there is no rollback"))?;
    let outline = progress.outline(&agent)?;
    let events = StepEvents::of(&progress, &outline, &ctx);
    let mut change = Change::default();
    if !rollback.restored {
        restore(&agent, &rollback.records, &ctx).await?;
        events.emit(&rollback.step, &StepChange::RolledBack);
        change.restored = true;
    } else if let Some(effects) = rollback.next() {
        let record = undo_step(&agent, &progress, rollback, effects, &ctx).await?;
        events.emit(&effects.step, &StepChange::Undo { record: &record });
        change.undone = BTreeMap::from([(effects.step.clone(), record)]);
    }
    Ok(AgentStateUpdate::new().orchestration(json!(change)))
}

/// Makes the former versions of plans and deliverables the current ones.
async fn restore(agent: &Agent, changed: &[ChangedRecord], ctx: &Ctx) -> NodeResult<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let by = agent.owner(ctx).await?.subject;
    for ChangedRecord { kind, id, former, .. } in changed {
        let Some(version) = former else { continue };
        let at = RecordRef { kind: *kind, thread: ctx.thread().clone(), id: id.clone() };
        let write = current_write(&at, *version, &by, ctx.calls().clock.now());
        ctx.write_record(write.map_err(|error| error.fault())?);
    }
    Ok(())
}

/// Asks the undo agent of a step, or a person about the attempt that failed.
async fn undo_step(
    agent: &Agent,
    progress: &Progress,
    rollback: &Rollback,
    effects: &StepEffects,
    ctx: &Ctx,
) -> NodeResult<UndoRecord> {
    let key = &effects.step;
    let attempts = match rollback.undone.get(key) {
        Some(UndoRecord::Asking { failure }) => return ask_person(failure, ctx),
        Some(UndoRecord::Retrying { attempts }) => *attempts,
        _ => 0,
    };
    let outline = progress.outline(agent)?;
    let found = UndoneStep::find(&outline, key);
    let found = found.ok_or_else(|| NodeError::message("the definition has no such undo"))?;
    let values = found.values(&outline, progress, rollback);
    let mut path = progress.request.path.clone();
    path.push(key.clone());
    let asking = Asking { call: "undo", values: &values, path, chain: progress.request.chain() };
    let fault = match ask_for(agent, found.undo, asking, ctx).await {
        Ok(_) => return Ok(UndoRecord::Undone),
        // An open question stops the node.
        Err(error) => error.try_into_fault()?,
    };
    let request = FailedRequest { agent: &found.undo.agent, step: key, attempt: attempts + 1 };
    let failure = request.failure(&fault, run_of(ctx));
    Ok(UndoRecord::Asking { failure })
}

/// A step whose effects are undone.
struct UndoneStep<'a> {
    step: &'a OutlineStep,
    work: &'a AgentWork,
    undo: &'a AgentWork,
    item: Option<usize>,
}

impl<'a> UndoneStep<'a> {
    fn find(outline: &'a Outline, key: &str) -> Option<Self> {
        let (id, item) = match key.split_once('.') {
            Some((id, item)) => (id, item.parse().ok()),
            None => (key, None),
        };
        let step = outline.steps.iter().find(|step| step.id == id)?;
        let Work::Agent(work) = &step.work else { return None };
        Some(Self { step, work, undo: work.undo.as_deref()?, item })
    }

    /// Returns the values that the placeholders of the undo read: those of its step, with the result of
    /// the step itself, which may be missing.
    fn values(&self, outline: &Outline, progress: &Progress, rollback: &Rollback) -> Value {
        let mut former = progress.clone();
        former.records.extend(rollback.results.clone());
        let mut values = former.values(outline);
        let id = &self.step.id;
        let key = match self.item {
            Some(item) => format!("{id}.{item}"),
            None => id.clone(),
        };
        let content = match rollback.results.get(&key) {
            Some(StepRecord::Done { content }) => content.clone(),
            _ => Value::Null,
        };
        if let Some(number) = self.item {
            let items = self.items(&former, &values);
            values.insert("item".to_owned(), items.get(number).cloned().unwrap_or_default());
            values.insert("index".to_owned(), number.into());
        }
        let mut values = Value::Object(values);
        let status = rollback.results.get(&key).map(|record| json!(record)["status"].clone());
        let status = status.unwrap_or_else(|| "unknown".into());
        values["steps"][id] = json!({"status": status, "content": content});
        values
    }

    fn items(&self, former: &Progress, values: &Map<String, Value>) -> Vec<Value> {
        if let Some(StepRecord::Looping { items }) = former.records.get(&self.step.id) {
            return items.clone();
        }
        let list = self.work.items.as_ref();
        let values = Value::Object(values.clone());
        list.and_then(|of| items_of(of, &values).ok()).unwrap_or_default()
    }
}

/// Asks a person what follows a failure.
fn ask_person(failure: &AgentFailure, ctx: &Ctx) -> NodeResult<UndoRecord> {
    let AgentFailure { agent, step, attempt, safe_message, .. } = failure;
    let text = format!(
        "the undo of step `{step}` failed: agent {agent}, attempt {attempt}: {safe_message}. Retry or skip?"
    );
    let question =
        Question::value(json!({"question": text, "status": "undo_failed", "failure": failure}));
    let answer = ctx.ask_question(question.answer_schema(json!({"enum": ["retry", "skip"]})))?;
    Ok(match answer.value.as_str() {
        Some("retry") => UndoRecord::Retrying { attempts: *attempt },
        _ => UndoRecord::Skipped { failure: failure.clone() },
    })
}
