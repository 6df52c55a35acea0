//! Tool agents: a build calls tools and makes a deliverable of their results.

use super::Runner;
use super::api::body_of;
use crate::agent::{Agent, system, warn};
use crate::call::{ReadyCall, call_all};
use crate::context;
use crate::definition::AgentType;
use crate::deliver::{answered, deliver, normalized};
use crate::mode::{RequestError, payload_of};
use crate::state::{AgentState, AgentStateUpdate, last_request};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::Arc;
use weftwork_agents::Tools;
use weftwork_graph::{Ctx, Deps, Graph, NodeResult, State};
use weftwork_types::message::{Message, Role};
use weftwork_types::task::{Payload, ToolRequest};
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

async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    tools: Tools,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    call_tools(&state, &agent, &tools, TITLE, &ctx).await
}

/// Calls the tools of a request.
pub(super) async fn call_tools(
    state: &State<AgentState>,
    agent: &Agent,
    tools: &Tools,
    title: &str,
    ctx: &Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_records(agent, &payload, ctx).await?;
    let specs = tools.specs()?;
    let asked = last_request(state);
    let mut ready = Vec::new();
    for request in requests_of(&payload).map_err(|error| error.fault())? {
        ready.push(complete(agent, &specs, request, asked, ctx).await?);
    }
    if ready.is_empty() {
        ready.push(select(agent, &specs, asked, ctx).await?);
    }
    let called = call_all(agent, tools, &ready).await?;
    let done = match called.results() {
        Ok(mut results) => {
            if agent.agent_type() == AgentType::Api {
                results = results.iter_mut().map(body_of).collect();
            }
            let content = content_of(agent, &ready, &results);
            deliver(agent, &payload, title, content, ctx).await
        }
        Err(failure) => Err(failure.into()),
    };
    let (mut answer, text) = answered(agent, done)?;
    answer["metadata"]["tools"] = called.shown().into();
    if called.is_cut() {
        warn(&mut answer, "the result of a tool is longer than a deliverable may be, and was cut");
    }
    let message = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// Returns the calls that a request names.
fn requests_of(payload: &Payload) -> Result<Vec<ToolRequest>, RequestError> {
    if !payload.tools.is_empty() {
        let Some(tool) = &payload.tool else { return Ok(payload.tools.clone()) };
        return Err(RequestError::Member {
            member: "tool",
            found: format!("`{tool}`, beside `tools`"),
            expected: "one of the two".to_owned(),
        });
    }
    let one = payload
        .tool
        .as_ref()
        .map(|tool| ToolRequest { tool: tool.clone(), arguments: payload.arguments.clone() });
    Ok(one.into_iter().collect())
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
    let spec = specs.iter().find(|spec| is_of(spec, &tool));
    let spec = spec.ok_or_else(|| unknown_tool(agent, specs, &tool).fault())?;
    let arguments = match arguments {
        Some(arguments) => Value::Object(arguments),
        None if takes_nothing(spec) => Value::Object(Map::new()),
        None if asked.is_none() => {
            let missing = RequestError::Member {
                member: "arguments",
                found: "missing".to_owned(),
                expected: "the arguments of the tool, or a message that has them".to_owned(),
            };
            return Err(missing.fault().into());
        }
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
    let tool = match agent.tools.as_slice() {
        [only] => only.clone(),
        several => {
            let mut text = "Choose the tool that does what the user asks for.\n".to_owned();
            for tool in several {
                let spec = specs.iter().find(|spec| is_of(spec, tool));
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

/// Returns `true` for the tool with a name of definitions.
fn is_of(spec: &ToolSpec, name: &str) -> bool {
    spec.name == name || spec.name == wire_name(name)
}

fn takes_nothing(spec: &ToolSpec) -> bool {
    let properties = spec.parameters.get("properties").and_then(Value::as_object);
    properties.is_none_or(Map::is_empty)
}

fn unknown_tool(agent: &Agent, specs: &[ToolSpec], tool: &str) -> RequestError {
    let known = match agent.tools.as_slice() {
        [] => specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>().join(", "),
        known => known.join(", "),
    };
    RequestError::Tool { agent: agent.slug.clone(), tool: tool.to_owned(), known }
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
    normalized(agent, value)
}
