//! A member of a team: a graph that takes part in a conversation.

use crate::error::{AgentError, no_answer};
use crate::evaluate::HostedPrompt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weftwork_graph::{CompiledGraph, Ctx, NodeResult, SubgraphState};
use weftwork_types::message::{Message, Role};

/// The channel with the conversation.
pub(crate) const MESSAGES: &str = "messages";

/// A graph with a conversation. Its name is that of the graph.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    graph: CompiledGraph,
}

/// The work of a member.
#[derive(Debug)]
pub(crate) struct Work {
    /// The messages that the member added, in order.
    pub(crate) messages: Vec<Message>,
    /// The output of its graph, without the messages.
    pub(crate) output: Value,
}

impl Member {
    /// Creates a member, whose graph must have a conversation.
    pub(crate) fn new(graph: CompiledGraph, role: &'static str) -> Result<Self, AgentError> {
        if !graph.holds_messages(MESSAGES) {
            return Err(AgentError::NoConversation { graph: graph.name().to_owned(), role });
        }
        if let Some(prompt) = graph.dependencies().get::<HostedPrompt>()
            && let Some(problem) = prompt.problem_without_params()
        {
            return Err(AgentError::Option { agent: graph.name().to_owned(), problem });
        }
        Ok(Self { graph })
    }

    pub(crate) fn name(&self) -> &str {
        self.graph.name()
    }

    pub(crate) fn graph(&self) -> &CompiledGraph {
        &self.graph
    }

    /// Runs the member on a conversation.
    pub(crate) async fn work(&self, ctx: &Ctx, conversation: &[Message]) -> NodeResult<Work> {
        let input = json!({ MESSAGES: conversation });
        let output = ctx.call(&self.graph, SubgraphState::PerTask, input).await?;
        added_work(output, conversation)
    }
}

/// Takes the messages that are not of the conversation out of the output of a graph.
pub(crate) fn added_work(mut output: Value, conversation: &[Message]) -> NodeResult<Work> {
    let known: BTreeSet<&str> = conversation.iter().map(|message| message.id.as_str()).collect();
    let messages = output.get_mut(MESSAGES).map(Value::take).unwrap_or_default();
    let messages: Option<Vec<Message>> = serde_json::from_value(messages)?;
    let mut messages = messages.unwrap_or_default();
    messages.retain(|message| !known.contains(message.id.as_str()));
    Ok(Work { messages, output })
}

impl Work {
    /// Returns the last message of the assistant that has text.
    pub(crate) fn answer(&self, graph: &str) -> NodeResult<&Message> {
        let says = |message: &&Message| {
            message.role == Role::Assistant && !message.joined_text().trim().is_empty()
        };
        Ok(self.messages.iter().rev().find(says).ok_or_else(|| no_answer(graph))?)
    }

    /// Describes the calls of an agent that is left open, in their shown form; `None` if it made none.
    pub(crate) fn calls_left_open(&self, agent: &str) -> Option<String> {
        let shown: Vec<Message> = self.messages.iter().cloned().map(Message::into_shown).collect();
        let results = || shown.iter().flat_map(Message::tool_results);
        let calls = shown.iter().flat_map(Message::tool_calls).map(|call| {
            let result = results().find(|result| result.tool_call_id == call.id);
            json!({"tool": call.name, "args": call.args, "result": result.map(|r| &r.value)})
        });
        let calls: Vec<Value> = calls.collect();
        let listed = json!(calls);
        let text =
            || format!("agent `{agent}` was left open before it answered; its calls: {listed}");
        (!calls.is_empty()).then(text)
    }
}

/// Checks the names of the members of a team: they are nodes of its graph.
pub(crate) fn check_names<'a>(
    team: &str,
    members: impl IntoIterator<Item = &'a str>,
    taken: &[&str],
) -> Result<(), AgentError> {
    let mut known = BTreeSet::new();
    for member in members {
        let problem = match member {
            _ if taken.contains(&member) => "a node of the team has this name",
            _ if !known.insert(member) => "another member has this name",
            _ => continue,
        };
        return Err(AgentError::MemberName {
            team: team.to_owned(),
            member: member.to_owned(),
            problem,
        });
    }
    Ok(())
}
