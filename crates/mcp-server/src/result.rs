//! Results of calls.

use crate::call_runs::CallRuns;
use crate::peer::{Era, Peer};
use crate::question::{answer_text, elicitation};
use crate::tool::Tool;
use serde_json::{Map, Value, json};
use weftwork_types::event::BegunCalls;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::TurnRun;
use weftwork_types::run::RunOutcome;

/// Member of `_meta` with the id of the run.
const RUN: &str = "weftwork/run";
/// Member of `_meta` with the id of the conversation.
const CONVERSATION: &str = "weftwork/conversation";
/// The subject of texts about a cancellation.
const CALL: &str = "the call";

/// A tool, one of its calls, and the client that sees the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) call: &'a CallRuns,
    pub(crate) peer: &'a Peer,
}

impl Shown<'_> {
    /// The result of a call that has ended. `begun` are its calls of tools without a known outcome.
    pub(crate) fn outcome(&self, outcome: &RunOutcome, begun: &BegunCalls) -> Value {
        match outcome {
            RunOutcome::Completed { output } => self.completed(&output["answer"]),
            RunOutcome::Failed { fault } => self.failed(&fault.message, &fault.code),
            RunOutcome::LimitReached { step_limit } => {
                self.failed(&format!("the run reached its limit of {step_limit} supersteps"), "")
            }
            RunOutcome::Cancelled { .. } => self.failed(&cancelled(self.call, begun), ""),
            RunOutcome::Interrupted { .. } => self.failed("the run was stopped", ""),
        }
    }

    /// The result of a call whose question was dismissed.
    pub(crate) fn dismissed(&self, begun: &BegunCalls) -> Value {
        self.failed(&begun.cancelled_at_wait(CALL), "")
    }

    fn completed(&self, answer: &Value) -> Value {
        if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
            let text = |name: &str| error[name].as_str().unwrap_or_default();
            return self.failed(text("message"), text("code"));
        }
        let content = &answer["content"];
        let mut result = json!({"content": contents_of(content), "isError": false});
        if let Some(structured) = self.structured(content) {
            result["structuredContent"] = structured;
        }
        self.with_meta(result)
    }

    /// Returns the structured content, if the tool has a schema for it.
    fn structured(&self, content: &Value) -> Option<Value> {
        self.tool.output_schema(self.peer.era)?;
        if !self.tool.declares_output() {
            return Some(json!({"answer": content, "conversation": self.call.conversation()}));
        }
        (self.peer.era == Era::Modern || content.is_object()).then(|| content.clone())
    }

    fn failed(&self, message: &str, code: &str) -> Value {
        let mut result = refusal(message);
        if !code.is_empty() {
            result["_meta"] = json!({"weftwork/code": code});
        }
        self.with_meta(result)
    }

    /// The result of a call that asks a client which cannot put questions to a person.
    pub(crate) fn asks_in_text(&self, questions: &[Interrupt]) -> Value {
        let texts: Vec<_> = questions.iter().map(|question| question.ask.to_string()).collect();
        let question = texts.join("\n\n");
        let is_text = matches!(questions, [question] if answer_text(question, "").is_some());
        let conversation = self.call.conversation();
        let how = match is_text && !self.tool.declares_input() {
            true => format!("Answer by a call with the conversation {conversation}."),
            false => {
                let thread = &self.call.last().at.thread;
                format!(
                    "A person answers it in the thread {thread} on the page of the server, or by \
                     `weft threads resume {thread}`."
                )
            }
        };
        let mut result = json!({
            "content": [{"type": "text", "text": format!("The agent asks: {question}\n\n{how}")}],
            "isError": self.tool.declares_output(),
        });
        if !self.tool.declares_output() {
            result["structuredContent"] = json!({"answer": question, "conversation": conversation});
        }
        self.with_meta(result)
    }

    fn with_meta(&self, mut result: Value) -> Value {
        result["_meta"][RUN] = self.call.id().into();
        result["_meta"][CONVERSATION] = self.call.conversation().into();
        result
    }
}

