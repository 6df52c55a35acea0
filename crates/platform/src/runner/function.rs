//! Function agents: a build executes code in a sandbox, and its result is the deliverable.

use super::{Runner, request_value};
use crate::agent::Agent;
use crate::context;
use crate::definition::{AgentType, FunctionTransport};
use crate::deliver::{answered, deliver, normalized};
use crate::function_host::{FunctionHost, HostRequest};
use crate::mode::payload_of;
use crate::orchestration::Progress;
use crate::state::{AgentState, AgentStateUpdate, chain_of};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::Tools;
use weftwork_graph::{Ctx, Deps, Graph, NodeError, NodeResult, Once, State};
use weftwork_sandbox::{CodeKind, SandboxError, SandboxLimits, Script};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Payload;

/// Title of a deliverable whose request has none.
const TITLE: &str = "Function Agent Output";

/// The runner of function agents.
#[derive(Debug)]
pub(super) struct Function;

impl Runner for Function {
    fn agent_type(&self) -> AgentType {
        AgentType::Function
    }

    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("build", build)
    }
}

/// The clock and the random numbers of a call, which are the same when it is made again.
#[derive(Debug, Serialize, Deserialize)]
struct Chance {
    now_ms: u64,
    seed: u64,
}

/// Executes the code of the agent.
async fn build(
    state: State<AgentState>,
    agent: Deps<Arc<Agent>>,
    tools: Tools,
    ctx: Ctx,
) -> NodeResult<AgentStateUpdate> {
    let payload = payload_of(state.payload()).map_err(|error| error.fault())?;
    context::check_records(&agent, &payload, &ctx).await?;
    let usual = FunctionTransport::default();
    let transport = agent.definition.transport.as_ref();
    let function = transport.and_then(|transport| transport.function.as_ref()).unwrap_or(&usual);
    let script = script_of(&agent, &state, &payload, function, &ctx).await?;
    let request = HostRequest { grants: &function.grants, chain: chain_of(&state)? };
    let host = FunctionHost::new(&agent, &tools, &ctx, request);
    let sandbox = agent.sandbox.as_ref().ok_or_else(unavailable)?;
    let ended = tokio::select! {
        biased;
        // The node runs again with the answer, and its calls on record are not made again.
        stopped = host.until_stopped() => return Err(stopped),
        ended = Box::pin(sandbox.run(&script, &host, &**ctx.clock())) => ended,
    };
    let done = match ended {
        Ok(returned) => {
            let Returned { title, content } = Returned::of(returned);
            let title = title.as_deref().unwrap_or(TITLE);
            deliver(&agent, &payload, title, normalized(&agent, content), &ctx).await
        }
        Err(error) => Err(fault_of(&error, &ctx)),
    };
    let (mut answer, text) = answered(&agent, done)?;
    let called = host.called();
    if !called.is_empty() {
        answer["metadata"]["tools"] = Value::Array(called);
    }
    let failures = std::mem::take(&mut *host.failures());
    if !failures.is_empty() {
        answer["metadata"]["failures"] = json!(failures);
    }
    let message = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(AgentStateUpdate::new().messages([message]).answer(answer))
}

/// The call of the code: what it is asked for, and its limits.
async fn script_of(
    agent: &Agent,
    state: &State<AgentState>,
    payload: &Payload,
    function: &FunctionTransport,
    ctx: &Ctx,
) -> NodeResult<Script> {
    // For all attempts: the arguments of calls may follow from it.
    let once = Once::new("function").idempotent();
    let chance: Chance = ctx
        .once(once, async |_| {
            let now_ms = u64::try_from(ctx.clock().now().0).unwrap_or_default();
            Ok(Chance { now_ms, seed: ctx.clock().unique() as u64 })
        })
        .await?;
    let usual = SandboxLimits::default();
    let memory = function.memory_mb.and_then(|megabytes| usize::try_from(megabytes).ok());
    Ok(Script {
        code_kind: CodeKind::Function,
        code: agent.definition.function_code.clone().unwrap_or_default(),
        input: request_value(state, payload, ctx),
        results: results_of(agent, state)?,
        now_ms: chance.now_ms,
        seed: chance.seed,
        limits: SandboxLimits {
            timeout_ms: function.timeout_ms.unwrap_or(usual.timeout_ms),
            memory_bytes: memory.map_or(usual.memory_bytes, |megabytes| megabytes << 20),
            ..usual
        },
    })
}

/// The results of the steps of the orchestration, by ids.
fn results_of(agent: &Agent, state: &State<AgentState>) -> NodeResult<Value> {
    match Progress::of(state)? {
        None => Ok(json!({})),
        Some(progress) => Ok(progress.results(&*progress.outline(agent)?)),
    }
}

/// A result of code.
struct Returned {
    title: Option<String>,
    content: Value,
}

impl Returned {
    /// Reads a result: `{deliverable: {title, content}}`, `{result}`, or the value itself.
    fn of(value: Value) -> Self {
        let Value::Object(mut members) = value else { return Self { title: None, content: value } };
        if members.len() != 1 {
            return Self { title: None, content: Value::Object(members) };
        }
        if let Some(result) = members.remove("result") {
            return Self { title: None, content: result };
        }
        match members.remove("deliverable") {
            Some(Value::Object(mut whole)) if whole.contains_key("content") => {
                let title = whole.get("title").and_then(Value::as_str).map(str::to_owned);
                Self { title, content: whole.remove("content").unwrap_or_default() }
            }
            Some(whole) => Self { title: None, content: whole },
            None => Self { title: None, content: Value::Object(members) },
        }
    }
}

/// The failure of the code, without what the run hides, and with the line in which it happened.
fn fault_of(error: &SandboxError, ctx: &Ctx) -> NodeError {
    let line = match error {
        SandboxError::Thrown { stack, .. } => stack.lines().next().unwrap_or_default().trim(),
        _ => "",
    };
    let text = format!("{error} {line}");
    let text = ctx.calls().hidden.shape(text.trim_end());
    Fault::new(error.code(), text).into()
}

pub(super) fn unavailable() -> NodeError {
    let missing = SandboxError::Unavailable {
        missing: "the sandbox".to_owned(),
        reason: "this program was built without it".to_owned(),
    };
    Fault::new(missing.code(), missing.to_string()).into()
}
