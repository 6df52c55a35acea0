//! Tool calls for models without tool support: the prompt describes the tools, and a JSON schema
//! constrains the answer.
//!
//! There are two stages. First the model chooses: it writes one JSON object with either a tool and
//! its arguments or an answer. After a tool result it only reports the result as text. The tools
//! are not mentioned in that stage, because small models would call one again.
//!
//! The schema guarantees a valid call only if the server enforces it and the answer fits into the
//! token limit. Therefore every string in the schema has a maximum length.

use crate::ModelError;
use crate::chat::{ChatEvent, ChatRequest, ChatStream, FinishReason, ToolChoice};
use crate::words::stems;
use futures_util::{StreamExt as _, stream as streams};
use serde_json::{Map, Value, json};
use weftwork_types::message::{Message, Part, Role, content_text};
use weftwork_types::tool::ToolSpec;

/// Maximum length in characters of a string in an answer, for schemas without their own limit.
const STRING_CHARS_MAX: u64 = 400;

/// Name of the text answer in the schema. The second is used if a tool has the first as its name.
const ANSWER: [&str; 2] = ["answer", "answer_in_words"];

/// A request rewritten for a model without tool support.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    request: ChatRequest,
    stage: Stage,
    answer: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The answer is a JSON object with a tool call or a text.
    Choose,
    /// The answer is plain text.
    Words,
}

impl Form {
    /// Rewrites a request.
    #[must_use]
    pub(crate) fn of(request: &ChatRequest) -> Self {
        let is_after_result = request.messages.last().is_some_and(|last| last.role == Role::Tool);
        let offered = offered(request);
        if is_after_result
            && !matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
        {
            return Self { request: words_request(request), stage: Stage::Words, answer: None };
        }
        if offered.is_empty() {
            let messages = request.messages.iter().map(plain).collect();
            let request = ChatRequest { messages, tools: Vec::new(), ..request.clone() };
            return Self { request, stage: Stage::Words, answer: None };
        }
        let answer = Some(answer_name(&offered));
        Self { request: choose(request, &offered), stage: Stage::Choose, answer }
    }

    /// The request to send, without tools.
    #[must_use]
    pub(crate) fn request(&self) -> &ChatRequest {
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
    let answer = (request.tool_choice == ToolChoice::Auto).then(|| answer_name(tools));
    // The instructions are short on purpose. Measured on a small model, every further line cost
    // correct answers, and examples work better than descriptions.
    let mut text = String::from("Turn each request into a JSON tool call.");
    for tool in tools.iter().filter(|tool| tool.examples.is_empty()) {
        text.push_str(&format!("\n- {}: {}", tool.wire_name(), tool.description));
    }
    let mut messages = with_instructions(&request.messages, &text);
    // Examples go after the earlier messages: a small model repeats what it reads last.
    let start = messages.iter().rposition(|message| message.role == Role::User);
    let start = start.unwrap_or(messages.len());
    messages.splice(start..start, examples(request, tools, answer));
    ChatRequest {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        // A choice needs no variation.
        temperature: request.temperature.or(Some(0.0)),
        response_schema: Some(schema(tools, answer)),
        ..request.clone()
    }
}

/// The name of the text answer that no tool uses.
fn answer_name(tools: &[&ToolSpec]) -> &'static str {
    let taken = tools.iter().any(|tool| tool.wire_name() == ANSWER[0]);
    ANSWER[usize::from(taken)]
}

/// Returns one short example exchange per tool.
///
/// A small model tends to repeat what it reads last. The exchanges are therefore ordered by the
/// number of words they share with the request, the best match last. A greeting with a text answer
/// comes first, or last if no example matches.
fn examples(request: &ChatRequest, tools: &[&ToolSpec], answer: Option<&str>) -> Vec<Message> {
    let asked = request.messages.iter().rfind(|message| message.role == Role::User);
    let Some(asked) = asked else { return Vec::new() };
    let wanted = stems(&asked.joined_text());
    let exchange = |person: &str, reply: String| {
        [
            Message::text(asked.id.clone(), Role::User, person),
            Message::text(asked.id.clone(), Role::Assistant, reply),
        ]
    };
    let mut ranked: Vec<(usize, [Message; 2])> = tools
        .iter()
        .filter_map(|tool| {
            let example = tool.examples.first()?;
            let name = in_words(&tool.name);
            let own = stems(&format!("{} {name} {}", example.request, tool.description));
            let common = own.iter().filter(|stem| wanted.contains(stem)).count();
            let reply = call_text(&tool.wire_name(), &example.args);
            Some((common, exchange(&example.request, reply)))
        })
        .collect();
    ranked.sort_by_key(|(common, _)| *common);
    if let Some(name) = answer {
        let place =
            if ranked.last().is_some_and(|(common, _)| *common > 0) { 0 } else { ranked.len() };
        ranked.insert(place, (0, exchange("Hello!", call_text(name, &json!({"text": "Hello!"})))));
    }
    ranked.into_iter().flat_map(|(_, exchange)| exchange).collect()
}

