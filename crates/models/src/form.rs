//! Tools for models that know no tools: words in the prompt, and an answer held to a JSON schema.
//!
//! It takes two stages. First the model chooses: it writes one JSON object that names a tool and
//! its arguments, or an answer. After a result it only tells what came of it, in words; then the
//! tools are not mentioned at all, because small models would call one again.
//!
//! The schema makes the call valid only where the server enforces it and where the token limit
//! leaves room, which is why every string in it has a longest length.

use crate::ModelError;
use crate::chat::{ChatEvent, ChatRequest, ChatStream, FinishReason, ToolChoice};
use futures_util::{StreamExt as _, stream as streams};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Message, Part, Role};
use weftwork_types::tool::ToolSpec;

/// The longest string an answer may hold, in characters, where a tool's schema names none.
const STRING_CHARS_MAX: u64 = 400;

/// A request rewritten for a model that knows no tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    request: ChatRequest,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The answer is a JSON object that chooses.
    Choose,
    /// The answer is words.
    Tell,
}

impl Form {
    /// Rewrites a request.
    #[must_use]
    pub fn of(request: &ChatRequest) -> Self {
        let told = request.messages.last().is_some_and(|last| last.role == Role::Tool);
        let offered = offered(request);
        if told && !matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_)) {
            return Self { request: tell(request), stage: Stage::Tell };
        }
        if offered.is_empty() {
            let messages = request.messages.iter().map(plain).collect();
            // A choice that demands a tool stays, so that it is refused by name further on.
            let request = ChatRequest { messages, tools: Vec::new(), ..request.clone() };
            return Self { request, stage: Stage::Tell };
        }
        Self { request: choose(request, &offered), stage: Stage::Choose }
    }

    /// The request to send: without tools.
    #[must_use]
    pub fn request(&self) -> &ChatRequest {
        &self.request
    }
}

fn offered(request: &ChatRequest) -> Vec<&ToolSpec> {
    let tools = request.tools.iter();
    match &request.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Named(name) => tools.filter(|tool| tool.wire_name() == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.collect(),
    }
}

fn choose(request: &ChatRequest, tools: &[&ToolSpec]) -> ChatRequest {
    let may_answer = request.tool_choice == ToolChoice::Auto;
    let mut text = String::from(
        "Choose what to do and write one JSON object, nothing else.\n\
         To use a tool: {\"tool\": NAME, \"args\": {...}}\n",
    );
    if may_answer {
        text.push_str("To answer yourself: {\"answer\": TEXT}\n");
    }
    text.push_str("\nTools:\n");
    for tool in tools {
        text.push_str(&format!("- {}: {}\n", tool.wire_name(), tool.description));
    }
    text.push_str("\nExamples:\n");
    for tool in tools {
        if let Some(example) = tool.examples.first() {
            let call = call_text(&tool.wire_name(), &example.args);
            text.push_str(&format!("Person: {}\nYou: {call}\n", example.request));
        }
    }
    if may_answer {
        // Last on purpose: a small model leans towards the example it read last.
        text.push_str("Person: Hello!\nYou: {\"answer\":\"Hello! What can I do for you?\"}\n");
    }
    let messages = with_instructions(&request.messages, &text);
    ChatRequest {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        response_schema: Some(schema(tools, may_answer)),
        ..request.clone()
    }
}

fn tell(request: &ChatRequest) -> ChatRequest {
    let asked = request.messages.iter().rev().find(|message| message.role == Role::User);
    let mut text = asked.map(|message| format!("Request: {}\n", message.joined_text()));
    let after_question = request.messages.iter().rev().take_while(|m| m.role != Role::User);
    let mut results: Vec<String> = after_question
        .flat_map(|message| message.tool_results())
        .map(|result| format!("Result of `{}`: {}\n", result.name, result.value))
        .collect();
    results.reverse();
    let text = text.get_or_insert_default();
    text.push_str(&results.concat());
    let systems = request.messages.iter().filter(|message| message.role == Role::System);
    let mut messages: Vec<Message> = systems.cloned().collect();
    if let Some(last) = request.messages.last() {
        messages.push(Message::text(last.id.clone(), Role::User, text.as_str()));
    }
    let messages = with_instructions(
        &messages,
        "Tell the person in one short sentence what came of the request. Use only the result.",
    );
    ChatRequest {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        ..request.clone()
    }
}

/// The messages with more instructions: in the first system message, or in a new one.
fn with_instructions(messages: &[Message], text: &str) -> Vec<Message> {
    let mut out: Vec<Message> = messages.iter().map(plain).collect();
    match out.first_mut() {
        Some(first) if first.role == Role::System => {
            let text = format!("{}\n\n{text}", first.joined_text());
            first.parts = vec![Part::Text { text }];
        }
        Some(first) => {
            let system = Message::text(first.id.clone(), Role::System, text);
            out.insert(0, system);
        }
        None => {}
    }
    out
}

