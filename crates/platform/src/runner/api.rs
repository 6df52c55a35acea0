//! API agents: a build makes a request of an HTTP API, and its answer is the deliverable.

use super::Runner;
use crate::agent::Agent;
use crate::api::tool_name;
use crate::call::{ReadyCall, call_one};
use crate::context;
use crate::definition::{AgentType, Transform, fill_in};
use crate::deliver::{answered, deliver, normalized};
use crate::mode::payload_of;
use crate::state::{AgentState, AgentStateUpdate};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_agents::Tools;
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, State};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Method;
use weftwork_types::task::{Mode, Payload};

/// Title of a deliverable whose request has none.
const TITLE: &str = "API Agent Output";

/// The runner of API agents.
#[derive(Debug)]
pub(super) struct Api;

impl Runner for Api {
    fn agent_type(&self) -> AgentType {
        AgentType::Api
    }

    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("build", build)
    }
}

/// Makes the request.
async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    tools: Tools,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_named(&agent, &payload, &ctx).await?;
    let scope = scope_of(&state, &payload, &ctx);
    let arguments = arguments_of(&agent, &scope)?;
    let call = ReadyCall { tool: tool_name(&agent.slug), arguments };
    let called = Box::pin(call_one(&tools, &call)).await?;
    let done = match called.result().map(|answer| content_of(&agent, scope, answer)) {
        Ok(Ok(content)) => {
            deliver(&agent, &payload, TITLE, normalized(&agent, content), &ctx).await
        }
        // The request was made, and is part of the answer.
        Ok(Err(unfit)) => Err(unfit),
        Err(failure) => Err(failure.into()),
    };
    let (mut answer, text) = answered(&agent, done)?;
    answer["metadata"]["tools"] = json!([called.shown()]);
    let message = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// The values that transforms may name.
fn scope_of(state: &State<AgentState>, payload: &Payload, ctx: &Ctx) -> Value {
    let asked = state.messages().iter().rev().find(|message| message.role == Role::User);
    json!({
        "message": asked.map(Message::joined_text).unwrap_or_default(),
        "input": state.input(),
        "payload": payload,
        "mode": Mode::Build,
        "conversation": ctx.thread(),
    })
}

/// The body and the query of the request.
fn arguments_of(agent: &Agent, scope: &Value) -> NodeResult<Value> {
    let wrong = |reason: String| transform_error("request_transform", &reason);
    let transport = agent.definition.transport.as_ref();
    let Some(api) = transport.and_then(|transport| transport.api.as_ref()) else {
        return Err(wrong("the definition has no API".to_owned()));
    };
    let reads = matches!(api.method, Some(Method::Get | Method::Head));
    let body = match &agent.definition.request_transform {
        Some(form) => Transform::read(form).and_then(|form| form.apply(scope)).map_err(wrong)?,
        // The definition says what a request that reads has.
        None if reads && !api.query.is_empty() => Value::Null,
        None => pass_through(scope),
    };
    let query: Map<String, Value> =
        api.query.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut query = match fill_in(&Value::Object(query), scope).map_err(wrong)? {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    // A request that only reads has no body.
    if reads {
        if let Value::Object(members) = body {
            query.extend(members);
        }
        return Ok(json!({"query": query}));
    }
    Ok(json!({"query": query, "body": body}))
}

/// The body without a transform: the input, or the arguments, or else the message.
fn pass_through(scope: &Value) -> Value {
    let given = [&scope["input"], &scope["payload"]["arguments"]];
    match given.into_iter().find(|value| !value.is_null()) {
        Some(value) => value.clone(),
        None => match scope["message"].as_str() {
            None | Some("") => Value::Null,
            Some(text) => json!({"message": text}),
        },
    }
}

/// The content that an answer becomes: its body without a transform.
fn content_of(agent: &Agent, mut scope: Value, mut answer: Value) -> NodeResult<Value> {
    // A person may have answered in place of the API, with any value.
    let body = match answer.get_mut("body") {
        Some(body) => body.take(),
        None => answer.take(),
    };
    let Some(form) = &agent.definition.response_transform else { return Ok(body) };
    if body.get("cut").is_some_and(|cut| cut == true) {
        let reason = "the answer is longer than a deliverable may be, and was cut".to_owned();
        return Err(transform_error("response_transform", &reason));
    }
    scope["status"] = answer.get_mut("status").map(Value::take).unwrap_or_default();
    scope["response"] = body;
    let made = Transform::read(form).and_then(|form| form.apply(&scope));
    made.map_err(|reason| transform_error("response_transform", &reason))
}

fn transform_error(key: &str, reason: &str) -> NodeError {
    Fault::new(ErrorCode("W1062"), format!("`{key}` of the agent cannot be used: {reason}")).into()
}
