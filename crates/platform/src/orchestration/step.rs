//! A step at work: an attempt of an agent, or the question what follows a failure.

use super::progress::{Progress, StepRecord};
use super::schedule::StepTask;
use super::{REJECTED, STEP_FAILED};
use crate::agent::Agent;
use crate::definition::{AgentWork, OnError, fill_value};
use crate::sub_agent::{FailedRequest, NoInput, SubRequest, ask_agent, led_to, run_of};
use serde_json::{Map, Value, json};
use weftwork_graph::{Ctx, NodeError, NodeResult, Question};
use weftwork_types::CallChain;
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::AgentFailure;

/// The record that a task of a step makes, and the failure if it failed, behind those that led to it.
pub(super) struct Attempted {
    pub(super) record: StepRecord,
    pub(super) failures: Vec<AgentFailure>,
}

impl Attempted {
    pub(super) fn ended(record: StepRecord) -> Self {
        Self { record, failures: Vec::new() }
    }
}

/// Asks the agent of a step, or a person about the attempt that failed.
pub(super) async fn carry_out(
    agent: &Agent,
    progress: &Progress,
    task: &StepTask,
    work: &AgentWork,
    ctx: &Ctx,
) -> NodeResult<Attempted> {
    let key = task.key(&*progress.outline(agent)?);
    let attempts = match progress.records.get(&key) {
        Some(StepRecord::Asking { failure }) => return ask_person(failure, ctx),
        Some(StepRecord::Retrying { attempts }) => *attempts,
        _ => 0,
    };
    let fault = match attempt(agent, progress, task, work, ctx).await {
        Ok(content) => return Ok(Attempted::ended(StepRecord::Done { content })),
        // An open question stops the node.
        Err(error) => error.try_into_fault()?,
    };
    let request = FailedRequest { agent: &work.agent, step: &key, attempt: attempts + 1 };
    let failure = request.failure(&fault, run_of(ctx));
    let record = match work.on_error {
        // A person has rejected what the step is for: asking again would go round the decision.
        _ if failure.code == REJECTED.0 => StepRecord::Failed { failure: failure.clone() },
        _ if failure.attempt < work.attempts => StepRecord::Retrying { attempts: failure.attempt },
        OnError::Skip => StepRecord::Skipped { failed: true },
        OnError::Ask => StepRecord::Asking { failure: failure.clone() },
        OnError::Retry | OnError::Abort => StepRecord::Failed { failure: failure.clone() },
    };
    let mut failures = led_to(&fault);
    failures.push(failure);
    Ok(Attempted { record, failures })
}

/// Asks the agent once, and returns its content.
async fn attempt(
    agent: &Agent,
    progress: &Progress,
    task: &StepTask,
    work: &AgentWork,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let outline = progress.outline(agent)?;
    let mut values = progress.values(&outline);
    if let Some(number) = task.item {
        let id = outline.steps.get(task.position).map(|step| step.id.as_str());
        let record = id.and_then(|id| progress.records.get(id));
        let Some(StepRecord::Looping { items }) = record else {
            return Err(NodeError::message("the loop of the item has ended"));
        };
        values.insert("item".to_owned(), items.get(number).cloned().unwrap_or_default());
        values.insert("index".to_owned(), number.into());
    }
    let mut path = progress.request.path.clone();
    path.push(task.key(&outline));
    let values = Value::Object(values);
    let asking = Asking { call: "step", values: &values, path, chain: progress.request.chain() };
    ask_for(agent, work, asking, ctx).await
}

/// A request of a step, or of its undo.
pub(super) struct Asking<'a> {
    /// Name of the call, which no other call of the task has.
    pub(super) call: &'a str,
    /// Values of the placeholders.
    pub(super) values: &'a Value,
    /// Steps around the agent that is asked.
    pub(super) path: Vec<String>,
    /// Agents that asked one another before.
    pub(super) chain: CallChain,
}

/// Asks the agent of a work, and returns its content.
pub(super) async fn ask_for(
    agent: &Agent,
    work: &AgentWork,
    asking: Asking<'_>,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let Asking { call, values, path, chain } = asking;
    let mut input = input_of(work, values, ctx).map_err(|reason| {
        Fault::new(STEP_FAILED, format!("the request of the step cannot be made: {reason}"))
    })?;
    input.insert("path".to_owned(), json!(path));
    let no_input = NoInput::Empty;
    let request = SubRequest { call, slug: &work.agent, input, no_input, chain };
    let mut answer = ask_agent(agent, request, ctx).await?;
    match answer.get_mut("content").map(Value::take) {
        None | Some(Value::Null) => Err(NodeError::message("it gave no answer")),
        Some(content) => Ok(content),
    }
}

/// Input of the graph of the agent.
fn input_of(work: &AgentWork, values: &Value, ctx: &Ctx) -> Result<Map<String, Value>, String> {
    let message = match &work.message {
        Some(message) => fill_value(&Value::String(message.clone()), values)?,
        None => values["message"].clone(),
    };
    let message = match message {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let messages = match message.is_empty() {
        true => Vec::new(),
        false => vec![Message::text(ctx.message_id(), Role::User, message)],
    };
    let payload = fill_value(&Value::Object(work.payload.clone()), values)?;
    let mut made = Map::from_iter([
        ("messages".to_owned(), json!(messages)),
        ("mode".to_owned(), json!(work.mode)),
        ("payload".to_owned(), payload),
    ]);
    let input = work.input.as_ref().map(|input| fill_value(input, values)).transpose()?;
    made.extend(input.map(|input| ("input".to_owned(), input)));
    Ok(made)
}

/// Asks a person what follows a failure.
fn ask_person(failure: &AgentFailure, ctx: &Ctx) -> NodeResult<Attempted> {
    let AgentFailure { agent, step, attempt, safe_message, .. } = failure;
    let text = format!(
        "step `{step}`: agent {agent} failed in attempt {attempt}: {safe_message}. Retry, skip or abort?"
    );
    let question = Question::value(json!({"question": text, "failure": failure}));
    let answers = json!({"enum": ["retry", "skip", "abort"]});
    let answer = ctx.ask_question(question.answer_schema(answers))?;
    Ok(Attempted::ended(match answer.value.as_str() {
        Some("retry") => StepRecord::Retrying { attempts: *attempt },
        Some("skip") => StepRecord::Skipped { failed: true },
        _ => StepRecord::Failed { failure: failure.clone() },
    }))
}
