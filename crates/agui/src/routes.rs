//! The routes and their rights.

use crate::error::{Result, of_guard};
use crate::stream;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use weftwork_server::{Mounted, MountedClient, MountedOperation};
use weftwork_types::Right;

const OPERATIONS: &[MountedOperation] = &[
    MountedOperation {
        method: "post",
        path: "/agui/{slug}",
        // A message begins a run, and the answer to a question approves.
        rights: &[Right::Run, Right::Approve],
        summary: "Run an agent by AG-UI, or follow a run again by its id",
        members: &[
            "threadId",
            "runId",
            "protocolVersion",
            "parentRunId",
            "messages",
            "tools",
            "context",
            "state",
            "forwardedProps",
            "resume",
        ],
    },
    MountedOperation {
        method: "post",
        path: "/agui/{slug}/cancel",
        rights: &[Right::Run],
        summary: "Cancel a run of AG-UI",
        members: &["threadId", "runId"],
    },
];

/// Returns the routes, for [`Server::mount`](weftwork_server::Server::mount).
#[must_use]
pub fn routes() -> Mounted {
    let router =
        Router::new().route("/agui/{slug}", post(run)).route("/agui/{slug}/cancel", post(cancel));
    Mounted { prefix: "/agui", router, operations: OPERATIONS, error: of_guard }
}

async fn run(
    client: MountedClient,
    Path(slug): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    Box::pin(stream::run(client, &slug, headers, body)).await
}

async fn cancel(client: MountedClient, Path(slug): Path<String>, body: Bytes) -> Result<Response> {
    stream::cancel(client, &slug, body).await
}
