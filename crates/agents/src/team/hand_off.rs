//! Hand-offs: tools by which a model gives the conversation to a member of its team.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use weftwork_graph::List;
use weftwork_tools::FnTool;
use weftwork_types::message::{Message, Part};
use weftwork_types::tool::{AgentTools, wire_name};

/// The hand-off tools of a model: the member by the wire name of the tool.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandOffs(BTreeMap<String, String>);

/// A hand-off has no arguments: the member reads the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
struct NoArguments {}

impl HandOffs {
    /// Adds a member, and returns the tool that hands off to it.
    pub(crate) fn add(&mut self, member: &str, about: &str) -> FnTool {
        let name = format!("transfer_to_{member}");
        self.0.insert(wire_name(&name), member.to_owned());
        let description = match about {
            "" => format!("Hands the conversation to `{member}`."),
            about => format!("Hands the conversation to `{member}`: {about}."),
        };
        let handed = format!("the conversation is handed to {member}");
        FnTool::new(name, description, move |_: NoArguments, _| {
            std::future::ready(Ok::<_, String>(handed.clone()))
        })
    }

    /// Returns the member that a tool hands off to.
    pub(crate) fn member(&self, tool: &str) -> Option<&str> {
        self.0.get(tool).map(String::as_str)
    }

    /// Returns the tools that are not hand-offs.
    pub(crate) fn other_tools(&self, AgentTools(mut tools): AgentTools) -> AgentTools {
        tools.retain(|tool| self.member(&tool.spec.wire_name()).is_none());
        AgentTools(tools)
    }

    /// Returns the member to which the last message of the assistant handed the conversation. Of
    /// several hand-offs that succeeded, the last counts.
    pub(crate) fn taken(&self, messages: &List<Message>) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        self.taken_in(messages.iter())
    }

    /// The same for the messages of a member.
    pub(crate) fn taken_in<'a>(
        &self,
        messages: impl DoubleEndedIterator<Item = &'a Message>,
    ) -> Option<&str> {
        let ended = messages.rev().map_while(|message| message.tool_results().next());
        let mut taken = ended.filter(|result| !result.is_error);
        taken.find_map(|result| self.member(&result.name))
    }

    /// Returns a conversation without hand-offs: members do not have these tools.
    pub(crate) fn without<'a>(&self, messages: impl Iterator<Item = &'a Message>) -> Vec<Message> {
        messages.filter_map(|message| self.reduced(message, |_| true)).collect()
    }

    /// Returns a message without those hand-offs of which `drops` is true, by the id of the call;
    /// `None` if nothing else is in it.
    pub(crate) fn reduced(
        &self,
        message: &Message,
        drops: impl Fn(&str) -> bool,
    ) -> Option<Message> {
        let dropped = |part: &Part| match part {
            Part::ToolCall(call) => self.member(&call.name).is_some() && drops(call.id.as_str()),
            Part::ToolResult(result) => {
                self.member(&result.name).is_some() && drops(result.tool_call_id.as_str())
            }
            _ => false,
        };
        if !message.parts.iter().any(dropped) {
            return Some(message.clone());
        }
        let mut message = message.clone();
        message.parts.retain(|part| !dropped(part));
        let says = |part: &Part| match part {
            Part::Text { text } => !text.trim().is_empty(),
            Part::Reasoning { .. } => false,
            _ => true,
        };
        message.parts.iter().any(says).then_some(message)
    }
}
