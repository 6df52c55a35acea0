//! Reads the documents of an answer.

use crate::chat::ChatEvent;
use crate::protocol::account::Account;
use crate::protocol::decoder::{Flaw, Progress, Reader, structure};
use crate::protocol::fields::{error_member, fragment, if_readable, index, list, text_or_default};
use crate::protocol::signature::Format;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use weftwork_types::usage::Tokens;

/// A reader for one answer, which ends with a `response.completed`, `response.incomplete` or
/// `response.failed`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct ResponsesReader {
    calls: Vec<CallItem>,
    /// Places of the messages, and of their parts, of which text was received.
    emitted_texts: Vec<(ItemPosition, Option<u64>)>,
    /// `true` once reasoning or its signature was received.
    has_reasoning: bool,
    /// `true` once a part of the summary of the current item was received.
    has_item_reasoning: bool,
    /// `true` once a summary part began, which a blank line separates from the next.
    in_summary: bool,
    /// Places of the messages whose phase was emitted.
    phased: Vec<ItemPosition>,
}

/// A tool call and its place among the items.
#[derive(Debug)]
struct CallItem {
    position: ItemPosition,
    /// `true` once its name was received.
    is_named: bool,
    /// `true` once a fragment of the arguments was received.
    has_args: bool,
    /// `true` once its item was ended.
    is_done: bool,
    /// Arguments at the beginning, which servers that stream nothing else have there.
    first_args: String,
}

/// The item that a document belongs to. Some servers, such as llama.cpp's, send no index; others
/// give the same item another id in each document.
#[derive(Debug, Clone, PartialEq)]
enum ItemPosition {
    Index(u64),
    Item(String),
}

impl ItemPosition {
    fn of(output_index: Option<u64>, item: &str) -> Self {
        output_index.map_or_else(|| Self::Item(item.to_owned()), Self::Index)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesDocument {
    #[serde(rename = "type", deserialize_with = "text_or_default")]
    kind: String,
    #[serde(deserialize_with = "index")]
    output_index: Option<u64>,
    #[serde(deserialize_with = "index")]
    content_index: Option<u64>,
    #[serde(deserialize_with = "text_or_default")]
    item_id: String,
    delta: Value,
    /// The whole text at its end.
    #[serde(deserialize_with = "text_or_default")]
    text: String,
    /// The whole refusal at its end.
    #[serde(deserialize_with = "text_or_default")]
    refusal: String,
    /// The whole arguments at their end.
    arguments: Value,
    item: Option<Item>,
    response: Option<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    #[serde(rename = "type", deserialize_with = "text_or_default")]
    kind: String,
    #[serde(deserialize_with = "text_or_default")]
    id: String,
    #[serde(deserialize_with = "text_or_default")]
    call_id: String,
    #[serde(deserialize_with = "text_or_default")]
    name: String,
    arguments: Value,
    /// Role of a message in the answer, such as `commentary`.
    #[serde(deserialize_with = "text_or_default")]
    phase: String,
    #[serde(deserialize_with = "if_readable")]
    encrypted_content: Option<String>,
    #[serde(deserialize_with = "contents")]
    summary: Vec<Content>,
    #[serde(deserialize_with = "contents")]
    content: Vec<Content>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "text_or_default")]
    text: String,
    #[serde(deserialize_with = "text_or_default")]
    refusal: String,
}

