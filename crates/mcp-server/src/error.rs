//! Errors in the form of JSON-RPC.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weftwork_server::{FaultKind, Refused};
use weftwork_types::code::Fault;

/// Maximum length of a value of a client in texts of errors, in characters.
const SHOWN_CHARS_MAX: usize = 100;

pub(crate) type Result<T, E = McpError> = std::result::Result<T, E>;

/// The kind of an error, by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ParseError = -32700,
    InvalidRequest = -32600,
    MethodNotFound = -32601,
    InvalidParams = -32602,
    Internal = -32603,
    HeaderMismatch = -32020,
    MissingCapability = -32021,
    UnsupportedVersion = -32022,
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct McpError {
    kind: Kind,
    /// Status of HTTP.
    status: StatusCode,
    message: String,
    data: Option<Value>,
    /// Seconds after which a request that came at a bad time may be repeated.
    retry_after: Option<u64>,
}

impl McpError {
    /// An error in an answer of HTTP that has status 200.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, status: StatusCode::OK, message, data: None, retry_after: None }
    }

    /// An error of the message itself, which has status 400.
    pub(crate) fn bad_request(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, message).with_status(StatusCode::BAD_REQUEST)
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// A parameter is missing or has another value than expected.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidParams, message)
    }

    /// The principal has no such tool: there is no such agent, it is not exposed, or it is another one's.
    pub(crate) fn tool_missing() -> Self {
        Self::invalid("the tool does not exist, or its agent is not exposed to you by MCP")
    }

    /// The principal has no such task: there is none, or it is another one's.
    pub(crate) fn task_missing() -> Self {
        Self::invalid("the task does not exist, or is not accessible to you")
    }

    /// The state of a request is not one that this server gave to this principal for this request.
    pub(crate) fn state_refused() -> Self {
        Self::invalid(
            "`requestState` is not that of this request; send the request again without it, and \
             without `inputResponses`",
        )
    }

    /// The process stops, and another one continues the run.
    pub(crate) fn stopping() -> Self {
        let text =
            "the server stops, and the run continues in another process; send the request again";
        Self::new(Kind::Internal, text).with_status(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// The error for a request that began no run, or that could not be answered.
    pub(crate) fn of_fault(fault: &Fault) -> Self {
        let text = fault.message.as_str();
        let error = match FaultKind::of(fault) {
            FaultKind::AgentMissing => return Self::tool_missing(),
            FaultKind::RunMissing => return Self::task_missing(),
            FaultKind::Unavailable => {
                Self::new(Kind::Internal, text).with_status(StatusCode::SERVICE_UNAVAILABLE)
            }
            FaultKind::Conflict | FaultKind::KeyReused | FaultKind::Invalid => Self::invalid(text),
            FaultKind::Internal => Self::new(Kind::Internal, text),
        };
        error.with_data(json!({"code": fault.code}))
    }

    /// Returns the error object of JSON-RPC.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.kind as i32, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    /// Returns the response to a message. An error of a message without an id has none, too.
    pub(crate) fn respond(&self, id: Option<&Value>) -> Response {
        let mut body = json!({"jsonrpc": "2.0"});
        if let Some(id) = id {
            body["id"] = id.clone();
        }
        body["error"] = self.to_json();
        let mut response = (self.status, Json(body)).into_response();
        let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if is_busy.contains(&self.status) {
            let seconds = HeaderValue::from(self.retry_after.unwrap_or(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

impl From<Refused> for McpError {
    fn from(refused: Refused) -> Self {
        let kind = match refused.status.is_server_error() {
            true => Kind::Internal,
            false => Kind::InvalidRequest,
        };
        let retry_after = Some(refused.retry_after);
        Self { retry_after, ..Self::new(kind, refused.detail).with_status(refused.status) }
    }
}

/// The response to a request that the guard refused.
pub(crate) fn of_guard(refused: &Refused) -> Response {
    McpError::from(refused.clone()).respond(None)
}

/// Cuts a text of a client for an error.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
