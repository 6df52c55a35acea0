//! Authentication by a function of the program, in place of tokens.

use super::{Client, keys};
use crate::error::ApiError;
use axum::http::StatusCode;
use axum::http::request::Parts;
use futures_util::FutureExt;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use weftwork_types::{BoxFuture, Principal};

/// Text of a refusal for which the function gave none.
const UNKNOWN: &str = "the request does not prove who makes it";

/// A request that a function of [`Server::authenticate`](crate::Server::authenticate) refuses.
///
/// Every error type becomes one with `?`: with status 401 and without the text of the error, which
/// is only logged, at the level `debug`.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    detail: String,
    /// Text for the log of the program.
    cause: Option<String>,
}

impl Refusal {
    /// Refuses a request that does not prove who makes it, with status 401 and a text for the
    /// client.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, detail: detail.into(), cause: None }
    }

    /// Refuses a request of a client that is known and not admitted, with status 403 and a text for
    /// the client.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, detail: detail.into(), cause: None }
    }
}

// For that a refusal is no error itself: its text is for clients.
impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self { cause: Some(error.to_string()), ..Self::unauthorized(UNKNOWN) }
    }
}

type Authenticate = dyn Fn(Parts) -> BoxFuture<'static, Result<Principal, Refusal>> + Send + Sync;

/// The function by which a program determines who makes a request.
#[derive(Clone)]
pub(crate) struct Authenticator(Arc<Authenticate>);

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}

impl Authenticator {
    pub(crate) fn new<F, U>(authenticate: F) -> Self
    where
        F: Fn(Parts) -> U + Send + Sync + 'static,
        U: Future<Output = Result<Principal, Refusal>> + Send + 'static,
    {
        Self(Arc::new(move |head| Box::pin(authenticate(head))))
    }

    /// Returns the client of a request.
    pub(crate) async fn client(&self, head: &Parts) -> Result<Client, ApiError> {
        // The code of the program may panic before there is a future, too.
        let found = AssertUnwindSafe(async { (self.0)(head.clone()).await }).catch_unwind().await;
        let Ok(found) = found else {
            let detail = "the authentication of the server failed";
            return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, detail));
        };
        match found {
            Ok(principal) if keys::is_reserved(&principal.org) => {
                tracing::error!(org = %principal.org, "the organisation of a client is reserved");
                Err(ApiError::forbidden("the organisation of the client is reserved"))
            }
            Ok(principal) => Ok(Client::local(principal)),
            Err(Refusal { status, detail, cause }) => {
                if let Some(cause) = cause {
                    tracing::debug!(cause, "a request was not authenticated");
                }
                Err(ApiError::new(status, detail))
            }
        }
    }
}
