//! Errors: as answers of HTTP, and as the last event of a stream.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weftwork_server::{FaultKind, Refused};
use weftwork_types::code::Fault;

/// Maximum length of a value of a client in texts of errors, in characters.
const SHOWN_CHARS_MAX: usize = 100;

pub(crate) type Result<T, E = AguiError> = std::result::Result<T, E>;

/// The location at which a client finds an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Location {
    /// The answer of HTTP.
    Answer(StatusCode),
    /// The event `RUN_ERROR`, as the protocol has errors about interrupts.
    Event,
}

/// A request that was refused. It began no run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AguiError {
    location: Location,
    code: String,
    message: String,
    /// Seconds after which a request that came at a bad time may be repeated.
    retry_after: u64,
    /// Open interrupts of the conversation.
    interrupts: Vec<Value>,
}

impl AguiError {
    fn new(location: Location, code: &str, message: impl Into<String>) -> Self {
        Self {
            location,
            code: code.to_owned(),
            message: message.into(),
            retry_after: 1,
            interrupts: Vec::new(),
        }
    }

    /// A member of the request does not fit.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Location::Answer(StatusCode::BAD_REQUEST), "invalid_input", message)
    }

    /// A member has another type than expected.
    pub(crate) fn wrong_type(field: &str, found: &Value, expected: &str) -> Self {
        let found = shorten(&found.to_string());
        Self::invalid(format!("`{field}` is {found}; expected {expected}"))
    }

    pub(crate) fn agent_missing() -> Self {
        let message = "the agent does not exist, or is not exposed to you by AG-UI; \
                       `weft agents expose SLUG --agui` exposes one";
        Self::new(Location::Answer(StatusCode::NOT_FOUND), "agent_not_found", message)
    }

    pub(crate) fn run_missing() -> Self {
        let message = "the conversation has no run with this `runId`";
        Self::new(Location::Answer(StatusCode::NOT_FOUND), "run_not_found", message)
    }

    /// The id of a run was used for another request.
    pub(crate) fn run_reused(what: &str) -> Self {
        let message = format!(
            "`runId` names a run that began with another {what}; a run is followed with the request that \
             began it, and another one has an id of its own"
        );
        Self::new(Location::Answer(StatusCode::CONFLICT), "run_id_reused", message)
    }

    /// The entries of `resume` do not fit the open interrupts.
    pub(crate) fn resume(code: &str, message: impl Into<String>) -> Self {
        Self::new(Location::Event, code, message)
    }

    /// The error of a request that began no run.
    pub(crate) fn refused(fault: Fault) -> Self {
        let status = match FaultKind::of(&fault) {
            FaultKind::RunMissing | FaultKind::AgentMissing => StatusCode::NOT_FOUND,
            FaultKind::Conflict | FaultKind::KeyReused => StatusCode::CONFLICT,
            FaultKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            FaultKind::Invalid => StatusCode::BAD_REQUEST,
            FaultKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(Location::Answer(status), &fault.code, fault.message)
    }

    /// The error of answers that began no run, where errors about interrupts are.
    pub(crate) fn unanswered(fault: Fault) -> Self {
        match Self::refused(fault) {
            Self { location: Location::Answer(status), code, message, .. }
                if status.is_client_error() =>
            {
                Self::resume(&code, message)
            }
            error => error,
        }
    }

    pub(crate) fn with_interrupts(self, interrupts: Vec<Value>) -> Self {
        Self { interrupts, ..self }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Returns the event for an error that a stream has.
    pub(crate) fn event(&self) -> Option<Value> {
        let mut event = json!({"type": "RUN_ERROR", "message": self.message, "code": self.code});
        if !self.interrupts.is_empty() {
            event["rawEvent"] = json!({"interrupts": self.interrupts});
        }
        (self.location == Location::Event).then_some(event)
    }
}

impl From<Refused> for AguiError {
    fn from(refused: Refused) -> Self {
        let Refused { status, detail, retry_after } = refused;
        let code = match status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit",
            status if status.is_server_error() => "server_error",
            _ => "invalid_input",
        };
        let status = match status {
            // The word for input that does not fit is another one here.
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        Self { retry_after, ..Self::new(Location::Answer(status), code, detail) }
    }
}

impl IntoResponse for AguiError {
    fn into_response(self) -> Response {
        let status = match self.location {
            Location::Answer(status) => status,
            Location::Event => StatusCode::BAD_REQUEST,
        };
        let body = json!({"error": {"code": self.code, "message": self.message}});
        let mut response = (status, Json(body)).into_response();
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
            response.headers_mut().insert(RETRY_AFTER, self.retry_after.into());
        }
        response
    }
}

/// The response to a request that the guard refused.
pub(crate) fn of_guard(refused: &Refused) -> Response {
    AguiError::from(refused.clone()).into_response()
}

/// Cuts a text of a client for an error.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
