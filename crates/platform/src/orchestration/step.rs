//! A step at work: an attempt of an agent, or the question what follows a failure.

use super::STEP_FAILED;
use super::progress::{Progress, StepRecord};
use super::schedule::StepTask;
use crate::agent::Agent;
use crate::definition::{AgentWork, OnError, fill_value};
use crate::sub_agent::{SubRequest, ask_agent};
use serde_json::{Map, Value, json};
use weftwork_graph::{Ctx, NodeError, NodeResult, Question};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::AgentFailure;

/// The record that a task of a step makes, and the failure if it failed.
pub(super) struct Attempted {
    pub(super) record: StepRecord,
    pub(super) failure: Option<AgentFailure>,
}

impl Attempted {
    pub(super) fn ended(record: StepRecord) -> Self {
        Self { record, failure: None }
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
    let key = task.key(&agent.outline);
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
    let failure = AgentFailure {
        agent: work.agent.clone(),
        step: key,
        attempt: attempts + 1,
        code: fault.code,
        safe_message: fault.message,
        retriable: fault.retriable,
        cause_id: ctx.calls().origin.run().map(|caller| caller.run.clone()),
    };
    let record = match work.on_error {
        _ if failure.attempt < work.attempts => StepRecord::Retrying { attempts: failure.attempt },
        OnError::Skip => StepRecord::Skipped { failed: true },
        OnError::Ask => StepRecord::Asking { failure: failure.clone() },
        OnError::Retry | OnError::Abort => StepRecord::Failed { failure: failure.clone() },
    };
    Ok(Attempted { record, failure: Some(failure) })
}

/// Asks the agent once, and returns its content.
async fn attempt(
    agent: &Agent,
    progress: &Progress,
    task: &StepTask,
    work: &AgentWork,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let mut values = progress.values(&agent.outline);
    if let Some(number) = task.item {
        let id = agent.outline.steps.get(task.position).map(|step| step.id.as_str());
        let record = id.and_then(|id| progress.records.get(id));
        let Some(StepRecord::Looping { items }) = record else {
            return Err(NodeError::message("the loop of the item has ended"));
        };
        values.insert("item".to_owned(), items.get(number).cloned().unwrap_or_default());
        values.insert("index".to_owned(), number.into());
    }
    ask_for(agent, work, "step", &Value::Object(values), progress.request.depth, ctx).await
}

/// Asks the agent of a work with these values, and returns its content.
pub(super) async fn ask_for(
    agent: &Agent,
    work: &AgentWork,
    call: &str,
    values: &Value,
    depth: u64,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let input = input_of(work, values, ctx).map_err(|reason| {
        Fault::new(STEP_FAILED, format!("the request of the step cannot be made: {reason}"))
    })?;
    let request = SubRequest { call, slug: &work.agent, input, depth };
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
    let input = match &work.input {
        Some(input) => fill_value(input, values)?,
        None => Value::Object(Map::new()),
    };
    Ok(Map::from_iter([
        ("messages".to_owned(), json!(messages)),
        ("mode".to_owned(), json!(work.mode)),
        ("payload".to_owned(), payload),
        ("input".to_owned(), input),
    ]))
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