impl Content {
    /// The text; a refusal counts as text.
    fn said(&self) -> String {
        format!("{}{}", self.text, self.refusal)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    #[serde(deserialize_with = "if_readable")]
    id: Option<String>,
    #[serde(deserialize_with = "text_or_default")]
    status: String,
    #[serde(deserialize_with = "list")]
    output: Vec<Item>,
    /// The whole text, from servers without items.
    #[serde(deserialize_with = "text_or_default")]
    output_text: String,
    #[serde(deserialize_with = "if_readable")]
    incomplete_details: Option<Incomplete>,
    usage: Value,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    #[serde(deserialize_with = "text_or_default")]
    reason: String,
}

/// Returns the counts of an account; `None` if it has none that is known.
fn tokens(usage: &Value) -> Option<Tokens> {
    let account = Account(usage);
    let cached = account.count(&["/input_tokens_details/cached_tokens"]).unwrap_or_default();
    let reasoning = account.count(&["/output_tokens_details/reasoning_tokens"]);
    Some(account.tokens()?.cached(cached).reasoning(reasoning.unwrap_or_default()))
}

impl Reader for ResponsesReader {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let kind = document.get("type").and_then(Value::as_str);
        let has_error = error_member(document.get("error").cloned().unwrap_or_default()).is_some();
        if kind == Some("error") || kind.is_none() && has_error {
            return Err(Flaw::Refused(document));
        }
        let is_object = document.get("object").and_then(Value::as_str) == Some("response");
        if is_object || kind.is_none() && document.get("output").is_some_and(Value::is_array) {
            return self.read_whole(structure(document)?, progress);
        }
        let document: ResponsesDocument = structure(document)?;
        match document.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                let position = ItemPosition::of(document.output_index, &document.item_id);
                let part = (position, document.content_index);
                if self.emitted_texts.last() != Some(&part) {
                    self.emitted_texts.push(part);
                }
                progress.text(&fragment(&document.delta));
            }
            "response.output_text.done" | "response.refusal.done" => {
                let position = ItemPosition::of(document.output_index, &document.item_id);
                let text = document.text + &document.refusal;
                self.text((position, document.content_index), &text, progress);
            }
            "response.reasoning_summary_part.added" => {
                let is_further = std::mem::replace(&mut self.in_summary, true);
                if is_further {
                    progress.reasoning("\n\n");
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.has_reasoning = true;
                self.has_item_reasoning = true;
                progress.reasoning(&fragment(&document.delta));
            }
            "response.function_call_arguments.delta" => {
                let position = ItemPosition::of(document.output_index, &document.item_id);
                self.add_arguments(&position, &fragment(&document.delta), progress);
            }
            "response.function_call_arguments.done" => {
                let position = ItemPosition::of(document.output_index, &document.item_id);
                self.whole_arguments(&position, &fragment(&document.arguments), progress);
            }
            "response.output_item.added" => {
                let item = document.item.unwrap_or_default();
                self.add_item(ItemPosition::of(document.output_index, &item.id), &item, progress);
            }
            "response.output_item.done" => {
                let item = document.item.unwrap_or_default();
                self.end_item(ItemPosition::of(document.output_index, &item.id), &item, progress);
            }
            "response.created" => {
                progress.set_id(document.response.and_then(|response| response.id));
            }
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let mut response = document.response.unwrap_or_default();
                // The event says how it ended.
                let event = document.kind.strip_prefix("response.").unwrap_or_default();
                let is_status = ["completed", "incomplete", "failed", "cancelled"]
                    .contains(&response.status.as_str());
                if !is_status {
                    let status = if event == "done" { "completed" } else { event };
                    status.clone_into(&mut response.status);
                }
                self.read_whole(response, progress)?;
                progress.is_over = true;
            }
            // Progress reports, complete forms of what was streamed, and kinds of later versions.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, progress: &mut Progress) {
        for (index, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| !call.has_args) {
            let args = std::mem::take(&mut call.first_args);
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index,
                id: None,
                name: None,
                args,
            });
        }
    }
}