/// A message without calls and results, which the model's template would not know.
fn plain(message: &Message) -> Message {
    let role = if message.role == Role::Tool { Role::User } else { message.role };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(Part::Text { text: call_text(&call.name, &call.args) }),
        Part::ToolResult(result) => {
            let text = format!("Result of `{}`: {}", result.name, result.value);
            Some(Part::Text { text })
        }
        Part::Reasoning { .. } => None,
        Part::Text { .. } | Part::Media(_) => Some(part.clone()),
    });
    Message { id: message.id.clone(), role, parts: parts.collect() }
}

fn call_text(name: &str, args: &Value) -> String {
    // The name comes first: it decides what the arguments can be.
    format!("{{\"tool\":{},\"args\":{args}}}", Value::from(name))
}

/// The schema of the choice: one form per tool, and one for an answer in words.
fn schema(tools: &[&ToolSpec], may_answer: bool) -> Value {
    let mut forms: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({
                "type": "object",
                "properties": {"tool": {"const": tool.wire_name()}, "args": bounded(&tool.parameters)},
                "required": ["tool", "args"],
                "additionalProperties": false,
            })
        })
        .collect();
    if may_answer {
        forms.push(json!({
            "type": "object",
            "properties": {"answer": {"type": "string", "maxLength": STRING_CHARS_MAX}},
            "required": ["answer"],
            "additionalProperties": false,
        }));
    }
    json!({"anyOf": forms})
}

/// A schema in which every string has a longest length.
fn bounded(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut out: Map<String, Value> =
                map.iter().map(|(key, value)| (key.clone(), bounded(value))).collect();
            let free = !["maxLength", "enum", "const"].iter().any(|key| map.contains_key(*key));
            if free && map.get("type") == Some(&Value::from("string")) {
                out.insert("maxLength".to_owned(), STRING_CHARS_MAX.into());
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(bounded).collect(),
        scalar => scalar.clone(),
    }
}

/// Reads a model's choice back into the events of a tool call or an answer.
#[derive(Debug)]
pub struct FormReader {
    provider: String,
    text: String,
}

impl FormReader {
    /// The events of an answer to [`Form::request`], as if the model knew tools.
    #[must_use]
    pub fn read(form: Form, provider: &str, events: ChatStream) -> ChatStream {
        match form.stage {
            Stage::Tell => events,
            Stage::Choose => {
                let reader = Self { provider: provider.to_owned(), text: String::new() };
                streams::unfold((reader, events), Self::next).flatten().boxed()
            }
        }
    }

    async fn next(
        (mut reader, mut events): (Self, ChatStream),
    ) -> Option<(ChatStream, (Self, ChatStream))> {
        let event = events.next().await?;
        let out = match event {
            Ok(ChatEvent::TextDelta(text)) => {
                reader.text.push_str(&text);
                Vec::new()
            }
            Ok(ChatEvent::Finish { reason, provider_call_id }) => match reader.choice(reason) {
                Ok((event, reason)) => {
                    vec![Ok(event), Ok(ChatEvent::Finish { reason, provider_call_id })]
                }
                Err(error) => vec![Err(error)],
            },
            other => vec![other],
        };
        Some((streams::iter(out).boxed(), (reader, events)))
    }

    fn choice(&mut self, reason: FinishReason) -> Result<(ChatEvent, FinishReason), ModelError> {
        let text = std::mem::take(&mut self.text);
        let json: Option<Value> = serde_json::from_str(text.trim()).ok();
        if let Some(Value::Object(map)) = &json {
            if let Some(answer) = map.get("answer").and_then(Value::as_str) {
                return Ok((ChatEvent::TextDelta(answer.to_owned()), reason));
            }
            if let (Some(name), Some(args)) =
                (map.get("tool").and_then(Value::as_str), map.get("args"))
            {
                let (name, args) = (Some(name.to_owned()), args.to_string());
                let call = ChatEvent::ToolCallDelta { index: 0, id: None, name, args };
                return Ok((call, FinishReason::ToolCalls));
            }
        }
        let provider = self.provider.clone();
        if reason == FinishReason::Length && text.trim_start().starts_with('{') {
            return Err(ModelError::CutByLimit { provider, tool: cut_name(&text) });
        }
        if json.is_some() || text.trim_start().starts_with('{') {
            let shown: String = text.chars().take(80).collect();
            let reason = format!("expected a tool call or an answer as JSON, found `{shown}`");
            return Err(ModelError::Malformed { provider, reason });
        }
        // A server that does not hold its answers to a schema answers in words.
        Ok((ChatEvent::TextDelta(text), reason))
    }
}

/// The tool that a cut choice had named.
fn cut_name(text: &str) -> String {
    let name = text.split('"').nth(3).filter(|_| text.trim_start().starts_with("{\"tool\""));
    name.unwrap_or("an unnamed tool").to_owned()
}

#[cfg(test)]
mod tests;
