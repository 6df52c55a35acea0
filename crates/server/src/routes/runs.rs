//! Runs on threads, and runs with a thread of their own.

use crate::body::{self, OnCompletion, OnDisconnect, RunBody};
use crate::error::Result;
use crate::service::Service;
use crate::sse::{self, CancelOnDrop};
use crate::translate::{ids, rows};
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork_runtime::FramePosition;
use weftwork_types::run::{CancelAction, RunRef};

/// Number of runs in a list without a limit.
const LIMIT: usize = 10;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads/{thread}/runs", post(create).get(list))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/stream", post(stream))
        .route("/threads/{thread}/runs/{run}", get(one))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/stream", get(follow))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
        .route("/runs", post(create))
        .route("/runs/wait", post(wait))
        .route("/runs/stream", post(stream))
}

/// The thread of a run; `None` for a stateless run, which gets one of its own.
type OfThread = Option<Path<String>>;

async fn create(State(service): State<Service>, thread: OfThread, body: Bytes) -> Result<Response> {
    let body: RunBody = body::read(&body)?;
    let handle = service.start(name(&thread), &body).await?;
    let run = handle.run;
    let row = service.run_row(&run).await?;
    if is_temporary(&thread, &body) {
        service.delete_later(run.clone(), handle.outcome);
    }
    Ok((headers(&run, None), Json(service.shown(&row))).into_response())
}

async fn wait(State(service): State<Service>, thread: OfThread, body: Bytes) -> Result<Response> {
    let body: RunBody = body::read(&body)?;
    let handle = service.start(name(&thread), &body).await?;
    let run = handle.run;
    let guard = on_leave(&service, &run, body.on_disconnect == OnDisconnect::Cancel);
    let outcome = handle.outcome.await;
    if let Some(guard) = guard {
        guard.disarm();
    }
    let values = service.values(&run, outcome).await?;
    if is_temporary(&thread, &body) {
        service.delete_thread(&run.thread).await?;
    }
    Ok((headers(&run, Some("join")), Json(values)).into_response())
}

async fn stream(State(service): State<Service>, thread: OfThread, body: Bytes) -> Result<Response> {
    let body: RunBody = body::read(&body)?;
    let modes = body.modes()?;
    let handle = service.start(name(&thread), &body).await?;
    let run = handle.run;
    let start = FramePosition::START;
    let frames = service.frames(&run, modes, body.stream_subgraphs, start).await?;
    let guard = on_leave(&service, &run, body.on_disconnect == OnDisconnect::Cancel);
    if is_temporary(&thread, &body) {
        service.delete_later(run.clone(), handle.outcome);
    }
    let headers = headers(&run, Some("stream"));
    Ok((headers, sse::response(service, run, frames, guard)).into_response())
}

fn name(thread: &OfThread) -> Option<&str> {
    thread.as_ref().map(|Path(thread)| thread.as_str())
}

/// Returns `true` if the thread of a run is deleted after its end.
fn is_temporary(thread: &OfThread, body: &RunBody) -> bool {
    thread.is_none() && body.on_completion == OnCompletion::Delete
}

/// Returns a guard that cancels the run if its client leaves, if that is wanted.
fn on_leave(service: &Service, run: &RunRef, cancels: bool) -> Option<CancelOnDrop> {
    cancels.then(|| CancelOnDrop::new(service.clone(), run.clone()))
}

#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    status: Option<String>,
}

async fn list(
    State(service): State<Service>,
    Path(thread): Path<String>,
    Query(List { limit, offset, status }): Query<List>,
) -> Result<Json<Value>> {
    let runs = service.runs(&ids::thread(&thread)?).await?;
    let runs = runs
        .iter()
        .filter(|run| status.as_deref().is_none_or(|status| status == rows::status(run.status)));
    Ok(Json(runs.skip(offset).take(limit.unwrap_or(LIMIT)).map(|run| service.shown(run)).collect()))
}

fn at(thread: &str, run: &str) -> Result<RunRef> {
    Ok(RunRef { thread: ids::thread(thread)?, run: ids::run(run)? })
}

async fn one(
    State(service): State<Service>,
    Path((thread, run)): Path<(String, String)>,
) -> Result<Json<Value>> {
    Ok(Json(service.shown(&service.run_row(&at(&thread, &run)?).await?)))
}

async fn join(
    State(service): State<Service>,
    Path((thread, run)): Path<(String, String)>,
) -> Result<Response> {
    let run = at(&thread, &run)?;
    service.run_row(&run).await?;
    let values = service.end(&run).await?;
    Ok((headers(&run, Some("join")), Json(values)).into_response())
}

#[derive(Debug, Deserialize)]
struct Follow {
    #[serde(default)]
    stream_mode: Option<String>,
    #[serde(default)]
    cancel_on_disconnect: Option<String>,
}

async fn follow(
    State(service): State<Service>,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<Follow>,
    request: HeaderMap,
) -> Result<Response> {
    let run = at(&thread, &run)?;
    let names = query.stream_mode.as_deref().unwrap_or("values,updates,messages-tuple,custom");
    let modes = body::modes(names.split(',').map(str::trim).filter(|name| !name.is_empty()))?;
    let after = match request.get("last-event-id").and_then(|id| id.to_str().ok()) {
        None | Some("-1" | "0") => FramePosition::START,
        Some(id) => id.parse().map_err(|error: weftwork_runtime::NoPosition| {
            crate::error::ApiError::invalid(error.to_string())
        })?,
    };
    let frames = service.frames(&run, modes, true, after).await?;
    let cancels = matches!(query.cancel_on_disconnect.as_deref(), Some("1" | "true"));
    let guard = on_leave(&service, &run, cancels);
    let headers = headers(&run, Some("stream"));
    Ok((headers, sse::response(service, run, frames, guard)).into_response())
}

#[derive(Debug, Deserialize)]
struct Cancel {
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    action: CancelAction,
}

async fn cancel(
    State(service): State<Service>,
    Path((thread, run)): Path<(String, String)>,
    Query(Cancel { wait, action }): Query<Cancel>,
) -> Result<Response> {
    let run = at(&thread, &run)?;
    service.cancel(&run, action, wait).await?;
    let status = if wait { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, headers(&run, Some("join")), Json(json!({}))).into_response())
}

/// Headers that name a run, and the place where its end or its events are read.
fn headers(run: &RunRef, place: Option<&str>) -> HeaderMap {
    let path = format!("/threads/{}/runs/{}", run.thread, run.run);
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    if let Some(place) = place {
        set("location", &format!("{path}/{place}"));
    }
    set("content-location", &path);
    headers
}
