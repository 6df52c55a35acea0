//! Errors in the form of OpenAI's API.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weftwork_server::{FaultKind, Refused};
use weftwork_types::code::Fault;

/// Header by which OpenAI's SDKs do not repeat a request.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Maximum length of a value of a client in texts of errors, in characters.
const SHOWN_CHARS_MAX: usize = 100;

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A request that was refused, or whose run failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    /// Member of the request that is wrong.
    param: Option<String>,
    code: Option<String>,
    /// `true` if the request was carried out: to send it again would do the work again.
    is_final: bool,
    /// Seconds after which a request that came at a bad time may be repeated.
    retry_after: u64,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            is_final: false,
            retry_after: 1,
        }
    }

    /// A member of the request does not fit.
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into());
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// A member has another type than expected.
    pub(crate) fn wrong_type(param: &str, found: &Value, expected: &str) -> Self {
        let found = shorten(&found.to_string());
        Self::invalid(param, format!("`{param}` is {found}; expected {expected}"))
    }

    /// The principal has no such model: there is none, it is not exposed, or it is another one's.
    pub(crate) fn model_missing(model: &str) -> Self {
        let model = shorten(model);
        let message = format!(
            "the model `{model}` does not exist, or is not exposed to you; `GET /v1/models` lists those \
             that are"
        );
        let code = Some("model_not_found".to_owned());
        let param = Some("model".to_owned());
        Self { code, param, ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    /// The principal has no such response, approval or conversation.
    pub(crate) fn missing(kind: &str, id: &str) -> Self {
        let message = format!("{kind} with id `{}` not found", shorten(id));
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// The error with a code of ours.
    pub(crate) fn with_code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    pub(crate) fn with_param(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    /// The error of a request that began no run.
    pub(crate) fn refused(fault: Fault) -> Self {
        let status = match FaultKind::of(&fault) {
            FaultKind::RunMissing | FaultKind::AgentMissing => StatusCode::NOT_FOUND,
            FaultKind::Conflict => StatusCode::CONFLICT,
            FaultKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            FaultKind::KeyReused | FaultKind::Invalid => StatusCode::BAD_REQUEST,
            FaultKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        // A conflict ends by itself after a time that no client can know.
        let is_final = status == StatusCode::CONFLICT;
        Self { is_final, ..Self::new(status, fault.message) }.with_code(&fault.code)
    }

    /// The error of a run that failed.
    pub(crate) fn failed(fault: &Fault) -> Self {
        let status = match fault.code.as_str() {
            // The budget of the run, or a limit of the account or key, is used up.
            "W0601" | "W0661" => StatusCode::TOO_MANY_REQUESTS,
            // The model does not take what the client sent.
            "W0310" => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { is_final: true, ..Self::new(status, fault.message.clone()) }.with_code(&fault.code)
    }

    /// The error of a run that ended without an answer.
    pub(crate) fn ended(message: impl Into<String>, code: &str) -> Self {
        let error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).with_code(code);
        Self { is_final: true, ..error }
    }

    /// The run goes on in another process.
    pub(crate) fn stopping() -> Self {
        let message = "the server stops, and another one continues the run";
        Self { is_final: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns `true` if another request used the idempotency key.
    pub(crate) fn is_of_used_key(&self) -> bool {
        self.code.as_deref() == Some("W0205")
    }

    /// Returns the value of the member `error`.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let code = self.code.as_deref().or(match self.status {
            StatusCode::UNAUTHORIZED => Some("invalid_api_key"),
            StatusCode::TOO_MANY_REQUESTS => Some("rate_limit_exceeded"),
            _ => None,
        });
        json!({"message": self.message, "type": kind, "param": self.param, "code": code})
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let status = match refused.status {
            // The word for input that does not fit is another one here.
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        Self { retry_after: refused.retry_after, ..Self::new(status, refused.detail) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.body()}))).into_response();
        let headers = response.headers_mut();
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if is_busy.contains(&self.status) {
            headers.insert(RETRY_AFTER, self.retry_after.into());
        }
        response
    }
}

/// The response to a request that the guard refused.
pub(crate) fn of_guard(refused: &Refused) -> Response {
    ApiError::from(refused.clone()).into_response()
}

/// Cuts a text of a client for an error.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
