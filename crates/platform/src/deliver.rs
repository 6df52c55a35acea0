//! Deliverables of what tools and code return.

use crate::agent::Agent;
use crate::records::{ContentFormat, NewVersion, RecordKind};
use serde_json::Value;
use weftwork_graph::{Ctx, NodeResult};
use weftwork_types::task::{Mode, Payload};

/// Makes the deliverable of a content, with this title if the request has none. Returns the answer, and
/// its text.
pub(crate) async fn deliver(
    agent: &Agent,
    payload: &Payload,
    title: &str,
    content: Value,
    ctx: &Ctx,
) -> NodeResult<(Value, String)> {
    let text = match &content {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other)?,
    };
    let stored = match agent.deliverable.format() {
        ContentFormat::Json => serde_json::to_string_pretty(&content)?,
        _ => text.clone(),
    };
    agent.check_output(&content)?;
    let new = NewVersion {
        title: payload.title.clone().unwrap_or_else(|| title.to_owned()),
        content: stored,
        ..NewVersion::default()
    };
    let id = payload.deliverable_id.as_deref();
    let written = agent.write(RecordKind::Deliverable, id, new, ctx).await?;
    Ok((agent.answer(Mode::Build, content, Some(&written)), text))
}

/// Returns the answer of a build and its text, also of one that failed: the run completes, and the calls
/// that were made are part of its answer. An open question stops the node.
pub(crate) fn answered(
    agent: &Agent,
    done: NodeResult<(Value, String)>,
) -> NodeResult<(Value, String)> {
    let error = match done {
        Ok(delivered) => return Ok(delivered),
        Err(error) => error,
    };
    let failure = error.try_into_fault()?;
    let text = failure.message.clone();
    Ok((agent.failed_answer(Mode::Build, &failure), text))
}

/// Returns a value as a deliverable of the agent has it: JSON, or a text.
pub(crate) fn normalized(agent: &Agent, value: Value) -> Value {
    if agent.deliverable.format() == ContentFormat::Json {
        // Many tools return JSON as a text.
        let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        return parsed.unwrap_or(value);
    }
    match value {
        Value::String(text) => Value::String(text),
        other => {
            let text = serde_json::to_string_pretty(&other).unwrap_or_default();
            Value::String(format!("```json\n{text}\n```"))
        }
    }
}
