//! Routes of further protocols, which other crates bring and the server serves inside its guard.
//!
//! The guard checks them as all others: host and origin, client, right, and body. An operation that is not
//! listed is not served. Errors of the guard, and of paths without a route, have the form of the protocol.

use crate::error::{ApiError, Refused};
use crate::input::Ignored;
use crate::operations::Access;
use crate::routes::task_caller;
use crate::service::Service;
use crate::sse;
use axum::Router;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Request, State};
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use std::convert::Infallible;
use weftwork_types::code::Fault;
use weftwork_types::port::{Platform, TaskCaller, TurnRun};
use weftwork_types::run::RunRef;
use weftwork_types::{Principal, Right};

/// Headers of the answer to a refused request that stay whatever the form of its body.
const HEADERS_OF_REFUSALS: [header::HeaderName; 3] =
    [header::ALLOW, header::RETRY_AFTER, header::WWW_AUTHENTICATE];

/// The routes of a protocol.
#[derive(Debug, Clone)]
pub struct Mounted {
    /// Beginning of all its paths, such as `/v1`.
    pub prefix: &'static str,
    /// Routes. Their handlers get the client as a [`MountedClient`].
    pub router: Router,
    /// Operations, one for each method of each route.
    pub operations: &'static [MountedOperation],
    /// Function that shapes an error.
    pub error: fn(&Refused) -> Response,
}

/// An operation of a mounted protocol.
#[derive(Debug, Clone, Copy)]
pub struct MountedOperation {
    /// Method, in small letters.
    pub method: &'static str,
    /// Path of the route.
    pub path: &'static str,
    /// Rights of which the client needs one. If there are several, the handler checks which one by
    /// [`MountedClient::require`]. With none, the operation is open to all, also without a token; its
    /// handler gets an `Option` of the client.
    pub rights: &'static [Right],
    /// Description, in a line.
    pub summary: &'static str,
    /// Names of the members of the body.
    pub members: &'static [&'static str],
}

impl MountedOperation {
    pub(crate) fn access(&self) -> Access {
        match self.rights {
            [] => Access::Welcome,
            rights => Access::ByBody(rights),
        }
    }
}

/// The prefix of a protocol, and the form of its errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorForm {
    prefix: &'static str,
    error: fn(&Refused) -> Response,
}

impl ErrorForm {
    pub(crate) fn of(mounted: &Mounted) -> Self {
        Self { prefix: mounted.prefix, error: mounted.error }
    }

    /// Returns `true` for the paths of the protocol.
    fn is_of(&self, path: &str) -> bool {
        is_below(path, self.prefix)
    }
}

