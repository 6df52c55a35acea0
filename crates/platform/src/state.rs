//! The state of the threads of all defined agents.

use serde_json::Value;
use weftwork_graph::{List, State};
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

/// Returns the last message of the user.
pub(crate) fn last_request(state: &State<AgentState>) -> Option<&Message> {
    state.messages().iter().rev().find(|message| message.role == Role::User)
}
