//! The routes and their rights.

use crate::error::{ApiError, of_guard};
use crate::{chat, model, response};
use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use weftwork_server::{Mounted, MountedClient, MountedOperation};
use weftwork_types::Right;

const READ: &[Right] = &[Right::Read];
const RUN: &[Right] = &[Right::Run];
/// A message begins a run, and the answer to a question approves.
const ANSWERS: &[Right] = &[Right::Run, Right::Approve];

const CHAT_BODY: &[&str] =
    &["model", "messages", "stream", "stream_options", "metadata", "n", "response_format"];
const RESPONSE_BODY: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "background",
    "store",
    "previous_response_id",
    "conversation",
    "metadata",
    "text",
];

const OPERATIONS: &[MountedOperation] = &[
    operation("get", "/v1/models", READ, "List the agents that are exposed by OpenAI's API", &[]),
    operation("get", "/v1/models/{model}", READ, "Read one of them", &[]),
    operation(
        "post",
        "/v1/chat/completions",
        ANSWERS,
        "Ask an agent by OpenAI's chat completions; with `x-thread-id` in a conversation",
        CHAT_BODY,
    ),
    operation(
        "post",
        "/v1/responses",
        ANSWERS,
        "Ask an agent by OpenAI's responses, or answer a call that waits for an approval",
        RESPONSE_BODY,
    ),
    operation("get", "/v1/responses/{response_id}", READ, "Read a response", &[]),
    operation("delete", "/v1/responses/{response_id}", RUN, "Delete a response", &[]),
    operation("post", "/v1/responses/{response_id}/cancel", RUN, "Cancel a response", &[]),
];

const fn operation(
    method: &'static str,
    path: &'static str,
    rights: &'static [Right],
    summary: &'static str,
    members: &'static [&'static str],
) -> MountedOperation {
    MountedOperation { method, path, rights, summary, members }
}

/// Returns the routes, for [`Server::mount`](weftwork_server::Server::mount).
#[must_use]
pub fn routes() -> Mounted {
    let router = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(read_model))
        .route("/v1/chat/completions", post(complete))
        .route("/v1/responses", post(respond))
        .route("/v1/responses/{response_id}", get(read_response).delete(delete_response))
        .route("/v1/responses/{response_id}/cancel", post(cancel_response));
    Mounted { prefix: "/v1", router, operations: OPERATIONS, error: of_guard }
}

type Answered = Result<Response, ApiError>;

async fn models(client: MountedClient) -> Answered {
    let models: Vec<_> = model::all(&client)?.iter().map(model::Model::to_json).collect();
    Ok(Json(json!({"object": "list", "data": models})).into_response())
}

async fn read_model(client: MountedClient, Path(id): Path<String>) -> Answered {
    Ok(Json(model::find(&client, &id)?.to_json()).into_response())
}

async fn complete(client: MountedClient, headers: HeaderMap, body: Bytes) -> Answered {
    Box::pin(chat::create(client, headers, body)).await
}

async fn respond(client: MountedClient, headers: HeaderMap, body: Bytes) -> Answered {
    Box::pin(response::create(client, headers, body)).await
}

async fn read_response(
    client: MountedClient,
    headers: HeaderMap,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answered {
    response::read(client, headers, &id, &query.unwrap_or_default()).await
}

async fn delete_response(client: MountedClient, Path(id): Path<String>) -> Answered {
    response::delete(client, &id).await
}

async fn cancel_response(
    client: MountedClient,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Answered {
    response::cancel(client, headers, &id).await
}
