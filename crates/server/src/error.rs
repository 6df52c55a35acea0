//! Errors of requests, as a status and a JSON body with the member `detail`.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::id::InvalidId;
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{ExecuteError, LimitReached};
use weftwork_types::{Right, Rights, Timestamp};

/// Code of [`StoreError::Busy`].
const BUSY: &str = "W0202";
/// Code of [`RuntimeError::NothingToContinue`].
const NOTHING_TO_CONTINUE: &str = "W0114";

/// Code of [`RuntimeError::Stopping`].
const STOPPING: &str = "W0131";

/// Code of [`StoreError::BelongsToInstance`].
const BELONGS_TO_INSTANCE: &str = "W0649";
/// Code of [`StoreError::MailboxClosed`].
const TERMINATED: &str = "W0641";

/// The result of a request.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A refused or failed request, as a mounted protocol gives it its own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Status of the answer.
    pub status: StatusCode,
    /// Reason, which is safe to show to the client.
    pub detail: String,
    /// Seconds after which the request may be repeated.
    pub retry_after: u64,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self { status: error.status, detail: error.detail, retry_after: error.retry_after }
    }
}

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: String,
    /// Answer that counts, of a question that was answered before.
    first: Option<Box<Answer>>,
    /// Methods of the operations at the path.
    allow: Option<String>,
    /// Seconds after which the request may be repeated.
    retry_after: u64,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), first: None, allow: None, retry_after: 1 }
    }

    /// The request has a value that does not fit.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// The request names a thing that does not exist, or that is another principal's.
    pub(crate) fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The request does not fit the present state.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// The thread has an unfinished run.
    pub(crate) fn busy() -> Self {
        Self::conflict(
            "Thread is already running a task. Wait for it to finish or choose a different \
             multitask strategy.",
        )
    }

    /// The request does not fit the thread.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn thread_missing(thread: &str) -> Self {
        Self::missing(format!("Thread with ID {thread} not found"))
    }

    /// The request names a thing that does not exist, without its name.
    pub(crate) fn not_found() -> Self {
        Self::missing("Not Found")
    }

    /// The principal of the request does not have the right that it needs.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// The principal of the request has none of the rights of which it needs one.
    pub(crate) fn lacking(needed: &[Right], rights: Rights) -> Self {
        let needed: Vec<_> = needed.iter().map(|right| format!("`{right}`")).collect();
        let needed = needed.join(" or ");
        Self::forbidden(format!(
            "the request needs the right {needed}, which its token does not have (its rights: \
             {rights})"
        ))
    }

    /// The path has no operation with the method of the request, but with `methods`.
    pub(crate) fn method_not_allowed(methods: String) -> Self {
        let allow = Some(methods);
        Self { allow, ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") }
    }

    /// A limit of the account or key of the client is reached.
    pub(crate) fn limited(reached: &LimitReached, now: Timestamp) -> Self {
        let wait = reached.until.since(now).as_millis().div_ceil(1_000);
        let retry_after = u64::try_from(wait).unwrap_or(u64::MAX).max(1);
        let detail = format!("{} ({})", reached, LimitReached::CODE);
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// The request does not prove who makes it.
    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::error!(status = self.status.as_u16(), detail = self.detail, "request failed");
        }
        let mut body = json!({"detail": &self.detail});
        if let Some(first) = self.first {
            body["first"] = json!(first);
        }
        let body = Json(body);
        let mut response = match (self.status, self.allow) {
            (status, Some(methods)) => (status, [(ALLOW, methods)], body).into_response(),
            (status @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE), None) => {
                (status, [(RETRY_AFTER, self.retry_after.to_string())], body).into_response()
            }
            (status @ StatusCode::UNAUTHORIZED, None) => {
                (status, [(WWW_AUTHENTICATE, "Bearer")], body).into_response()
            }
            (status, None) => (status, body).into_response(),
        };
        let Self { status, detail, retry_after, .. } = self;
        response.extensions_mut().insert(Refused { status, detail, retry_after });
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
            StoreError::Busy { .. } => return Self::busy(),
            StoreError::Answered { first, .. } => {
                let first = Some(first.clone());
                return Self { first, ..Self::conflict(error.to_string()) };
            }
            StoreError::Fenced { .. }
            | StoreError::NotRequeued { .. }
            | StoreError::BelongsToInstance { .. }
            | StoreError::MailboxClosed { .. } => StatusCode::CONFLICT,
            StoreError::Conflict { .. }
            | StoreError::KeyReused { .. }
            | StoreError::BadNamespace { .. }
            | StoreError::BadKey { .. }
            | StoreError::BadValue { .. }
            | StoreError::BadFilter { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            StoreError::Dropped { .. } => StatusCode::GONE,
            _ if error.is_retriable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RuntimeError> for ApiError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Store(error) => error.into(),
            RuntimeError::UnknownNode { node, .. } => {
                Self::bad(format!("Node {node} does not exist"))
            }
            RuntimeError::NothingToContinue { .. }
            | RuntimeError::AmbiguousUpdate
            | RuntimeError::BadUpdate { .. } => Self::bad(error.to_string()),
            RuntimeError::UnknownCheckpoint { .. } | RuntimeError::UnknownQuestion { .. } => {
                Self::missing(error.to_string())
            }
            // The question is the one that the request names, or the only one.
            RuntimeError::WrongAnswer { problem, .. } => Self::invalid(format!(
                "the answer does not fit the question, which stays open: {problem}"
            )),
            RuntimeError::Stopping => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            // The input, or the executor of the program, refused the request.
            RuntimeError::Node(fault) => ExecuteError { fault }.into(),
            error => Self::invalid(error.to_string()),
        }
    }
}

