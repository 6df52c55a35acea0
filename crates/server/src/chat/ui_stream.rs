//! The UI message stream of the AI SDK, version 1: server-sent events.
//!
//! Readers differ: the AI SDK refuses types that it does not know, `assistant-stream` refuses a
//! stream without `[DONE]` and events with a name. The parts here are accepted by both. Usage
//! is in the metadata of the message for the AI SDK, and a member of the ends for the other.

use super::part::{ChatPart, TextKind};
use serde_json::{Value, json};

/// Headers by which clients recognise the format.
pub(crate) const HEADERS: [(&str, &str); 2] =
    [("content-type", "text/event-stream; charset=utf-8"), ("x-vercel-ai-ui-message-stream", "v1")];
/// Comment that keeps an idle connection open.
pub(crate) const KEEP_ALIVE: &str = ": keep-alive\n\n";
/// Frame after the last part.
const DONE: &str = "data: [DONE]\n\n";

/// Adds the frames of a part.
pub(super) fn write_part(part: ChatPart, to: &mut String) {
    let is_end = matches!(part, ChatPart::Finish { .. });
    to.push_str("data: ");
    to.push_str(&chunk_of_part(part).to_string());
    to.push_str("\n\n");
    if is_end {
        to.push_str(DONE);
    }
}

/// Returns a part as a chunk of the protocol.
fn chunk_of_part(part: ChatPart) -> Value {
    match part {
        ChatPart::Start { message, metadata } => {
            json!({"type": "start", "messageId": message, "messageMetadata": metadata})
        }
        ChatPart::StepStart { .. } => json!({"type": "start-step"}),
        ChatPart::StepFinish { reason, usage } => {
            json!({"type": "finish-step", "finishReason": reason, "usage": usage.shown()})
        }
        ChatPart::TextStart { kind, id } => json!({"type": event_name(kind, "start"), "id": id}),
        ChatPart::TextDelta { kind, id, delta } => {
            json!({"type": event_name(kind, "delta"), "id": id, "delta": delta})
        }
        ChatPart::TextEnd { kind, id } => json!({"type": event_name(kind, "end"), "id": id}),
        ChatPart::CallStart { id, name } => {
            json!({"type": "tool-input-start", "toolCallId": id, "toolName": name})
        }
        ChatPart::CallDelta { id, delta } => {
            json!({"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": delta})
        }
        ChatPart::CallReady { id, name, args, .. } => json!({
            "type": "tool-input-available", "toolCallId": id, "toolName": name, "input": args,
        }),
        ChatPart::CallResult { id, result, is_error: false } => {
            json!({"type": "tool-output-available", "toolCallId": id, "output": result})
        }
        ChatPart::CallResult { id, result, is_error: true } => {
            json!({"type": "tool-output-error", "toolCallId": id, "errorText": error_text(&result)})
        }
        ChatPart::ApprovalRequest { id, call } => {
            json!({"type": "tool-approval-request", "approvalId": id, "toolCallId": call})
        }
        ChatPart::File { media_type, url } => {
            json!({"type": "file", "mediaType": media_type, "url": url})
        }
        ChatPart::Data { name, data, lasting } => {
            let mut chunk = json!({"type": format!("data-{name}"), "data": data});
            if !lasting {
                chunk["transient"] = json!(true);
            }
            chunk
        }
        ChatPart::Error { text } => json!({"type": "error", "errorText": text}),
        ChatPart::Abort { reason } => json!({"type": "abort", "reason": reason}),
        ChatPart::Finish { reason, usage, metadata } => json!({
            "type": "finish", "finishReason": reason, "usage": usage.shown(),
            "messageMetadata": metadata,
        }),
    }
}

fn event_name(kind: TextKind, edge: &str) -> String {
    let kind = match kind {
        TextKind::Text => "text",
        TextKind::Reasoning => "reasoning",
    };
    format!("{kind}-{edge}")
}

/// Returns the text of a failed call: its safe message if it has one.
pub(super) fn error_text(result: &Value) -> String {
    let message = result.get("safe_message").or(Some(result)).and_then(Value::as_str);
    message.map_or_else(|| result.to_string(), str::to_owned)
}
