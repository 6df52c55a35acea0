//! API agents: a build makes a request of an HTTP API, and its answer is the deliverable.

use super::function::unavailable;
use super::tool::call_tools;
use super::{Runner, request_value};
use crate::agent::{Agent, warn};
use crate::api::{allowed_address, encode_segment, kind_of, tool_name};
use crate::call::{ReadyCall, call_one, is_cut};
use crate::context;
use crate::definition::{AgentType, Transform, fill_address, fill_in};
use crate::deliver::{answered, deliver, normalized};
use crate::mode::payload_of;
use crate::state::{AgentState, AgentStateUpdate};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::Tools;
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, State};
use weftwork_sandbox::{CodeKind, LimitKind, NoHost, SandboxError, SandboxLimits, Script};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};

/// Title of a deliverable whose request has none.
const TITLE: &str = "API Agent Output";

/// Maximum wall time of a program of jq in milliseconds.
const JQ_TIMEOUT_MS: u64 = 5_000;

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
    if agent.definition.openapi.is_some() {
        return Box::pin(call_tools(&state, &agent, &tools, TITLE, &ctx)).await;
    }
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_records(&agent, &payload, &ctx).await?;
    let scope = request_value(&state, &payload, &ctx);
    let mut arguments = arguments_of(&agent, &scope, &ctx).await?;
    if let Some(url) = address_of(&agent, &scope)? {
        arguments["url"] = url.into();
    }
    let call = ReadyCall { tool: tool_name(&agent.slug), arguments };
    let called = Box::pin(call_one(&tools, &call)).await?;
    let mut was_cut = false;
    let limit = called.result.as_ref().ok().and_then(|answer| answer["pages"]["limit"].as_str());
    let limit = limit.map(str::to_owned);
    let content = match called.result.clone() {
        Ok(answer) => content_of(&agent, scope, answer, &ctx).await,
        Err(failure) => Err(failure.into()),
    };
    let done = match content {
        Ok(content) => {
            was_cut = is_cut(&content);
            deliver(&agent, &payload, TITLE, normalized(&agent, content), &ctx).await
        }
        // The request was made, and is part of the answer.
        Err(error) => Err(error),
    };
    let (mut answer, text) = answered(&agent, done)?;
    answer["metadata"]["tools"] = json!([called.shown()]);
    if was_cut {
        warn(&mut answer, "the answer of the API is longer than a deliverable may be, and was cut");
    }
    if let Some(limit) = limit {
        warn(&mut answer, format!("the list goes on: it was read up to the limit of {limit}"));
    }
    let message = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// The body and the query of the request.
async fn arguments_of(agent: &Agent, scope: &Value, ctx: &Ctx) -> NodeResult<Value> {
    const KEY: &str = "request_transform";
    let wrong = |reason: String| transform_error(KEY, &reason);
    let transport = agent.definition.transport.as_ref();
    let Some(api) = transport.and_then(|transport| transport.api.as_ref()) else {
        return Err(wrong("the definition has no API".to_owned()));
    };
    let body = match &agent.definition.request_transform {
        Some(form) => Transformed { agent, ctx, key: KEY, form }.of(scope).await?,
        // The definition says what a request that reads has.
        None if api.only_reads() && !api.query.is_empty() => Value::Null,
        None => pass_through(scope),
    };
    let mut query = fill_in(&api.query, scope).map_err(wrong)?;
    if !api.only_reads() {
        return Ok(json!({"query": query, "body": body}));
    }
    // A request that only reads has no body.
    match body {
        Value::Null => {}
        Value::Object(members) => query.extend(members),
        other => {
            let what = match agent.definition.request_transform.is_some() {
                true => "it makes",
                false => "there is none, and the input is",
            };
            let found = kind_of(&other);
            return Err(wrong(format!("a query is made of an object; {what} {found}")));
        }
    }
    Ok(json!({"query": query}))
}

/// The address that an endpoint with placeholders becomes; `None` for one without.
fn address_of(agent: &Agent, scope: &Value) -> NodeResult<Option<String>> {
    let transport = agent.definition.transport.as_ref();
    let api = transport.and_then(|transport| transport.api.as_ref());
    let Some(api) = api.filter(|api| api.has_template()) else { return Ok(None) };
    let address = fill_address(&api.endpoint, scope, encode_segment);
    // Nobody is asked about a request that is refused.
    let allowed = address.and_then(|address| allowed_address(api, &address));
    let allowed = allowed.map_err(|reason| Fault::new(ErrorCode("W1064"), reason))?;
    Ok(Some(allowed.into()))
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
async fn content_of(
    agent: &Agent,
    mut scope: Value,
    mut answer: Value,
    ctx: &Ctx,
) -> NodeResult<Value> {
    const KEY: &str = "response_transform";
    let body = body_of(&mut answer);
    let Some(form) = &agent.definition.response_transform else { return Ok(body) };
    if is_cut(&body) {
        let reason = "the answer is longer than a deliverable may be, and was cut".to_owned();
        return Err(transform_error(KEY, &reason));
    }
    scope["status"] = answer.get_mut("status").map(Value::take).unwrap_or_default();
    scope["response"] = body;
    Transformed { agent, ctx, key: KEY, form }.of(&scope).await
}

/// A transform of a definition.
struct Transformed<'n> {
    agent: &'n Agent,
    ctx: &'n Ctx,
    key: &'static str,
    form: &'n Value,
}

impl Transformed<'_> {
    /// Returns the value that the transform makes of a scope.
    async fn of(&self, scope: &Value) -> NodeResult<Value> {
        let wrong = |reason: String| transform_error(self.key, &reason);
        let program = match Transform::read(self.form).map_err(wrong)? {
            Transform::Form(form) => return form.apply(scope).map_err(wrong),
            Transform::Jq(program) => program,
        };
        let script = Script {
            code_kind: CodeKind::Jq,
            code: program,
            input: scope.clone(),
            limits: SandboxLimits { timeout_ms: JQ_TIMEOUT_MS, ..SandboxLimits::default() },
            ..Script::default()
        };
        let sandbox = self.agent.sandbox.as_ref().ok_or_else(unavailable)?;
        let made = Box::pin(sandbox.run(&script, &NoHost, &**self.ctx.clock())).await;
        made.map_err(|error| {
            // It may have parts of its input.
            let text = self.ctx.calls().hidden.shape(&error.to_string()).to_string();
            match error {
                SandboxError::Limit { limit: LimitKind::Time } => {
                    wrong(format!("the program took longer than {JQ_TIMEOUT_MS} ms"))
                }
                SandboxError::Unavailable { .. }
                | SandboxError::Broken { .. }
                | SandboxError::Start(_) => Fault::new(error.code(), text).into(),
                _ => wrong(text),
            }
        })
    }
}

/// Takes the body out of an answer.
pub(super) fn body_of(answer: &mut Value) -> Value {
    // A person may have answered in place of the API, with any value.
    match answer.get_mut("body") {
        Some(body) => body.take(),
        None => answer.take(),
    }
}

fn transform_error(key: &str, reason: &str) -> NodeError {
    Fault::new(ErrorCode("W1062"), format!("`{key}` of the agent cannot be used: {reason}")).into()
}
