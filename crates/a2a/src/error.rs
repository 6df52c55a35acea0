//! Errors in the forms of the two bindings.

use crate::wire::VERSION;
use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weftwork_server::{FaultKind, Refused};
use weftwork_types::code::Fault;

/// Media type of the binding HTTP+JSON.
pub(crate) const A2A_JSON: HeaderValue = HeaderValue::from_static("application/a2a+json");
/// Domain of the reasons of errors.
const DOMAIN: &str = "a2a-protocol.org";
/// Maximum length of a value of a client in texts of errors, in characters.
const SHOWN_CHARS_MAX: usize = 100;

pub(crate) type Result<T, E = A2aError> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    // Of the protocol.
    TaskNotFound,
    TaskNotCancelable,
    UnsupportedOperation,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    VersionNotSupported,
    // Of JSON-RPC.
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    // Of HTTP: a refusal with this status.
    Http(StatusCode),
}

/// The three forms of a kind.
struct Forms {
    code: i32,
    status: StatusCode,
    name: &'static str,
    /// Reason, for errors of the protocol.
    reason: Option<&'static str>,
}

impl Kind {
    fn forms(self) -> Forms {
        let forms = |code, status, name, reason| Forms { code, status, name, reason };
        let failed = |code, reason| {
            forms(code, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION", Some(reason))
        };
        let invalid = |code| forms(code, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", None);
        match self {
            Self::TaskNotFound => {
                forms(-32001, StatusCode::NOT_FOUND, "NOT_FOUND", Some("TASK_NOT_FOUND"))
            }
            Self::TaskNotCancelable => failed(-32002, "TASK_NOT_CANCELABLE"),
            Self::UnsupportedOperation => failed(-32004, "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => {
                let reason = Some("CONTENT_TYPE_NOT_SUPPORTED");
                Forms { reason, ..invalid(-32005) }
            }
            Self::InvalidAgentResponse => {
                let reason = Some("INVALID_AGENT_RESPONSE");
                forms(-32006, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", reason)
            }
            Self::VersionNotSupported => failed(-32009, "VERSION_NOT_SUPPORTED"),
            Self::ParseError => invalid(-32700),
            Self::InvalidRequest => invalid(-32600),
            Self::MethodNotFound => {
                forms(-32601, StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED", None)
            }
            Self::InvalidParams => invalid(-32602),
            Self::Internal => forms(-32603, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", None),
            Self::Http(status) => forms(code_of(status), status, name_of(status), None),
        }
    }
}

/// Returns the code of JSON-RPC for a refusal of HTTP.
fn code_of(status: StatusCode) -> i32 {
    match status.is_server_error() {
        true => -32603,
        false => -32600,
    }
}

/// Returns the name of a status of HTTP, as `google.rpc.Code` has it.
fn name_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::METHOD_NOT_ALLOWED => "UNIMPLEMENTED",
        StatusCode::CONFLICT => "ABORTED",
        StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
        StatusCode::REQUEST_TIMEOUT => "DEADLINE_EXCEEDED",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        status if status.is_server_error() => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct A2aError {
    kind: Kind,
    message: String,
    /// Member of the request that is wrong.
    field: Option<String>,
    /// Code of ours.
    code: Option<String>,
    /// Seconds after which a request that came at a bad time may be repeated.
    retry_after: u64,
}

impl A2aError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, code: None, retry_after: 1 }
    }

    /// The principal has no such task: there is none, or it is another one's.
    pub(crate) fn task_missing() -> Self {
        Self::new(Kind::TaskNotFound, "the task does not exist, or is not accessible to you")
    }

    /// The principal has no such configuration of push notifications.
    pub(crate) fn config_missing() -> Self {
        let message = "the task has no push notification configuration with this id";
        Self::new(Kind::TaskNotFound, message)
    }

    /// The principal has no such agent: there is none, it is not exposed, or it is another one's.
    pub(crate) fn agent_missing() -> Self {
        let message = "the agent does not exist, or is not exposed to you by A2A";
        Self::new(Kind::Http(StatusCode::NOT_FOUND), message)
    }

    /// Several agents are exposed, so that the server has no card of its own.
    pub(crate) fn several_cards(count: usize, cards: &[String]) -> Self {
        let message = format!(
            "{count} agents are exposed to you by A2A, and the server has no card of its own; theirs are at {}",
            cards.join(", ")
        );
        Self::new(Kind::Http(StatusCode::NOT_FOUND), message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedOperation, message)
    }

    /// The version of a request is not that of this server.
    pub(crate) fn version(found: &str) -> Self {
        let found = shorten(found);
        let message = format!(
            "version {found} of A2A is not supported; send the header `A2A-Version: {VERSION}`, and \
             requests of that version"
        );
        Self::new(Kind::VersionNotSupported, message)
    }

    /// A member of the request does not fit.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let field = Some(field.into());
        Self { field, ..Self::new(Kind::InvalidParams, message) }
    }

    /// A member of the request has another value than expected.
    pub(crate) fn wrong(field: &str, found: &str, expected: &str) -> Self {
        let found = shorten(found);
        Self::invalid(field, format!("`{field}` is {found}; expected {expected}"))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The error for a request that began no run, or that could not be answered.
    pub(crate) fn of_fault(fault: Fault) -> Self {
        let kind = match FaultKind::of(&fault) {
            FaultKind::RunMissing => Kind::TaskNotFound,
            FaultKind::AgentMissing => return Self::agent_missing(),
            FaultKind::Conflict => Kind::UnsupportedOperation,
            FaultKind::Unavailable => Kind::Http(StatusCode::SERVICE_UNAVAILABLE),
            // The context has a question.
            FaultKind::Invalid if fault.code == "W1038" => Kind::UnsupportedOperation,
            FaultKind::KeyReused | FaultKind::Invalid => Kind::InvalidParams,
            FaultKind::Internal => Kind::Internal,
        };
        let code = Some(fault.code);
        Self { code, ..Self::new(kind, fault.message) }
    }

    /// Returns the kind.
    #[cfg(test)]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the code of ours.
    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.kind == Kind::TaskNotFound
    }

    fn details(&self, reason: Option<&str>) -> Vec<Value> {
        let mut details = Vec::new();
        if reason.is_some() || self.code.is_some() {
            let mut info = json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason.or(self.code()).unwrap_or_default(),
                "domain": DOMAIN,
            });
            if let Some(code) = &self.code {
                info["metadata"] = json!({"code": code});
            }
            details.push(info);
        }
        if let Some(field) = &self.field {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": field, "description": self.message}],
            }));
        }
        details
    }

    /// Returns the error object of JSON-RPC.
    pub(crate) fn json_rpc(&self) -> Value {
        let forms = self.kind.forms();
        let mut error = json!({"code": forms.code, "message": self.message});
        let details = self.details(forms.reason);
        if !details.is_empty() {
            error["data"] = details.into();
        }
        error
    }

    /// Adds the header that says when a request that came at a bad time may be repeated.
    pub(crate) fn add_retry_after(&self, status: StatusCode, headers: &mut HeaderMap) {
        let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if is_busy.contains(&status) {
            headers.insert(RETRY_AFTER, self.retry_after.into());
        }
    }

    /// Returns the status of HTTP that JSON-RPC has too: for refusals of HTTP, and not for errors of
    /// requests.
    pub(crate) fn json_rpc_status(&self) -> StatusCode {
        match self.kind {
            Kind::Http(status) => status,
            _ => StatusCode::OK,
        }
    }
}

/// The error in the form of the binding HTTP+JSON.
impl IntoResponse for A2aError {
    fn into_response(self) -> Response {
        let forms = self.kind.forms();
        let body = json!({"error": {
            "code": forms.status.as_u16(),
            "status": forms.name,
            "message": self.message,
            "details": self.details(forms.reason),
        }});
        let mut response = (forms.status, Json(body)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, A2A_JSON);
        self.add_retry_after(forms.status, response.headers_mut());
        response
    }
}

impl From<Refused> for A2aError {
    fn from(refused: Refused) -> Self {
        let retry_after = refused.retry_after;
        Self { retry_after, ..Self::new(Kind::Http(refused.status), refused.detail) }
    }
}

/// The response to a request that the guard refused.
pub(crate) fn of_guard(refused: &Refused) -> Response {
    A2aError::from(refused.clone()).into_response()
}

/// Cuts a text of a client for an error.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
