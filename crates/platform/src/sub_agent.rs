//! Agents that an agent asks, within its run.

use crate::agent::Agent;
use crate::definition::Orchestration;
use crate::mode::RequestError;
use crate::source::AGENTS;
use serde_json::{Map, Value};
use weftwork_graph::{Ctx, NodeError, NodeResult, Once, SubgraphState};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

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
    let usual = Orchestration::default();
    let own = agent.definition.orchestration.as_ref().unwrap_or(&usual);
    let limit = own.depth_max();
    if depth >= u64::from(limit) {
        let agent = agent.slug.clone();
        return Err(RequestError::Depth { agent, limit }.fault().into());
    }
    let who = &ctx.calls().principal;
    let current = async |_| Ok(agent.others.find(who, &format!("{AGENTS}{slug}"))?.id);
    let version: String = ctx.once(Once::new(call).reads(), current).await?;
    let graph = agent.others.find(who, &version)?.graph;
    let asked = agent.others.upgrade().and_then(|agents| agents.of_version(who, &version));
    let asked = asked.as_ref().and_then(|folder| folder.definition.orchestration.as_ref());
    input.insert("depth".to_owned(), own.depth_of_asked(depth, asked.unwrap_or(&usual)).into());
    let input = Value::Object(input);
    graph.check_input(&input)?;
    let mut output = ctx.call_named(call, &graph, SubgraphState::PerTask, input).await?;
    let answer = output.get_mut("answer").map(Value::take).unwrap_or_default();
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(fault_of(error).into()),
    }
}

/// The failure in the answer of an agent.
fn fault_of(error: &Value) -> Fault {
    let message = error["message"].as_str().unwrap_or("it failed");
    let fault = Fault::new(ErrorCode("W0102"), message);
    let code = error["code"].as_str().map_or_else(|| fault.code.clone(), str::to_owned);
    Fault { code, retriable: error["retriable"] == true, ..fault }
}

/// Names the agent that failed in the text of an error. An open question stays as it is.
pub(crate) fn naming(slug: &str, error: NodeError) -> NodeError {
    match error.try_into_fault() {
        Ok(fault) => {
            let message = format!("agent {slug}: {}", fault.message);
            Fault { message, ..fault }.into()
        }
        Err(question) => question,
    }
}
