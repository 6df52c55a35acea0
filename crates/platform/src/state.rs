//! The state of the threads of all defined agents.

use crate::mode::RequestError;
use serde_json::{Value, json};
use weftwork_graph::{List, NodeResult, State};
use weftwork_types::CallChain;
use weftwork_types::call_chain::BadCallChain;
use weftwork_types::message::{Message, Role};

/// The state of an agent that is defined in a file: all have the same one, so that a thread can be
/// continued by another agent, or by another version of its own.
#[derive(Debug, State)]
pub struct AgentState {
    /// The conversation, oldest first.
    #[channel(messages)]
    pub messages: List<Message>,
    /// Mode of the request; by default the first one of the agent.
    #[channel(ephemeral)]
    pub mode: String,
    /// Details of the request, as `types::task::Payload` has them.
    #[channel(ephemeral)]
    pub payload: Value,
    /// Number of agents that asked one another before this one, or more if the `maxDepth` of one of them
    /// leaves fewer than its own. A request that claims one leaves fewer.
    #[channel(ephemeral)]
    pub depth: u64,
    /// List of the names of the agents that asked one another before this one, as `SLUG@VERSION`, also on
    /// other servers.
    #[channel(ephemeral)]
    pub ancestors: Value,
    /// List of the steps of orchestrations around this agent, from the outside in.
    #[channel(ephemeral)]
    pub path: Value,
    /// Input of the agent, as its `input_schema` describes it.
    #[channel(ephemeral)]
    pub input: Value,
    /// Progress of the orchestration of the run; null without one.
    #[channel(reduce = crate::orchestration::merge)]
    pub orchestration: Value,
    /// Answer of the last run: its mode, its content, and what is known of it.
    #[channel(last_value)]
    pub answer: Value,
}

/// Returns the agents that asked one another before this one.
///
/// # Errors
/// W1033 if the list has another form, or more names than a chain may have.
pub(crate) fn chain_of(state: &State<AgentState>) -> NodeResult<CallChain> {
    let depth = state.depth().copied().unwrap_or_default();
    let agents = state.ancestors().filter(|names| !names.is_null()).cloned();
    let agents = agents.unwrap_or_else(|| Value::Array(Vec::new()));
    let chain = CallChain::read(&json!({"depth": depth, "agents": agents}));
    let wrong = |error: BadCallChain| RequestError::Member {
        member: "ancestors",
        found: "another value".to_owned(),
        expected: format!("a list of names ({error})"),
    };
    Ok(chain.map_err(|error| wrong(error).fault())?)
}

/// Returns the last message of the user.
pub(crate) fn last_request(state: &State<AgentState>) -> Option<&Message> {
    state.messages().iter().rev().find(|message| message.role == Role::User)
}
