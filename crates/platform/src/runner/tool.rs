//! Tool agents: a build calls tools and makes a deliverable of their results.

use super::Runner;
use crate::agent::{Agent, system};
use crate::definition::{AgentType, ToolMode};
use crate::mode::{RequestError, payload_of};
use crate::records::{ContentFormat, NewVersion, RecordKind};
use crate::state::{AgentState, AgentStateUpdate};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::Arc;
use weftwork_agents::{ToolCallError, Tools};
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, State};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::{Mode, Payload, ToolRequest};
use weftwork_types::tool::{ToolSpec, wire_name};

/// Title of a deliverable whose request has none.
const TITLE: &str = "Tool Agent Output";

/// The runner of tool agents.
#[derive(Debug)]
pub(super) struct Tool;

impl Runner for Tool {
    fn agent_type(&self) -> AgentType {
        AgentType::Tool
    }

    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("build", build)
    }
}

/// A call with its arguments.
#[derive(Debug, Clone)]
struct ReadyCall {
    tool: String,
    arguments: Value,
}

/// Calls the tools of a request.
async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    tools: Tools,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    let specs = tools.specs()?;
    let asked = state.messages().iter().rev().find(|message| message.role == Role::User);
    let mut ready = Vec::new();
    for request in requests_of(&payload) {
        ready.push(complete(&agent, &specs, request, asked, &ctx).await?);
    }
    if ready.is_empty() {
        ready.push(select(&agent, &specs, asked, &ctx).await?);
    }
    let ends = call_all(&agent, &tools, &ready).await?;
    let called = ready.iter().zip(&ends).map(|(call, end)| end.shown(call)).collect();
    let done = match results_of(&ends) {
        Ok(results) => deliver(&agent, &payload, &ready, &results, &ctx).await,
        Err(failure) => Err(failure.into()),
    };
    let (mut answer, text) = match done {
        Ok(delivered) => delivered,
        // The run completes: the calls that were made are part of its answer.
        Err(error) => {
            let failure = error.try_into_fault()?;
            let text = failure.message.clone();
            (agent.failed_answer(Mode::Build, &failure), text)
        }
    };
    answer["metadata"]["tools"] = Value::Array(called);
    if ends.iter().any(CallEnd::is_cut) {
        let text = "the result of a tool is longer than a deliverable may be, and was cut";
        answer["metadata"]["warnings"] = json!([text]);
    }
    let message = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// Makes the deliverable of results. Returns the answer, and its text.
async fn deliver(
    agent: &Agent,
    payload: &Payload,
    ready: &[ReadyCall],
    results: &[Value],
    ctx: &Ctx,
) -> NodeResult<(Value, String)> {
    let content = content_of(agent, ready, results);
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
        title: payload.title.clone().unwrap_or_else(|| TITLE.to_owned()),
        content: stored,
        ..NewVersion::default()
    };
    let id = payload.deliverable_id.as_deref();
    let written = agent.write(RecordKind::Deliverable, id, new, ctx).await?;
    Ok((agent.answer(Mode::Build, content, Some(&written)), text))
}

/// Returns the calls that a request names.
fn requests_of(payload: &Payload) -> Vec<ToolRequest> {
    if !payload.tools.is_empty() {
        return payload.tools.clone();
    }
    let one = payload
        .tool
        .as_ref()
        .map(|tool| ToolRequest { tool: tool.clone(), arguments: payload.arguments.clone() });
    one.into_iter().collect()
}

/// Finds the tool of a requested call among those of the agent, and lets the model take its arguments
/// from the message if the request has none.
async fn complete(
    agent: &Agent,
    specs: &[ToolSpec],
    request: ToolRequest,
    asked: Option<&Message>,
    ctx: &Ctx,
) -> NodeResult<ReadyCall> {
    let ToolRequest { tool, arguments } = request;
    let spec = specs.iter().find(|spec| spec.name == tool || spec.name == wire_name(&tool));
    let spec = spec.ok_or_else(|| unknown_tool(agent, specs, &tool).fault())?;
    let arguments = match arguments {
        Some(arguments) => Value::Object(arguments),
        None if takes_nothing(spec) => Value::Object(Map::new()),
        None => arguments_of(agent, spec, asked, ctx).await?,
    };
    Ok(ReadyCall { tool, arguments })
}

