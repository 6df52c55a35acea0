//! Agents that an agent asks, within its run.

use crate::agent::Agent;
use crate::definition::Orchestration;
use crate::mode::RequestError;
use crate::source::AGENTS;
use serde_json::{Map, Value};
use weftwork_graph::{Ctx, NodeError, NodeResult, Once, SubgraphState};
use weftwork_types::code::{Fault, FaultDetails};
use weftwork_types::task::AgentFailure;
use weftwork_types::{CallChain, ErrorCode, RunId};

/// Most failures of other agents that an error names.
const FAILURES_MAX: usize = 50;

/// A request of an agent to another one.
#[derive(Debug)]
pub(crate) struct SubRequest<'a> {
    /// Name of the call, which no other call of the task has.
    pub(crate) call: &'a str,
    /// Slug of the agent that is asked.
    pub(crate) slug: &'a str,
    /// Input of its graph, without the agents that asked one another.
    pub(crate) input: Map<String, Value>,
    /// Meaning of a request without the member `input`.
    pub(crate) no_input: NoInput,
    /// Agents that asked one another before the one that asks.
    pub(crate) chain: CallChain,
}

/// Meaning of a request without an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoInput {
    /// The message is all that there is, as in a chat.
    Chat,
    /// An agent with a schema of its input gets an empty one, which has to fit it.
    Empty,
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
    let SubRequest { call, slug, mut input, no_input, chain } = request;
    let depth = chain.depth;
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
    let asked = asked.as_ref().map(|folder| &folder.definition);
    let has_schema = asked.is_some_and(|of| of.input_schema.is_some());
    if no_input == NoInput::Empty && has_schema && !input.contains_key("input") {
        input.insert("input".to_owned(), Value::Object(Map::new()));
    }
    let asked = asked.and_then(|of| of.orchestration.as_ref()).unwrap_or(&usual);
    let CallChain { depth, agents } = chain.asking(agent.id(), own.depth_of_asked(depth, asked));
    input.insert("depth".to_owned(), depth.into());
    input.insert("ancestors".to_owned(), agents.into());
    let input = Value::Object(input);
    graph.check_input(&input)?;
    let mut output = ctx.call_named(call, &graph, SubgraphState::PerTask, input).await?;
    let answer = output.get_mut("answer").map(Value::take).unwrap_or_default();
    match fault_in(&answer) {
        None => Ok(answer),
        Some(fault) => Err(fault.into()),
    }
}

/// Returns the failure in the answer of an agent.
pub(crate) fn fault_in(answer: &Value) -> Option<Fault> {
    let error = answer.get("error")?;
    let message = error["message"].as_str().unwrap_or("it failed");
    let fault = Fault::new(ErrorCode("W0102"), message);
    let code = error["code"].as_str().map_or_else(|| fault.code.clone(), str::to_owned);
    let failures = answer.pointer("/metadata/failures").cloned().unwrap_or_default();
    let agent_failures: Vec<_> = serde_json::from_value(failures).unwrap_or_default();
    let details = (!agent_failures.is_empty())
        .then(|| Box::new(FaultDetails { agent_failures, ..FaultDetails::default() }));
    Some(Fault { code, retriable: error["retriable"] == true, details, ..fault })
}

/// A request that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedRequest<'a> {
    /// Slug of the agent that was asked.
    pub(crate) agent: &'a str,
    /// Step of the asking agent.
    pub(crate) step: &'a str,
    /// Number of the attempt, from 1.
    pub(crate) attempt: u32,
}

impl FailedRequest<'_> {
    /// Describes the failure of the request.
    pub(crate) fn failure(self, fault: &Fault, run: Option<&RunId>) -> AgentFailure {
        AgentFailure {
            agent: self.agent.to_owned(),
            step: self.step.to_owned(),
            attempt: self.attempt,
            code: fault.code.clone(),
            safe_message: fault.message.clone(),
            retriable: fault.retriable,
            cause_id: run.cloned(),
        }
    }

    /// The failure of the asking agent that follows from it. An open question stays as it is.
    pub(crate) fn fails_with(self, error: NodeError, ctx: &Ctx) -> NodeError {
        let fault = match error.try_into_fault() {
            Ok(fault) => fault,
            Err(question) => return question,
        };
        let mut agent_failures = led_to(&fault);
        agent_failures.push(self.failure(&fault, run_of(ctx)));
        let message = format!("agent {}: {}", self.agent, fault.message);
        let mut details = fault.details.unwrap_or_default();
        details.agent_failures = agent_failures;
        Fault { message, details: Some(details), ..fault }.into()
    }
}

/// Returns the failures of other agents that led to a failure, the last ones of many.
pub(crate) fn led_to(fault: &Fault) -> Vec<AgentFailure> {
    let led = fault.details.as_ref().map(|details| details.agent_failures.as_slice());
    let led = led.unwrap_or_default();
    led.iter().skip(led.len().saturating_sub(FAILURES_MAX)).cloned().collect()
}

/// Returns the run of a node.
pub(crate) fn run_of(ctx: &Ctx) -> Option<&RunId> {
    ctx.calls().origin.run().map(|caller| &caller.run)
}