/// The text of a call that was cancelled.
pub(crate) fn cancelled(call: &CallRuns, begun: &BegunCalls) -> String {
    match call.cancelled_at() {
        Some(_) => begun.cancelled_at_wait(CALL),
        None => begun.cancelled_in_progress(CALL),
    }
}

/// The result of a call that was refused, for the model that made it.
pub(crate) fn refusal(message: &str) -> Value {
    json!({"content": [{"type": "text", "text": message}], "isError": true})
}

/// The result that asks a client of the newer version.
pub(crate) fn input_required(run: &TurnRun, questions: &[Interrupt], state: &str) -> Value {
    json!({
        "resultType": "input_required",
        "inputRequests": input_requests(questions),
        "requestState": state,
        "_meta": {RUN: run.at.run, CONVERSATION: run.conversation},
    })
}

/// Returns the requests for input by the ids of their questions.
pub(crate) fn input_requests(questions: &[Interrupt]) -> Map<String, Value> {
    let request = |question: &Interrupt| json!({"method": "elicitation/create", "params": elicitation(question)});
    questions.iter().map(|question| (question.id.to_string(), request(question))).collect()
}

/// Returns the content of an answer: a text, files, or JSON in a text.
fn contents_of(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text_content(text)],
        Value::Array(list) if !list.is_empty() => {
            let parts: Option<Vec<_>> = list.iter().map(part_of).collect();
            parts.unwrap_or_else(|| vec![text_content(&content.to_string())])
        }
        other => vec![part_of(other).unwrap_or_else(|| text_content(&other.to_string()))],
    }
}

fn text_content(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the content of an object `{type: text, text}` or `{type: media, media_type, url, name}`.
fn part_of(value: &Value) -> Option<Value> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    match text("type")? {
        "text" => text("text").map(text_content),
        "media" => Some(file(text("url")?, text("media_type")?, text("name").unwrap_or_default())),
        _ => None,
    }
}

/// Returns the content of a file: its bytes in Base64, or its address.
fn file(url: &str, media_type: &str, name: &str) -> Value {
    let Some((_, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
    else {
        let name = if name.is_empty() { url } else { name };
        return json!({"type": "resource_link", "uri": url, "name": name, "mimeType": media_type});
    };
    match media_type.split_once('/') {
        Some(("image", _)) => json!({"type": "image", "data": data, "mimeType": media_type}),
        Some(("audio", _)) => json!({"type": "audio", "data": data, "mimeType": media_type}),
        _ => {
            let name = if name.is_empty() { "file" } else { name };
            let uri = format!("weftwork://answer/{}", encode_name(name));
            json!({"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "blob": data}})
        }
    }
}

/// Encodes the name of a file for an address.
fn encode_name(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_text_files_or_json() {
        let media =
            |kind: &str, url: &str| json!({"type": "media", "media_type": kind, "url": url});
        for (content, expected) in [
            (json!(null), json!([])),
            (json!("a"), json!([{"type": "text", "text": "a"}])),
            (json!({"a": 1}), json!([{"type": "text", "text": "{\"a\":1}"}])),
            (json!([1]), json!([{"type": "text", "text": "[1]"}])),
            (json!([]), json!([{"type": "text", "text": "[]"}])),
            (
                json!([{"type": "text", "text": "b"}, media("image/png", "data:image/png;base64,AA==")]),
                json!([{"type": "text", "text": "b"},
                    {"type": "image", "data": "AA==", "mimeType": "image/png"}]),
            ),
            (
                media("audio/wav", "data:audio/wav;base64,AA=="),
                json!([{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]),
            ),
            (
                media("application/pdf", "https://example.com/a.pdf"),
                json!([{"type": "resource_link", "uri": "https://example.com/a.pdf",
                    "name": "https://example.com/a.pdf", "mimeType": "application/pdf"}]),
            ),
            (
                json!({"type": "media", "media_type": "text/csv", "url": "data:text/csv;base64,AA==",
                    "name": "a b.csv"}),
                json!([{"type": "resource", "resource": {"uri": "weftwork://answer/a%20b.csv",
                    "mimeType": "text/csv", "blob": "AA=="}}]),
            ),
        ] {
            assert_eq!(json!(contents_of(&content)), expected, "{content}");
        }
    }
}
