//! The data stream, version 1: lines of a code, a colon and JSON.
//!
//! Its reader refuses codes that it does not know, and a result or a piece of arguments of a call
//! that the response did not open. It takes a response without the line `d` as complete, so
//! a response that is cut must end within a line.

use super::part::{ChatPart, TextKind};
use serde_json::{Value, json};

/// Headers by which clients recognise the format.
pub(crate) const HEADERS: [(&str, &str); 2] =
    [("content-type", "text/plain; charset=utf-8"), ("x-vercel-ai-data-stream", "v1")];
/// Line that keeps an idle connection open.
pub(crate) const KEEP_ALIVE: &str = "\n";

/// Adds the line of a part; some parts have none.
pub(super) fn write_part(part: ChatPart, to: &mut String) {
    let Some((code, value)) = line_of_part(part) else { return };
    to.push_str(code);
    to.push(':');
    to.push_str(&value.to_string());
    to.push('\n');
}

fn line_of_part(part: ChatPart) -> Option<(&'static str, Value)> {
    Some(match part {
        ChatPart::Start { .. }
        | ChatPart::TextStart { .. }
        | ChatPart::TextEnd { .. }
        // Part of the call that stands for the question.
        | ChatPart::ApprovalRequest { .. }
        // Part of the reason for the end.
        | ChatPart::Abort { .. } => return None,
        ChatPart::StepStart { message } => ("f", json!({"messageId": message})),
        ChatPart::StepFinish { reason, usage } => {
            ("e", json!({"finishReason": reason, "usage": usage.shown(), "isContinued": false}))
        }
        ChatPart::TextDelta { kind: TextKind::Text, delta, .. } => ("0", json!(delta)),
        ChatPart::TextDelta { kind: TextKind::Reasoning, delta, .. } => ("g", json!(delta)),
        ChatPart::CallStart { id, name } => ("b", json!({"toolCallId": id, "toolName": name})),
        ChatPart::CallDelta { id, delta } => {
            ("c", json!({"toolCallId": id, "argsTextDelta": delta}))
        }
        ChatPart::CallReady { id, rest, .. } => {
            ("c", json!({"toolCallId": id, "argsTextDelta": rest, "isFinal": true}))
        }
        ChatPart::CallResult { id, result, is_error } => {
            let mut value = json!({"toolCallId": id, "result": result});
            if is_error {
                value["isError"] = json!(true);
            }
            ("a", value)
        }
        ChatPart::File { media_type, url } => ("k", json!({"data": url, "mimeType": media_type})),
        ChatPart::Data { name, data, lasting: true } => {
            ("aui-data", json!({"name": name, "data": data}))
        }
        ChatPart::Data { name, data, lasting: false } => ("2", json!([{"name": name, "data": data}])),
        ChatPart::Error { text } => ("3", json!(text)),
        ChatPart::Finish { reason, usage, .. } => {
            ("d", json!({"finishReason": reason, "usage": usage.shown()}))
        }
    })
}