impl From<InvalidId> for ApiError {
    fn from(error: InvalidId) -> Self {
        Self::invalid(error.to_string())
    }
}

/// An error of the port for executing graphs, which has a code instead of a type.
impl From<ExecuteError> for ApiError {
    fn from(error: ExecuteError) -> Self {
        let fault = error.fault;
        match fault.code.as_str() {
            BUSY => Self::busy(),
            NOTHING_TO_CONTINUE => Self::bad(fault.message),
            STOPPING => Self::new(StatusCode::SERVICE_UNAVAILABLE, fault.message),
            BELONGS_TO_INSTANCE | TERMINATED => Self::conflict(fault.message),
            _ if fault.retriable => Self::new(StatusCode::SERVICE_UNAVAILABLE, fault.message),
            _ => Self::invalid(fault.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::code::Fault;
    use weftwork_types::store_error::RefusedByInstance;

    #[test]
    fn codes_are_those_of_the_errors() {
        let busy = StoreError::Busy { thread: "t".to_owned(), run: "r".to_owned() };
        let nothing = RuntimeError::NothingToContinue { thread: "t".to_owned() };
        let thread = "t".to_owned();
        let closed = StoreError::MailboxClosed { thread: thread.clone() };
        let refused = RefusedByInstance::Input;
        let instance = StoreError::BelongsToInstance { thread, refused };
        for (fault, code, status) in [
            (busy.fault(), BUSY, StatusCode::CONFLICT),
            (closed.fault(), TERMINATED, StatusCode::CONFLICT),
            (instance.fault(), BELONGS_TO_INSTANCE, StatusCode::CONFLICT),
            (nothing.fault(), NOTHING_TO_CONTINUE, StatusCode::BAD_REQUEST),
            (RuntimeError::Stopping.fault(), STOPPING, StatusCode::SERVICE_UNAVAILABLE),
            (
                Fault::new(weftwork_graph::NODE_FAILED, "x"),
                "W0109",
                StatusCode::UNPROCESSABLE_ENTITY,
            ),
        ] {
            assert_eq!(fault.code, code);
            assert_eq!(ApiError::from(ExecuteError { fault }).status, status, "{code}");
        }
    }
}