impl ResponsesReader {
    fn add_item(&mut self, position: ItemPosition, item: &Item, progress: &mut Progress) {
        self.in_summary = false;
        self.has_item_reasoning = false;
        if item.kind == "message" {
            self.emit_phase(&position, item, progress);
        }
        if item.kind == "function_call" {
            let name = Some(item.name.clone()).filter(|name| !name.is_empty());
            let first_args = fragment(&item.arguments);
            self.calls.push(CallItem {
                position,
                is_named: name.is_some(),
                has_args: false,
                is_done: false,
                first_args,
            });
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index: self.calls.len() - 1,
                id: Some(item.call_id.clone()).filter(|id| !id.is_empty()),
                name,
                args: String::new(),
            });
        }
    }

    /// Handles the end of an item: its signature, or what was not streamed of it.
    fn end_item(&mut self, position: ItemPosition, item: &Item, progress: &mut Progress) {
        match item.kind.as_str() {
            "function_call" => {
                let known = self.calls.iter().rposition(|call| call.position == position);
                let index = match known {
                    Some(index) => index,
                    None => {
                        self.add_item(position, item, progress);
                        self.calls.len() - 1
                    }
                };
                let call = &mut self.calls[index];
                if !std::mem::replace(&mut call.is_named, true) {
                    progress.events.push_back(ChatEvent::ToolCallDelta {
                        index,
                        id: None,
                        name: Some(item.name.clone()),
                        args: String::new(),
                    });
                }
                call.is_done = true;
                let args = fragment(&item.arguments);
                if !call.has_args && !args.is_empty() {
                    call.has_args = true;
                    progress.events.push_back(ChatEvent::ToolCallDelta {
                        index,
                        id: None,
                        name: None,
                        args,
                    });
                }
            }
            "message" => {
                let text: String = item.content.iter().map(Content::said).collect();
                self.emit_phase(&position, item, progress);
                self.text((position, None), &text, progress);
            }
            "reasoning" => {
                let summary: Vec<&str> =
                    item.summary.iter().map(|part| part.text.as_str()).collect();
                if !std::mem::take(&mut self.has_item_reasoning) {
                    progress.reasoning(&summary.join("\n\n"));
                }
                self.has_reasoning = true;
                if let Some(content) = &item.encrypted_content {
                    let mut issued = json!({"id": item.id, "encrypted_content": content});
                    if item.summary.len() > 1 {
                        let texts = item.summary.iter().map(|part| part.text.as_str());
                        issued["summary"] = texts.collect();
                    }
                    progress.sign(Format::Openai, &issued.to_string());
                }
            }
            _ => {}
        }
    }

    /// Emits the phase of a message, which goes back with its text, before that text.
    fn emit_phase(&mut self, position: &ItemPosition, item: &Item, progress: &mut Progress) {
        let is_late = self.phased.contains(position)
            || self.emitted_texts.iter().any(|(emitted, _)| emitted == position);
        if !item.phase.is_empty() && !is_late {
            let issued = json!({"phase": item.phase}).to_string();
            progress.sign(Format::OpenaiMessage, &issued);
            self.phased.push(position.clone());
        }
    }

    /// Adds the whole text of a message or of a part of it, unless it was streamed.
    fn text(&mut self, at: (ItemPosition, Option<u64>), text: &str, progress: &mut Progress) {
        let is_emitted = self.emitted_texts.iter().any(|(position, part)| {
            let is_place = match (position, &at.0) {
                (ItemPosition::Index(_), ItemPosition::Index(_))
                | (ItemPosition::Item(_), ItemPosition::Item(_)) => *position == at.0,
                // One of them has no index.
                _ => true,
            };
            is_place && (part.is_none() || at.1.is_none() || *part == at.1)
        });
        if !is_emitted && !text.is_empty() {
            progress.text(text);
            self.emitted_texts.push(at);
        }
    }

    /// Adds the whole arguments of a call, unless they were streamed.
    fn whole_arguments(&mut self, position: &ItemPosition, args: &str, progress: &mut Progress) {
        let mut calls = self.calls.iter().rev();
        if calls.find(|call| call.position == *position).is_some_and(|call| !call.has_args) {
            self.add_arguments(position, args, progress);
        }
    }

    fn add_arguments(&mut self, position: &ItemPosition, args: &str, progress: &mut Progress) {
        let index = self.calls.iter().rposition(|call| call.position == *position);
        let Some(index) = index.filter(|_| !args.is_empty()) else { return };
        self.calls[index].has_args = true;
        let args = args.to_owned();
        progress.events.push_back(ChatEvent::ToolCallDelta { index, id: None, name: None, args });
    }

    /// Reads a whole answer: the parts of it that were not streamed.
    fn read_whole(&mut self, mut response: Response, progress: &mut Progress) -> Result<(), Flaw> {
        let known = [
            ("reasoning", self.has_reasoning),
            ("message", !self.emitted_texts.is_empty()),
            ("function_call", !self.calls.is_empty()),
        ];
        let is_known = |kind: &str| known.contains(&(kind, true));
        let items = (0..).zip(std::mem::take(&mut response.output));
        for (output_index, item) in items.filter(|(_, item)| !is_known(&item.kind)) {
            self.has_item_reasoning = false;
            self.end_item(ItemPosition::Index(output_index), &item, progress);
        }
        if self.emitted_texts.is_empty() && self.calls.is_empty() {
            progress.text(&response.output_text);
        }
        self.read_finish(response, progress)
    }

    fn read_finish(&mut self, response: Response, progress: &mut Progress) -> Result<(), Flaw> {
        progress.set_id(response.id);
        progress.tokens = tokens(&response.usage).or(progress.tokens);
        let cost = Account(&response.usage).cost_micro_usd();
        progress.cost_micro_usd = cost.or(progress.cost_micro_usd);
        if let Some(error) = error_member(response.error) {
            return Err(Flaw::Refused(error));
        }
        let is_cut =
            |call: &CallItem| !call.has_args && !call.is_done && call.first_args.is_empty();
        if self.calls.iter().any(is_cut) {
            return Err(Flaw::Truncated("the arguments of a call did not come".to_owned()));
        }
        let incomplete = response.incomplete_details.unwrap_or_default().reason;
        let word = match response.status.as_str() {
            "completed" if !self.calls.is_empty() => "tool_calls",
            "incomplete" if !incomplete.is_empty() => &incomplete,
            status => status,
        };
        progress.is_over = true;
        progress.end(word, None)
    }
}

/// Reads the parts of a content, which may be a bare text.
fn contents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
    let bare = |text| Content { text, ..Content::default() };
    let parts = match Value::deserialize(deserializer)? {
        Value::String(text) => vec![Value::String(text)],
        Value::Array(parts) => parts,
        _ => Vec::new(),
    };
    let read = |part| match part {
        Value::String(text) => bare(text),
        part => serde_json::from_value(part).unwrap_or_default(),
    };
    Ok(parts.into_iter().map(read).collect())
}
