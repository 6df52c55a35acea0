//! Requests of an agent to another one, within its run.

use crate::agent::Agent;
use crate::mode::RequestError;
use crate::source::AGENTS;
use serde_json::{Value, json};
use weftwork_graph::{Ctx, NodeError, NodeResult, Once, SubgraphState};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::task::Mode;

/// Number of agents that ask one another, if the definition names none.
const DEPTH_MAX: u32 = 3;

/// A request to another agent.
#[derive(Debug)]
pub(crate) struct AgentRequest {
    pub(crate) mode: Mode,
    pub(crate) messages: Vec<Message>,
    pub(crate) payload: Value,
    /// Input of the agent; `None` for that of a chat.
    pub(crate) input: Option<Value>,
}

/// Asks another agent, and returns the content of its answer. `depth` is the number of agents that asked
/// one another before this one.
pub(crate) async fn ask(
    agent: &Agent,
    slug: &str,
    request: AgentRequest,
    depth: u64,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let depth = depth + 1;
    let orchestration = agent.definition.orchestration.as_ref();
    let limit = orchestration.and_then(|of| of.max_depth).unwrap_or(DEPTH_MAX);
    if depth > u64::from(limit) {
        let agent = agent.slug.clone();
        return Err(RequestError::Depth { agent, limit }.fault().into());
    }
    let find = &agent.find;
    let who = &ctx.calls().principal;
    // A run that goes on asks the version that it began with.
    let current = async |_| Ok(find(who, &format!("{AGENTS}{slug}"))?.id);
    let version: String = ctx.once(Once::new("sub_agent").reads(), current).await?;
    let graph = find(who, &version)?.graph;
    let AgentRequest { mode, messages, payload, input } = request;
    let mut asked = json!({"messages": messages, "mode": mode, "payload": payload, "depth": depth});
    if let Some(input) = input {
        asked["input"] = input;
    }
    graph.check_input(&asked)?;
    let output = ctx.call(&graph, SubgraphState::PerTask, asked).await?;
    if let Some(error) = output.pointer("/answer/error") {
        return Err(fault_of(error).into());
    }
    match output.pointer("/answer/content") {
        None | Some(Value::Null) => Err(NodeError::message("it gave no answer")),
        Some(content) => Ok(content.clone()),
    }
}

/// The failure in the answer of an agent.
fn fault_of(error: &Value) -> Fault {
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    let fault = Fault::new(ErrorCode("W0102"), text("message"));
    Fault { code: text("code"), retriable: error["retriable"] == true, ..fault }
}
