//! Stored messages in the shape of the AI SDK: the parts of a message, put together.

use super::part::{ChatPart, TextKind};
use super::ui_stream::error_text;
use serde_json::{Value, json};
use weftwork_types::message::{Media, Part};

/// A message that is put together from its parts.
#[derive(Debug, Default)]
pub(crate) struct UiMessage {
    id: String,
    parts: Vec<Value>,
    metadata: Value,
}

/// Returns a user's message of texts and files. Adjacent texts are one, in paragraphs.
pub(crate) fn of_user(id: &str, said: &[Part]) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    for part in said {
        match part {
            Part::Text { text } => match parts.last_mut().filter(|last| last["type"] == "text") {
                Some(last) => {
                    let before = last["text"].as_str().unwrap_or_default();
                    last["text"] = json!(format!("{before}\n\n{text}"));
                }
                None => parts.push(json!({"type": "text", "text": text})),
            },
            Part::Media(Media { media_type, url }) => {
                parts.push(json!({"type": "file", "mediaType": media_type, "url": url}));
            }
            _ => {}
        }
    }
    json!({"id": id, "role": "user", "parts": parts})
}

impl UiMessage {
    /// Adds parts.
    pub(crate) fn add(&mut self, parts: impl IntoIterator<Item = ChatPart>) {
        parts.into_iter().for_each(|part| self.apply_part(part));
    }

    /// Returns the message.
    pub(crate) fn into_value(self) -> Value {
        let Self { id, parts, metadata, .. } = self;
        json!({"id": id, "role": "assistant", "parts": parts, "metadata": metadata})
    }

    fn apply_part(&mut self, part: ChatPart) {
        match part {
            ChatPart::Start { message, metadata } => (self.id, self.metadata) = (message, metadata),
            ChatPart::StepStart { .. } => self.parts.push(json!({"type": "step-start"})),
            ChatPart::TextStart { kind, .. } => {
                let kind = if kind == TextKind::Text { "text" } else { "reasoning" };
                self.parts.push(json!({"type": kind, "text": "", "state": "done"}));
            }
            ChatPart::TextDelta { delta, .. } => {
                // A block is open, and its part is the last one.
                let Some(Value::String(text)) = self.parts.last_mut().map(|part| &mut part["text"])
                else {
                    return;
                };
                text.push_str(&delta);
            }
            ChatPart::CallReady { id, name, args, .. } => self.parts.push(json!({
                "type": format!("tool-{name}"), "toolCallId": id, "state": "input-available",
                "input": args,
            })),
            ChatPart::CallResult { id, result, is_error } => {
                let Some(call) = self.find_call(&id) else { return };
                // The AI SDK reads no call with a result and an approval that is not decided.
                if is_error {
                    call["state"] = json!("output-error");
                    call["errorText"] = json!(error_text(&result));
                    // The error says whether a person rejected the call, or it failed.
                    if let Some(members) = call.as_object_mut() {
                        members.remove("approval");
                    }
                } else {
                    call["state"] = json!("output-available");
                    call["output"] = result;
                    if let Some(approval) = call.get_mut("approval") {
                        approval["approved"] = json!(true);
                    }
                }
            }
            ChatPart::ApprovalRequest { id, call } => {
                let Some(call) = self.find_call(&call) else { return };
                call["state"] = json!("approval-requested");
                call["approval"] = json!({"id": id});
            }
            ChatPart::File { media_type, url } => {
                self.parts.push(json!({"type": "file", "mediaType": media_type, "url": url}));
            }
            ChatPart::Data { name, data, lasting: true } => {
                self.parts.push(json!({"type": format!("data-{name}"), "data": data}));
            }
            ChatPart::Error { text } => self.metadata["error"] = json!(text),
            ChatPart::Finish { reason, metadata, .. } => {
                self.metadata = match (self.metadata.take(), metadata) {
                    (Value::Object(mut own), Value::Object(more)) => {
                        own.extend(more);
                        own.into()
                    }
                    (_, metadata) => metadata,
                };
                self.metadata["finishReason"] = json!(reason);
            }
            ChatPart::StepFinish { .. }
            | ChatPart::TextEnd { .. }
            | ChatPart::CallStart { .. }
            | ChatPart::CallDelta { .. }
            | ChatPart::Data { lasting: false, .. }
            | ChatPart::Abort { .. } => {}
        }
    }

    fn find_call(&mut self, id: &str) -> Option<&mut Value> {
        self.parts.iter_mut().rev().find(|part| part["toolCallId"] == id)
    }
}