/// Example requests, tools, results, and the sentences that report the results.
const ANSWERED: [(&str, &str, &str, &str); 4] = [
    (
        "When does the train to Bern leave?",
        "find train",
        "train: T4\nto: Bern\nstatus: late, leaves at 10:15\nprice: 12.5\npaid: 0",
        "Train T4 to Bern is late, and leaves at 10:15.",
    ),
    (
        "Book seat 12.",
        "book seat",
        "error_code: denied\nsafe_message: the train is full",
        "Seat 12 could not be booked: the train is full.",
    ),
    (
        "Cancel ticket T7.",
        "cancel ticket",
        "status: cancelled\nticket: T7",
        "Ticket T7 is cancelled.",
    ),
    ("How far is it?", "distance", "97.5", "It is 97.5."),
];

fn words_request(request: &ChatRequest) -> ChatRequest {
    let Some(last) = request.messages.last() else { return request.clone() };
    let asked = request.messages.iter().rfind(|message| message.role == Role::User);
    let after_question = request.messages.iter().rev().take_while(|m| m.role != Role::User);
    let mut results: Vec<String> = after_question
        .flat_map(|message| message.tool_results())
        .map(|result| result_text(&in_words(&result.name), &lines(&result.value)))
        .collect();
    results.reverse();
    let asked = asked.map(Message::joined_text).unwrap_or_default();
    let say = |role, text: String| Message::text(last.id.clone(), role, text);
    let systems = request.messages.iter().filter(|message| message.role == Role::System);
    let mut messages: Vec<Message> = systems.cloned().collect();
    for (asked, tool, result, answer) in ANSWERED {
        messages.push(say(Role::User, question(asked, &result_text(tool, result))));
        messages.push(say(Role::Assistant, answer.to_owned()));
    }
    messages.push(say(Role::User, question(&asked, &results.concat())));
    let messages = with_instructions(
        &messages,
        "Say in one short sentence what came of each request, from its result alone.",
    );
    ChatRequest {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        // A report needs no variation either.
        temperature: request.temperature.or(Some(0.0)),
        ..request.clone()
    }
}

fn question(asked: &str, results: &str) -> String {
    format!("Request: {asked}\n{results}What came of it, in one sentence?")
}

fn result_text(tool: &str, lines: &str) -> String {
    format!("Result of {tool}:\n{lines}\n")
}

/// A value as lines of text, which small models read better than JSON.
fn lines(value: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(text) = content_text(value, "not shown") {
        return text;
    }
    match value {
        Value::Object(map) => {
            let lines = map.iter().map(|(key, value)| format!("{key}: {}", word(value)));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => word(other),
    }
}

/// A tool's name as words.
fn in_words(name: &str) -> String {
    name.replace(['_', '/'], " ")
}

/// Adds instructions to the first system message, or as a new one.
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

/// A message with calls and results as text, for chat templates without tools.
fn plain(message: &Message) -> Message {
    let role = if message.role == Role::Tool { Role::User } else { message.role };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(Part::Text { text: call_text(&call.name, &call.args) }),
        Part::ToolResult(result) => {
            let value = content_text(&result.value, "not shown");
            let value = value.unwrap_or_else(|| result.value.to_string());
            let text = format!("Result of `{}`: {value}", result.name);
            Some(Part::Text { text })
        }
        Part::Reasoning { .. } => None,
        Part::Text { .. } | Part::Media(_) => Some(part.clone()),
    });
    Message::new(message.id.clone(), role, parts.collect())
}

