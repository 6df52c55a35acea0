//! Agents that an agent asks.

use crate::agent::Agent;
use crate::mode::RequestError;
use crate::source::AGENTS;
use serde_json::{Map, Value};
use weftwork_graph::{Ctx, NodeError, NodeResult, Once, SubgraphState};

/// Number of agents that ask one another, if the definition names none.
const DEPTH_MAX: u32 = 3;

/// A request of an agent to another one.
#[derive(Debug)]
pub(crate) struct SubRequest<'a> {
    /// Name of the call, which no other call of the task has.
    pub(crate) call: &'a str,
    /// Slug of the agent that is asked.
    pub(crate) slug: &'a str,
    /// Input of its graph, without the depth.
    pub(crate) input: Map<String, Value>,
    /// Number of agents that asked one another before the one that asks.
    pub(crate) depth: u64,
}

/// Asks another agent, and returns its answer. A run that goes on asks the version that it began with.
///
/// # Errors
/// W1037 if the agents ask one another too deeply, the failure of the agent with its code, or an error
/// that stops the node.
pub(crate) async fn ask_agent(
    agent: &Agent,
    request: SubRequest<'_>,
    ctx: &Ctx,
) -> NodeResult<Value> {
    let SubRequest { call, slug, mut input, depth } = request;
    let orchestration = agent.definition.orchestration.as_ref();
    let limit = orchestration.and_then(|of| of.max_depth).unwrap_or(DEPTH_MAX);
    if depth >= u64::from(limit) {
        let agent = agent.slug.clone();
        return Err(RequestError::Depth { agent, limit }.fault().into());
    }
    input.insert("depth".to_owned(), (depth + 1).into());
    let who = &ctx.calls().principal;
    let current = async |_| Ok(agent.others.find(who, &format!("{AGENTS}{slug}"))?.id);
    let version: String = ctx.once(Once::new(call).reads(), current).await?;
    let graph = agent.others.find(who, &version)?.graph;
    let keep = SubgraphState::PerTask;
    let mut output = ctx.call_named(call, &graph, keep, Value::Object(input)).await?;
    let answer = output.get_mut("answer").map(Value::take).unwrap_or_default();
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => {
            let message = error["message"].as_str().unwrap_or("it failed");
            let mut fault =
                NodeError::message(format!("agent {slug}: {message}")).try_into_fault()?;
            if let Some(code) = error["code"].as_str() {
                fault.code = code.to_owned();
            }
            Err(fault.into())
        }
    }
}
