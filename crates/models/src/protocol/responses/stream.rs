//! Reads the documents of an answer.

use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{
    Flaw, Progress, Reader, if_readable, or_default, structure, unknown_reason,
};
use crate::protocol::signature::Format;
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork_types::usage::Tokens;

/// A reader for one answer, which ends with a `response.completed`, `response.incomplete` or
/// `response.failed`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Answer {
    calls: Vec<Call>,
    /// `true` once a summary part began, which a blank line separates from the next.
    in_summary: bool,
}

/// A tool call and its place among the items.
#[derive(Debug)]
struct Call {
    place: Place,
    /// `true` once a fragment of the arguments was received.
    has_args: bool,
}

/// The item that a document belongs to. Some servers, such as llama.cpp's, send no index; others
/// give the same item another id in each document.
#[derive(Debug, PartialEq)]
enum Place {
    Index(u64),
    Item(String),
}

impl Place {
    fn of(output_index: Option<u64>, item: &str) -> Self {
        output_index.map_or_else(|| Self::Item(item.to_owned()), Self::Index)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    output_index: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    item_id: String,
    #[serde(deserialize_with = "or_default")]
    delta: String,
    item: Option<Item>,
    response: Option<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default")]
    call_id: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    arguments: String,
    encrypted_content: Option<String>,
    #[serde(deserialize_with = "or_default")]
    summary: Vec<Content>,
    #[serde(deserialize_with = "or_default")]
    content: Vec<Content>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "or_default")]
    text: String,
    #[serde(deserialize_with = "or_default")]
    refusal: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    #[serde(deserialize_with = "if_readable")]
    id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    output: Vec<Item>,
    #[serde(deserialize_with = "if_readable")]
    incomplete_details: Option<Incomplete>,
    usage: Value,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    #[serde(deserialize_with = "or_default")]
    reason: String,
}

/// Returns the counts of an account; `None` if it has none that is known.
fn tokens(usage: &Value) -> Option<Tokens> {
    let account = Account(usage);
    let cached = account.count(&["/input_tokens_details/cached_tokens"]).unwrap_or_default();
    let reasoning = account.count(&["/output_tokens_details/reasoning_tokens"]);
    Some(account.tokens()?.cached(cached).reasoning(reasoning.unwrap_or_default()))
}

impl Reader for Answer {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let kind = document.get("type").and_then(Value::as_str);
        if kind == Some("error") || kind.is_none() && !document["error"].is_null() {
            return Err(Flaw::Refused(document));
        }
        if document.get("object").and_then(Value::as_str) == Some("response") {
            return self.whole(structure(document)?, progress);
        }
        let document: Document = structure(document)?;
        match document.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                progress.text(&document.delta);
            }
            "response.reasoning_summary_part.added" => {
                let is_further = std::mem::replace(&mut self.in_summary, true);
                if is_further {
                    progress.reasoning("\n\n");
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                progress.reasoning(&document.delta);
            }
            "response.function_call_arguments.delta" => {
                let place = Place::of(document.output_index, &document.item_id);
                self.arguments(&place, &document.delta, progress);
            }
            "response.output_item.added" => {
                let item = document.item.unwrap_or_default();
                self.added(Place::of(document.output_index, &item.id), &item, progress);
            }
            "response.output_item.done" => {
                let item = document.item.unwrap_or_default();
                self.done(&Place::of(document.output_index, &item.id), &item, progress);
            }
            "response.created" => {
                progress.set_id(document.response.and_then(|response| response.id));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(document.response.unwrap_or_default(), progress)?;
            }
            // Progress reports, complete forms of what was streamed, and kinds of later versions.
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    fn added(&mut self, place: Place, item: &Item, progress: &mut Progress) {
        self.in_summary = false;
        if item.kind == "function_call" {
            self.calls.push(Call { place, has_args: false });
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index: self.calls.len() - 1,
                id: Some(item.call_id.clone()).filter(|id| !id.is_empty()),
                name: Some(item.name.clone()),
                args: String::new(),
            });
        }
    }

    /// Handles the end of an item: its signature, or arguments that were not streamed.
    fn done(&mut self, place: &Place, item: &Item, progress: &mut Progress) {
        match item.kind.as_str() {
            "function_call" => {
                let mut calls = self.calls.iter();
                if calls.any(|call| call.place == *place && !call.has_args) {
                    self.arguments(place, &item.arguments, progress);
                }
            }
            "reasoning" => {
                if let Some(content) = &item.encrypted_content {
                    let issued = json!({"id": item.id, "encrypted_content": content});
                    progress.events.push_back(Format::Openai.event(&issued.to_string()));
                }
            }
            _ => {}
        }
    }

    fn arguments(&mut self, place: &Place, args: &str, progress: &mut Progress) {
        let index = self.calls.iter().position(|call| call.place == *place);
        let Some(index) = index.filter(|_| !args.is_empty()) else { return };
        self.calls[index].has_args = true;
        let args = args.to_owned();
        progress.events.push_back(ChatEvent::ToolCallDelta { index, id: None, name: None, args });
    }

    /// Reads an answer that was not streamed.
    fn whole(&mut self, mut response: Response, progress: &mut Progress) -> Result<(), Flaw> {
        for (output_index, item) in (0..).zip(std::mem::take(&mut response.output)) {
            let summary: Vec<&str> = item.summary.iter().map(|part| part.text.as_str()).collect();
            progress.reasoning(&summary.join("\n\n"));
            for content in item.content.iter().filter(|_| item.kind == "message") {
                progress.text(&content.text);
                progress.text(&content.refusal);
            }
            self.added(Place::Index(output_index), &item, progress);
            self.done(&Place::Index(output_index), &item, progress);
        }
        self.end(response, progress)
    }

    fn end(&mut self, response: Response, progress: &mut Progress) -> Result<(), Flaw> {
        progress.set_id(response.id);
        progress.tokens = tokens(&response.usage).or(progress.tokens);
        if let Some(error) = response.error {
            return Err(Flaw::Refused(error));
        }
        let incomplete = response.incomplete_details.unwrap_or_default().reason;
        progress.finish = Some(match (response.status.as_str(), incomplete.as_str()) {
            ("completed", _) if !self.calls.is_empty() => FinishReason::ToolCalls,
            ("completed", _) => FinishReason::Stop,
            ("incomplete", "max_output_tokens") => FinishReason::Length,
            ("incomplete", "content_filter") => FinishReason::ContentFilter,
            ("incomplete", other) => return Err(unknown_reason(other)),
            ("failed" | "cancelled", _) => {
                let reason = format!("the provider gave up: `{}`", response.status);
                return Err(Flaw::Truncated(reason));
            }
            (other, _) => return Err(unknown_reason(other)),
        });
        progress.is_over = true;
        Ok(())
    }
}
