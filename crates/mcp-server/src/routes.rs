//! The routes and their rights.

use crate::call_runs::CallRuns;
use crate::call_stream::last_of;
use crate::error::{McpError, of_guard};
use crate::message::{Incoming, Params};
use crate::method::{Exchange, Reply};
use crate::open_calls::{CallKey, OpenCalls};
use crate::peer::{Era, Peer, SESSION};
use crate::resume::take_response;
use crate::source::{Offer, Source};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use weftwork_server::{Mounted, MountedClient, MountedOperation, TurnSource};
use weftwork_types::Right;
use weftwork_types::port::{Clock, Platform};

/// Each method has a right of its own.
const CALLS: &[Right] = &[Right::Read, Right::Run, Right::Approve];
const MESSAGE: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

const fn operation(path: &'static str) -> MountedOperation {
    MountedOperation {
        method: "post",
        path,
        rights: CALLS,
        summary: "Send a message of MCP, whose tools are agents",
        members: MESSAGE,
    }
}

/// Clients add a slash to addresses.
const OPERATIONS: &[MountedOperation] = &[operation("/mcp"), operation("/mcp/")];

/// The protocol for the agents of a server.
#[derive(Debug, Clone)]
pub struct McpServer {
    source: Source,
}

impl McpServer {
    /// Creates the protocol for the agents that are exposed by it.
    #[must_use]
    pub fn new(platform: Arc<dyn Platform>, clock: Arc<dyn Clock>) -> Self {
        let turns = TurnSource::new(platform, clock);
        let open = OpenCalls::default();
        Self { source: Source { turns, offer: Offer::Exposed, open } }
    }

    /// Offers all agents of a client, also those that are not exposed.
    #[must_use]
    pub fn all_agents(mut self) -> Self {
        self.source.offer = Offer::All;
        self
    }

    /// Returns the routes, for [`Server::mount`](weftwork_server::Server::mount).
    #[must_use]
    pub fn routes(&self) -> Mounted {
        let router = Router::new()
            .route("/mcp", post(receive))
            .route("/mcp/", post(receive))
            .with_state(self.source.clone());
        Mounted { prefix: "/mcp", router, operations: OPERATIONS, error: of_guard }
    }
}

async fn receive(
    State(source): State<Source>,
    client: MountedClient,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message = match Incoming::read(&body) {
        Ok(message) => message,
        Err(refused) => return refused.error.respond(refused.id.as_ref()),
    };
    let id = match &message {
        Incoming::Request(request) => Some(request.id.clone()),
        Incoming::Notification { .. } | Incoming::Response { .. } => None,
    };
    let answered = Box::pin(answer(&source, &client, &headers, message)).await;
    answered.unwrap_or_else(|error| error.respond(id.as_ref()))
}

async fn answer(
    source: &Source,
    client: &MountedClient,
    headers: &HeaderMap,
    message: Incoming,
) -> Result<Response, McpError> {
    let mut peer = Peer::read(headers, &message)?;
    // Older clients are asked within a stream.
    peer.elicits &= peer.era == Era::Modern || takes_stream(headers);
    match message {
        Incoming::Request(request) => {
            let exchange = Exchange { source, client, headers, peer, request };
            respond(client, headers, exchange.answer().await?).await
        }
        Incoming::Notification { method, params } => {
            if method == "notifications/cancelled" {
                cancel(source, client, &peer, &params).await?;
            }
            Ok(StatusCode::ACCEPTED.into_response())
        }
        Incoming::Response { id, result } => {
            let taken = take_response(source, client, &id, &result).await;
            taken.map_err(|error| error.with_status(StatusCode::BAD_REQUEST))?;
            Ok(StatusCode::ACCEPTED.into_response())
        }
    }
}

/// Cancels a call of an older client.
async fn cancel(
    source: &Source,
    client: &MountedClient,
    peer: &Peer,
    params: &Params,
) -> Result<(), McpError> {
    let (Some(session), Some(request)) = (&peer.session, params.get("requestId")) else {
        return Ok(());
    };
    client.require(Right::Run)?;
    let who = client.principal();
    let Some(call) = source.open.take(&CallKey::new(who, session, request)) else { return Ok(()) };
    call.cancelled.notify_one();
    CallRuns::find(source, who, call.run.as_str()).await?.cancel(source, who).await
}

async fn respond(
    client: &MountedClient,
    headers: &HeaderMap,
    reply: Reply,
) -> Result<Response, McpError> {
    match reply {
        Reply::Response(response) => Ok(Json(response).into_response()),
        Reply::Begins { response, session } => {
            let mut response = Json(response).into_response();
            let session = HeaderValue::from_str(&session).ok();
            response.headers_mut().extend(session.map(|value| (session_header(), value)));
            Ok(response)
        }
        Reply::Messages(messages) if takes_stream(headers) => {
            Ok(client.stream(messages.map(|message| event(&message))))
        }
        Reply::Messages(messages) => Ok(Json(last_of(messages).await?).into_response()),
    }
}

fn session_header() -> axum::http::HeaderName {
    axum::http::HeaderName::from_static(SESSION)
}

fn event(message: &Value) -> Event {
    Event::default().event("message").data(message.to_string())
}

/// Returns `true` for a client that names the type of streams. Others get the response alone.
fn takes_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.to_ascii_lowercase().contains("text/event-stream"))
}