/// Lets the model choose a tool, unless there is one alone, and its arguments.
async fn select(
    agent: &Agent,
    specs: &[ToolSpec],
    asked: Option<&Message>,
    ctx: &Ctx,
) -> NodeResult<ReadyCall> {
    let canonical = agent.definition.tools.as_deref().unwrap_or_default();
    let tool = match canonical {
        [only] => only.clone(),
        several => {
            let mut text = "Choose the tool that does what the user asks for.\n".to_owned();
            for tool in several {
                let spec = specs.iter().find(|spec| spec.name == wire_name(tool));
                let about = spec.map(|spec| spec.description.as_str()).unwrap_or_default();
                writeln!(text, "- {tool}: {about}")?;
            }
            let schema = json!({
                "type": "object",
                "properties": {"tool": {"enum": several}},
                "required": ["tool"],
                "additionalProperties": false,
            });
            let messages = [system(text)?].into_iter().chain(asked.cloned()).collect();
            let chosen = agent.ask_value(messages, &schema, ctx).await?;
            chosen["tool"].as_str().unwrap_or_default().to_owned()
        }
    };
    complete(agent, specs, ToolRequest { tool, arguments: None }, asked, ctx).await
}

/// Lets the model take the arguments of a tool from the message.
async fn arguments_of(
    agent: &Agent,
    spec: &ToolSpec,
    asked: Option<&Message>,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let text = format!(
        "Take the arguments of the tool `{}` from the message of the user. The tool: {}",
        spec.name, spec.description
    );
    let messages = [system(text)?].into_iter().chain(asked.cloned()).collect();
    agent.ask_value(messages, &spec.parameters, ctx).await
}

fn takes_nothing(spec: &ToolSpec) -> bool {
    let properties = spec.parameters.get("properties").and_then(Value::as_object);
    properties.is_none_or(Map::is_empty)
}

fn unknown_tool(agent: &Agent, specs: &[ToolSpec], tool: &str) -> RequestError {
    let known: Vec<_> = agent.definition.tools.iter().flatten().map(String::as_str).collect();
    let known = match known.as_slice() {
        [] => specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>().join(", "),
        known => known.join(", "),
    };
    RequestError::Tool { agent: agent.slug.clone(), tool: tool.to_owned(), known }
}

/// The end of a call.
#[derive(Debug)]
enum CallEnd {
    Done(Value),
    Failed(Fault),
    /// A call before it failed.
    NotMade,
}

impl CallEnd {
    /// The call with its end, as the answer has it.
    fn shown(&self, call: &ReadyCall) -> Value {
        let ReadyCall { tool, arguments } = call;
        match self {
            Self::Done(result) => json!({"tool": tool, "arguments": arguments, "result": result}),
            Self::Failed(fault) => {
                let error = json!({"code": fault.code, "message": fault.message});
                json!({"tool": tool, "arguments": arguments, "error": error})
            }
            Self::NotMade => json!({"tool": tool, "arguments": arguments, "made": false}),
        }
    }

    /// Returns `true` for a result of which there is only the beginning.
    fn is_cut(&self) -> bool {
        let Self::Done(Value::Object(members)) = self else { return false };
        members.len() == 2 && members.contains_key("cut") && members.contains_key("beginning")
    }
}

/// Returns the results of calls, or the first failure.
fn results_of(ends: &[CallEnd]) -> Result<Vec<Value>, Fault> {
    let failed = ends.iter().find_map(|end| match end {
        CallEnd::Failed(fault) => Some(fault.clone()),
        _ => None,
    });
    if let Some(fault) = failed {
        return Err(fault);
    }
    let result = |end: &CallEnd| match end {
        CallEnd::Done(result) => Some(result.clone()),
        _ => None,
    };
    Ok(ends.iter().filter_map(result).collect())
}

/// Makes the calls in the order of the request, up to the first one that fails, or all at once. Their
/// ends have the order of the request.
async fn call_all(agent: &Agent, tools: &Tools, ready: &[ReadyCall]) -> NodeResult<Vec<CallEnd>> {
    if agent.definition.tool_mode == Some(ToolMode::Parallel) {
        // A question about one of them waits for the others: a call that began is not cut off.
        let ends = join_all(ready.iter().map(|call| call_one(tools, call))).await;
        return ends.into_iter().collect();
    }
    let mut ends = Vec::new();
    for call in ready {
        let has_failed = ends.iter().any(|end| matches!(end, CallEnd::Failed(_)));
        let end = if has_failed { CallEnd::NotMade } else { call_one(tools, call).await? };
        ends.push(end);
    }
    Ok(ends)
}

/// Makes a call. An open question stops the node.
async fn call_one(tools: &Tools, call: &ReadyCall) -> NodeResult<CallEnd> {
    match tools.call(&call.tool, call.arguments.clone()).await {
        Ok(result) => Ok(CallEnd::Done(result.value)),
        Err(ToolCallError::Stopped(stopped)) => Err(stopped),
        Err(failed) => Ok(CallEnd::Failed(NodeError::from(failed).try_into_fault()?)),
    }
}

/// Normalises results: that of one call stands alone, those of several are a list with their tools.
fn content_of(agent: &Agent, ready: &[ReadyCall], results: &[Value]) -> Value {
    let value = match results {
        [only] => only.clone(),
        several => ready
            .iter()
            .zip(several)
            .map(|(call, result)| json!({"tool": call.tool, "result": result}))
            .collect(),
    };
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