/// Returns `true` for a prefix itself, and for paths below it.
pub(crate) fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Gives an error of the guard the form of the protocol of its path.
pub(crate) fn shape_error(forms: &[ErrorForm], path: &str, response: Response) -> Response {
    let Some(form) = forms.iter().find(|form| form.is_of(path)) else { return response };
    let Some(refused) = response.extensions().get::<Refused>() else { return response };
    let mut shaped = (form.error)(refused);
    for name in HEADERS_OF_REFUSALS {
        if let Some(value) = response.headers().get(&name) {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped
}

/// Returns the routes of a protocol for the router of a service.
pub(crate) fn routes(mounted: Mounted, service: &Service) -> Router<Service> {
    let layer = from_fn_with_state(service.clone(), attach_client);
    mounted.router.layer(layer).with_state(())
}

/// Adds the client to a request, as handlers of protocols get it.
async fn attach_client(State(all): State<Service>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    // Only operations that are open to all have no client.
    if let Ok(service) = Service::from_request_parts(&mut parts, &all).await {
        parts.extensions.insert(MountedClient(service));
    }
    next.run(Request::from_parts(parts, body)).await
}

/// The client of a request to a mounted route, and what the server lets it do.
#[derive(Debug, Clone)]
pub struct MountedClient(Service);

impl<S: Sync> FromRequestParts<S> for MountedClient {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let client = parts.extensions.get::<Self>().cloned();
        let missing = || ApiError::unauthorized("the request has no principal").into_response();
        client.ok_or_else(missing)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for MountedClient {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

impl MountedClient {
    /// The principal of the request.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        self.0.who()
    }

    /// Returns the caller of a task, with the idempotency key and the chain of agents of the request.
    ///
    /// # Errors
    /// [`Refused`] for a key that is too long, has other characters than those of ASCII, or is reserved, and
    /// for a chain that cannot be read.
    pub fn caller(&self, headers: &HeaderMap) -> Result<TaskCaller, Refused> {
        Ok(task_caller(&self.0, headers)?)
    }

    /// The agents of the server.
    ///
    /// # Errors
    /// [`Refused`] with status 404 if the server has none.
    pub fn platform(&self) -> Result<&dyn Platform, Refused> {
        Ok(self.0.platform()?)
    }

    /// Checks a right of the client that depends on the body of a request.
    ///
    /// # Errors
    /// [`Refused`] with status 403 if the client does not have it.
    pub fn require(&self, right: Right) -> Result<(), Refused> {
        Ok(self.0.require(right)?)
    }

    /// Admits a turn of a conversation, and counts its run: not if too many runs wait for this server, or
    /// if a limit of the account or key is reached. A repetition of a turn that began a run is admitted,
    /// not counted, and has that run, which is returned. Called before anything is stored.
    ///
    /// # Errors
    /// [`Refused`] with status 429.
    pub async fn admit_turn(
        &self,
        by: &TaskCaller,
        agent: &str,
        conversation: Option<&str>,
    ) -> Result<Option<TurnRun>, Refused> {
        Ok(self.0.admit_turn(by, agent, conversation).await?)
    }

    /// Returns the response that streams events, with comments that keep it open. It ends early, without
    /// an event, once the token of the client is revoked.
    pub fn stream(&self, events: impl Stream<Item = Event> + Send + 'static) -> Response {
        let open = self.0.open_stream();
        let revoked = Box::pin(self.0.revoked());
        let events = events.take_until(revoked).map(move |event| {
            // The stream is open as long as its events are read.
            let _open = &open;
            Ok::<_, Infallible>(event)
        });
        sse::respond(events)
    }

    /// Returns the place of a run of this server, for clients of its other protocols.
    #[must_use]
    pub fn place_of(run: &RunRef) -> String {
        format!("/threads/{}/runs/{}", run.thread.to_path(), run.run)
    }
}

/// The kind of a fault with which a request began nothing, for the errors of protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// There is no such run, or it is another one's.
    RunMissing,
    /// There is no such agent, or it is another one's.
    AgentMissing,
    /// A run of the conversation has not ended, or the question was answered before.
    Conflict,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The request may succeed later.
    Unavailable,
    /// The request does not fit.
    Invalid,
    /// The store is damaged or failed.
    Internal,
}

impl FaultKind {
    /// Returns the kind of a fault.
    #[must_use]
    pub fn of(fault: &Fault) -> Self {
        match fault.code.as_str() {
            "W0201" => Self::RunMissing,
            "W1012" => Self::AgentMissing,
            "W0202" | "W0204" => Self::Conflict,
            code if code == "W0131" || fault.retriable => Self::Unavailable,
            "W0205" => Self::KeyReused,
            "W0212" => Self::Invalid,
            code if code.starts_with("W02") => Self::Internal,
            _ => Self::Invalid,
        }
    }
}

/// Reads the JSON of a body: as the routes of the server do, an integer of more than 64 bits is refused,
/// and a text that was cut within a character is repaired.
///
/// # Errors
/// [`Refused`] with status 422 for a body that is no JSON.
pub fn read_json(body: &[u8]) -> Result<serde_json::Value, Refused> {
    Ok(crate::body::read_json(body)?)
}

/// Adds the header that names members of a body which were ignored.
pub fn name_ignored<'n>(headers: &mut HeaderMap, names: impl IntoIterator<Item = &'n str>) {
    let mut ignored = Ignored::default();
    names.into_iter().for_each(|name| ignored.add(name.to_owned()));
    ignored.add_header(headers);
}