/// A call in the form the model writes. The name comes first because it determines the arguments.
/// Commas and colons are followed by spaces, as in most training text.
fn call_text(name: &str, args: &Value) -> String {
    format!("{{\"tool\": {}, \"args\": {}}}", Value::from(name), spaced(args))
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// The schema of the choice: one alternative per tool, and one for a text answer.
fn schema(tools: &[&ToolSpec], answer: Option<&str>) -> Value {
    let form = |name: &str, args: Value| {
        json!({
            "type": "object",
            "properties": {"tool": {"const": name}, "args": args},
            "required": ["tool", "args"],
            "additionalProperties": false,
        })
    };
    let mut forms: Vec<Value> =
        tools.iter().map(|tool| form(&tool.wire_name(), bounded(&tool.parameters))).collect();
    if let Some(name) = answer {
        let text = json!({
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": STRING_CHARS_MAX}},
            "required": ["text"],
            "additionalProperties": false,
        });
        forms.push(form(name, text));
    }
    json!({"anyOf": forms})
}

/// The schema with a maximum length for every string.
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

/// Converts a model's choice into the events of a tool call or a text answer.
#[derive(Debug)]
pub(crate) struct FormReader {
    provider: String,
    answer: Option<&'static str>,
    text: String,
}

impl FormReader {
    /// Returns the events of an answer to [`Form::request`] as a model with tool support would emit
    /// them.
    #[must_use]
    pub(crate) fn read(form: Form, provider: &str, events: ChatStream) -> ChatStream {
        match form.stage {
            Stage::Words => events,
            Stage::Choose => {
                let reader = Self {
                    provider: provider.to_owned(),
                    answer: form.answer,
                    text: String::new(),
                };
                streams::unfold((reader, events), |(reader, events)| reader.next(events))
                    .flatten()
                    .boxed()
            }
        }
    }

    async fn next(mut self, mut events: ChatStream) -> Option<(ChatStream, (Self, ChatStream))> {
        let event = events.next().await?;
        let out = match event {
            Ok(ChatEvent::TextDelta(text)) => {
                self.text.push_str(&text);
                Vec::new()
            }
            Ok(ChatEvent::Finish { reason, provider_call_id }) => match self.read_choice(reason) {
                Ok((event, reason)) => {
                    vec![Ok(event), Ok(ChatEvent::Finish { reason, provider_call_id })]
                }
                Err(error) => vec![Err(error)],
            },
            other => vec![other],
        };
        Some((streams::iter(out).boxed(), (self, events)))
    }

    fn read_choice(
        &mut self,
        reason: FinishReason,
    ) -> Result<(ChatEvent, FinishReason), ModelError> {
        let text = std::mem::take(&mut self.text);
        let json: Option<Value> = serde_json::from_str(text.trim()).ok();
        let member = |name: &str| json.as_ref().and_then(|json| json.get(name));
        if let Some(Value::String(name)) = member("tool")
            && let Some(args) = member("args")
        {
            let words = args.get("text").and_then(Value::as_str);
            if let Some(words) = words.filter(|_| self.answer == Some(name)) {
                return Ok((ChatEvent::TextDelta(words.to_owned()), reason));
            }
            let call = ChatEvent::ToolCallDelta {
                index: 0,
                id: None,
                name: Some(name.clone()),
                args: args.to_string(),
            };
            return Ok((call, FinishReason::ToolCalls));
        }
        let provider = self.provider.clone();
        let is_cut = matches!(reason, FinishReason::Length | FinishReason::ContextLength);
        if is_cut && text.trim_start().starts_with('{') {
            return Err(ModelError::CutByLimit { provider, tool: cut_name(&text) });
        }
        if json.is_some() || text.trim_start().starts_with('{') {
            let shown: String = text.chars().take(80).collect();
            let reason = format!("expected a tool call or an answer as JSON, found `{shown}`");
            return Err(ModelError::Malformed { provider, reason, retriable: true });
        }
        // Servers that do not enforce the schema may answer in plain text.
        Ok((ChatEvent::TextDelta(text), reason))
    }
}

/// The name of the tool in a truncated choice; empty if it was cut off, too.
fn cut_name(text: &str) -> String {
    let name = text.split('"').nth(3).filter(|_| text.split('"').nth(1) == Some("tool"));
    name.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
