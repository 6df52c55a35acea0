//! Answers over HTTP: the request that they belong to, and the words of a refusal.

use crate::lines::{repair_line, same_id};
use crate::text::short;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

/// Error code of servers for a session that they do not know. Others have it for a time limit.
const SESSION_NOT_FOUND: i64 = -32001;
/// Words of servers about a session that they do not know.
const SESSION_LOST: [&str; 10] = [
    "no valid session",
    "session not found",
    "session expired",
    "session has expired",
    "session terminated",
    "session does not exist",
    "invalid session",
    "unknown session",
    "missing session",
    "server not initialized",
];
/// Part of an answer that may say why the request failed, in bytes.
const WORDS_BYTES: usize = 4_000;
/// Length of a server's words in an error, in characters.
pub(crate) const WORDS_CHARS: usize = 300;
/// Mark in the details of an error that this client has made of a status.
const STATUS_MARK: &str = "x-weft-status";

/// The time at which a server lost the session of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionLoss {
    /// Before the request, which was refused and not carried out.
    Before,
    /// Unknown: perhaps after the request was carried out.
    PerhapsAfterwards,
}

/// Returns `true` for a status that says that the request was not carried out. With 408, the server did
/// not wait for its end.
pub(crate) fn is_refusal(status: u16) -> bool {
    (400..=499).contains(&status) && status != 408
}

/// Judges if an answer says that the server does not know the session of the request: by status 404, or
/// by an error that has no id, as it is from before the request was read. What a tool says of sessions
/// has the id of the request. Only a refusal by its status is certainly from before the call.
pub(crate) fn judge_session(status: u16, text: &[u8]) -> Option<SessionLoss> {
    let loss = match (is_refusal(status), status) {
        (true, _) => SessionLoss::Before,
        (false, 200..=299) => SessionLoss::PerhapsAfterwards,
        (false, _) => return None,
    };
    let answer = serde_json::from_slice::<Value>(text).unwrap_or_default();
    let error = &answer["error"];
    let message = error["message"].as_str().map(str::to_lowercase);
    let says_lost = |said: &str| SESSION_LOST.iter().any(|words| said.contains(words));
    let is_lost = match (&answer["id"], message) {
        (Value::Null, _) if status == 404 => true,
        (Value::Null, Some(said)) => says_lost(&said),
        (Value::Null, None) if is_refusal(status) => {
            let said = String::from_utf8_lossy(&text[..text.len().min(WORDS_BYTES)]);
            says_lost(&said.to_lowercase())
        }
        (Value::Null, None) => false,
        (_, said) => {
            error["code"] == SESSION_NOT_FOUND && said.is_some_and(|said| said.contains("session"))
        }
    };
    is_lost.then_some(loss)
}

/// Returns the answer to a request that a response has. An error without the id of the request is the
/// answer if the response is sure to be one, as by a server that did not read the id, and if it has the
/// form of the protocol: a gateway sends errors of its own. With an error status, the words of an error
/// name it.
pub(crate) fn read_answer(
    text: &[u8],
    asked: &RequestId,
    status: u16,
    is_sure: bool,
) -> Option<ServerJsonRpcMessage> {
    let own = address_answer(text, asked, is_sure);
    let own = repair_line(own.as_bytes()).unwrap_or(own);
    // Further messages are notifications, which the answer can do without.
    let mut answer: ServerJsonRpcMessage = serde_json::from_str(answer_of(&own)).ok()?;
    let is_ok = (200..=299).contains(&status);
    match &mut answer {
        JsonRpcMessage::Error(error) if error.id.as_ref() == Some(asked) => {
            if !is_ok {
                error.error.message =
                    format!("HTTP status {status}: {}", error.error.message).into();
            }
            Some(answer)
        }
        JsonRpcMessage::Response(response) if is_ok && response.id == *asked => Some(answer),
        _ => None,
    }
}

/// Returns a message with the id of the request that it answers, as the request has it.
fn address_answer(text: &[u8], asked: &RequestId, is_sure: bool) -> String {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let plain = || String::from_utf8_lossy(text).into_owned();
    let Ok(Value::Object(mut members)) = serde_json::from_slice(text) else { return plain() };
    let is_error = members.get("error").is_some_and(|error| !error.is_null());
    let is_own = members.get("id").is_some_and(|id| same_id(id, &json!(asked)));
    let is_refusal = is_error && is_sure && members.contains_key("jsonrpc");
    if !is_own && !is_refusal {
        return plain();
    }
    members.insert("id".to_owned(), json!(asked));
    Value::Object(members).to_string()
}

/// Returns the answer among the messages of a response.
fn answer_of(lines: &str) -> &str {
    let is_answer = |line: &&str| {
        let message = serde_json::from_str::<Value>(line).unwrap_or_default();
        message.get("method").is_none()
            && (message.get("result").is_some() || message.get("error").is_some())
    };
    lines.lines().find(is_answer).unwrap_or(lines)
}

/// The answer to a request that a server does not take.
pub(crate) fn refused_answer(status: u16, text: &[u8], asked: RequestId) -> ServerJsonRpcMessage {
    let details = Some(json!({STATUS_MARK: status}));
    let problem = ErrorData::invalid_request(describe_status(status, text), details);
    ServerJsonRpcMessage::error(problem, Some(asked))
}

/// Returns `true` for an error of [`refused_answer`], which has no code of the server.
pub(crate) fn is_status_error(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(STATUS_MARK).is_some())
}

/// Describes a status with the words of the server, and what to do about it.
pub(crate) fn describe_status(status: u16, text: &[u8]) -> String {
    let advice = match status {
        401 | 403 => {
            "; give the server a token: `\"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}` in the \
             MCP file"
        }
        _ => "",
    };
    format!("{}{advice}", status_words(status, text))
}

/// Describes a status with the words of the server.
pub(crate) fn status_words(status: u16, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(WORDS_BYTES)]);
    let said = match serde_json::from_str::<Value>(&text) {
        Ok(json) => {
            let places = ["/error/message", "/message", "/detail", "/error_description", "/error"];
            let found = places.iter().find_map(|place| json.pointer(place)?.as_str());
            found.map_or_else(|| text.to_string(), str::to_owned)
        }
        // A page: its words without the tags.
        Err(_) if text.trim_start().starts_with('<') => {
            let pieces =
                text.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, t)| t));
            pieces.collect::<Vec<_>>().join(" ")
        }
        Err(_) => text.to_string(),
    };
    let said = short(&said.split_whitespace().collect::<Vec<_>>().join(" "), WORDS_CHARS);
    let separator = if said.is_empty() { "" } else { ": " };
    format!("HTTP status {status}{separator}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_certainly_from_before_the_call() {
        let lost =
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Session terminated"}}"#;
        for (status, text, expected) in [
            (404, "", Some(SessionLoss::Before)),
            (400, lost, Some(SessionLoss::Before)),
            (401, r#"{"error":"Session expired"}"#, Some(SessionLoss::Before)),
            (403, "Invalid session ID", Some(SessionLoss::Before)),
            (200, lost, Some(SessionLoss::PerhapsAfterwards)),
            (
                200,
                r#"{"id":3,"error":{"code":-32001,"message":"Session not found"}}"#,
                Some(SessionLoss::PerhapsAfterwards),
            ),
            (200, r#"{"id":3,"error":{"code":-32001,"message":"Request timed out"}}"#, None),
            (200, r#"{"error":"session expired"}"#, None),
            (408, lost, None),
            (500, lost, None),
            (410, "the order is gone", None),
        ] {
            assert_eq!(judge_session(status, text.as_bytes()), expected, "{status} {text}");
        }
    }
}
