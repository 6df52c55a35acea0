//! The words and calls since the person's last message.

use super::copy::Said;
use serde_json::{Map, Value};
use weftwork_models::ChatRequest;
use weftwork_types::message::{Message, Role, ToolCall, ToolResult};
use weftwork_types::tool::ToolSpec;

/// The tool that asks the person.
const ASK: &str = "ask_human";
/// Number of times that a question may be asked before the answer names the missing value.
const ASKED_MAX: usize = 2;
/// Number of tools that an answer names.
const TOOLS_NAMED_MAX: usize = 6;

/// A request, with its calls and results so far.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// The person's words.
    pub(super) request: String,
    /// The calls made for it, without questions.
    pub(super) made: Vec<&'a ToolCall>,
    /// Their results.
    pub(super) results: Vec<&'a ToolResult>,
    /// Questions to the person since the last other call, with the answers.
    asked: Vec<(&'a str, Option<String>)>,
    said: Said,
}

impl<'a> Turn<'a> {
    pub(super) fn of(request: &'a ChatRequest) -> Option<Self> {
        let messages = &request.messages;
        let at = messages.iter().rposition(|message| message.role == Role::User)?;
        let (before, since) = messages.split_at(at + 1);
        let text = messages[at].joined_text();
        let mut earlier: Vec<String> = before[..at].iter().rev().filter_map(words).collect();
        let mut made = Vec::new();
        let mut asked = Vec::new();
        let results: Vec<&ToolResult> = since.iter().flat_map(Message::tool_results).collect();
        for call in since.iter().flat_map(Message::tool_calls) {
            if call.name != ASK {
                made.push(call);
                asked.clear();
                continue;
            }
            let answer = results.iter().find(|result| result.tool_call_id == call.id);
            let answer = answer.filter(|result| !result.is_error).map(|r| answer_text(&r.value));
            asked.push((call.args["question"].as_str().unwrap_or_default(), answer));
        }
        let known = known(messages, earlier.iter().chain([&text]));
        earlier.truncate(8);
        let said = Said { request: text.clone(), earlier, known, ..Said::default() };
        let results = results.into_iter().filter(|result| result.name != ASK).collect();
        Some(Self { request: text, made, results, asked, said })
    }

    /// The words that a call of a tool may copy.
    pub(super) fn said(&self, tool: &ToolSpec) -> Said {
        let answers = self.asked.iter().filter_map(|(question, answer)| {
            let args = tool.parameters.get("properties")?.as_object()?;
            let name = args.keys().find(|name| self::question(tool, name) == *question)?;
            Some((name.clone(), answer.clone()?))
        });
        Said { answers: answers.collect(), ..self.said.clone() }
    }

    /// The tool whose argument the person was asked for.
    pub(super) fn waiting(&self, tools: &[ToolSpec]) -> Option<usize> {
        let (last, _) = self.asked.last()?;
        tools.iter().position(|tool| {
            let args = tool.parameters.get("properties").and_then(Value::as_object);
            args.into_iter().flat_map(|map| map.keys()).any(|name| question(tool, name) == *last)
        })
    }

    /// `true` if the person may be asked this question again.
    pub(super) fn may_ask(&self, question: &str) -> bool {
        self.asked.iter().filter(|(asked, _)| *asked == question).count() < ASKED_MAX
    }

    /// `true` if exactly this call was made.
    pub(super) fn has_made(&self, tool: &ToolSpec, args: &Value) -> bool {
        self.made.iter().any(|call| call.name == tool.wire_name() && call.args == *args)
    }
}

/// Returns `true` if a tool asks the person.
pub(super) fn asks(tool: &ToolSpec) -> bool {
    tool.name == ASK
}

/// The question for an argument.
pub(super) fn question(tool: &ToolSpec, argument: &str) -> String {
    format!("Which {} should I use for {}?", plain(argument), plain(&tool.wire_name()))
}

/// The sentence with the missing arguments, if the person cannot be asked.
pub(super) fn lack<'a>(tool: &ToolSpec, missing: impl Iterator<Item = &'a str>) -> String {
    let missing: Vec<String> = missing.map(plain).collect();
    format!("To use {} I need: {}.", plain(&tool.wire_name()), missing.join(", "))
}

/// The sentence for a request that no tool is for: the tools, one of their examples, and the advice to
/// take a larger model.
pub(super) fn no_tool(tools: &[ToolSpec]) -> String {
    let own: Vec<&ToolSpec> = tools.iter().filter(|tool| !asks(tool)).collect();
    let names: Vec<String> = own.iter().map(|tool| words_of(tool.wire_name())).collect();
    let shown = names.iter().take(TOOLS_NAMED_MAX).map(String::as_str).collect::<Vec<_>>();
    let more = if names.len() > shown.len() { " and others" } else { "" };
    if shown.is_empty() {
        return "I have no tool for that, and a larger model chats better.".to_owned();
    }
    let example = own.iter().flat_map(|tool| &tool.examples).next();
    let example = example.map(|example| format!(", for example “{}”", example.request));
    format!(
        "I can only use my tools ({}{more}){}, and a larger model chats better.",
        shown.join(", "),
        example.unwrap_or_default()
    )
}

fn words_of(name: String) -> String {
    name.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn plain(name: &str) -> String {
    name.replace('_', " ")
}

/// The person's words in a message, if there are any.
fn words(message: &Message) -> Option<String> {
    match message.role {
        Role::User => Some(message.joined_text()),
        Role::Tool => {
            let answer = message.tool_results().find(|result| result.name == ASK)?;
            Some(answer_text(&answer.value))
        }
        _ => None,
    }
}

/// A person's answer as words; tools return it as a text or as an object with a text.
fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => map.values().map(answer_text).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// The texts of earlier calls that are in the person's words, the latest of each argument.
fn known<'t>(
    messages: &[Message],
    said: impl Iterator<Item = &'t String> + Clone,
) -> Map<String, Value> {
    let calls = messages.iter().flat_map(Message::tool_calls).filter(|call| call.name != ASK);
    let was_said = |value: &Value| {
        value.as_str().is_some_and(|text| {
            let text = text.to_lowercase();
            said.clone().any(|words| words.to_lowercase().contains(&text))
        })
    };
    let args = calls.filter_map(|call| call.args.as_object()).flatten();
    args.filter(|(_, value)| was_said(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
