//! Runs on threads, and runs with a thread of their own.

use crate::awaited;
use crate::body::{self, OnCompletion, OnDisconnect, RunBody, parse_flag};
use crate::error::{ApiError, Result};
use crate::input::Ignored;
use crate::service::{Admission, Bulk, FollowStart, Query, Service, Started};
use crate::sse::{self, CancelOnDrop};
use crate::translate::stream::Requested;
use crate::translate::{ids, rows};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork_runtime::check_key;
use weftwork_types::event::NoPosition;
use weftwork_types::port::TaskCaller;
use weftwork_types::run::{CancelAction, RunRef, RunStatus};
use weftwork_types::{CallChain, Right};

/// Number of runs in a list without a limit.
const LIMIT: usize = 10;
/// Modes of a followed stream if neither the client nor the request for the run names any.
const FOLLOWED: &str = "values,updates,messages-tuple";
/// Maximum number of runs in a batch.
const BATCH_MAX: usize = 100;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads/{thread}/runs", post(create).get(list))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/stream", post(stream))
        .route("/threads/{thread}/runs/{run}", get(one).delete(delete))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/log", get(read_log))
        .route("/threads/{thread}/runs/{run}/stream", get(follow))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
        .route("/runs", post(create))
        .route("/runs/wait", post(wait))
        .route("/runs/stream", post(stream))
        .route("/runs/batch", post(batch))
        .route("/runs/cancel", post(cancel_all))
        .route("/runs/{run}/stream", get(follow_stateless))
}

/// The thread of a run; `None` for a stateless run, which gets one of its own.
type OfThread = Option<Path<String>>;

/// The header with the idempotency key of a run.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Maximum length of an idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Reads a request for a run.
fn run_body(headers: &HeaderMap, body: &Bytes) -> Result<RunBody> {
    let mut body: RunBody = body::read(body)?;
    body.idempotency_key = read_key(headers)?;
    Ok(body)
}

/// Returns the idempotency key of a request.
///
/// # Errors
/// Status 422 for a key that is too long, has other characters than those of ASCII, or is reserved.
pub(crate) fn read_key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| key.len() <= KEY_BYTES_MAX);
    let key = key.ok_or_else(|| {
        ApiError::invalid(format!(
            "`{IDEMPOTENCY_KEY}` has other characters than those of ASCII, or more than {KEY_BYTES_MAX}; send a shorter key, such as a UUID"
        ))
    })?;
    check_key(key)?;
    Ok(Some(key.to_owned()))
}

/// Returns the caller of a task, with the idempotency key and the chain of agents of its request.
///
/// # Errors
/// As [`read_key`], and status 422 for a chain that cannot be read.
pub(crate) fn task_caller(service: &Service, headers: &HeaderMap) -> Result<TaskCaller> {
    let key = read_key(headers)?;
    let chain = match headers.get(CallChain::HEADER) {
        None => CallChain::default(),
        Some(chain) => {
            let read = CallChain::parse(chain.to_str().unwrap_or_default());
            read.map_err(|error| ApiError::invalid(format!("`{}`: {error}", CallChain::HEADER)))?
        }
    };
    Ok(service.task_caller(key, chain))
}

async fn create(
    service: Service,
    thread: OfThread,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let body = run_body(&headers, &body)?;
    let Created { run, shown, ignored } =
        create_run(&service, &thread, &body, Admission::Now).await?;
    let mut headers = headers_of(&run, None);
    ignored.add_header(&mut headers);
    Ok((headers, Json(shown)).into_response())
}

/// A run as it was accepted.
struct Created {
    run: RunRef,
    shown: Value,
    ignored: Ignored,
}

/// Requests a run, and returns it as it was accepted; with a key, as it is.
async fn create_run(
    service: &Service,
    thread: &OfThread,
    body: &RunBody,
    admission: Admission,
) -> Result<Created> {
    let started = service.start_as(thread_name(thread), body, admission).await?;
    let Started { handle, ignored } = started;
    let run = handle.run;
    let mut row = service.run_row(&run).await?;
    if body.idempotency_key.is_none() {
        row.status = RunStatus::Pending;
        row.ended_at = None;
    }
    if is_temporary(thread, body) {
        service.delete_later(run.clone(), handle.outcome);
    }
    Ok(Created { run, shown: service.shown(&row), ignored })
}

async fn batch(service: Service, body: Bytes) -> Result<Json<Value>> {
    let bodies: Vec<RunBody> = body::read(&body)?;
    if bodies.len() > BATCH_MAX {
        return Err(ApiError::invalid(format!("a batch has at most {BATCH_MAX} runs")));
    }
    if !bodies.is_empty() {
        // All of them, or none.
        service.admit_start(bodies.len() as u64).await?;
    }
    let mut runs = Vec::new();
    for body in &bodies {
        runs.push(create_run(&service, &None, body, Admission::Before).await?.shown);
    }
    Ok(Json(runs.into()))
}

async fn wait(
    service: Service,
    thread: OfThread,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let body = run_body(&headers, &body)?;
    let Started { handle, ignored } = service.start(thread_name(&thread), &body).await?;
    let run = handle.run;
    let guard = on_leave(&service, &run, body.on_disconnect == OnDisconnect::Cancel);
    let outcome = handle.outcome.shared();
    if is_temporary(&thread, &body) {
        service.delete_later(run.clone(), Box::pin(outcome.clone()));
    }
    let mut headers = headers_of(&run, Some("join"));
    ignored.add_header(&mut headers);
    let waiting = service.clone();
    let values = async move {
        let outcome = outcome.await;
        if let Some(guard) = guard {
            guard.disarm();
        }
        waiting.values(&run, outcome).await
    };
    Ok(awaited::response(service, headers, Box::pin(values)))
}

async fn stream(
    service: Service,
    thread: OfThread,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let body = run_body(&headers, &body)?;
    let modes = body.modes()?;
    let Started { handle, ignored } = service.start(thread_name(&thread), &body).await?;
    let run = handle.run;
    let (frames, translator) =
        service.frames(&run, modes, body.stream_subgraphs, FollowStart::Start).await?;
    let guard = on_leave(&service, &run, body.on_disconnect == OnDisconnect::Cancel);
    if is_temporary(&thread, &body) {
        service.delete_later(run.clone(), handle.outcome);
    }
    let place = stream_place(modes, body.stream_subgraphs);
    let mut headers = match thread {
        Some(_) => headers_of(&run, Some(&place)),
        None => headers_at(&format!("/runs/{}", run.run), Some(&place)),
    };
    ignored.add_header(&mut headers);
    Ok((headers, sse::response(service, run, frames, translator, guard)).into_response())
}

fn thread_name(thread: &OfThread) -> Option<&str> {
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
    /// Includes the runs that were replaced or rolled back.
    #[serde(default)]
    replaced: Option<String>,
}

async fn list(
    service: Service,
    Path(thread): Path<String>,
    Query(List { limit, offset, status, replaced }): Query<List>,
) -> Result<Json<Value>> {
    let mut runs = service.runs(&service.thread_id(&thread).await?).await?;
    if !parse_flag(replaced.as_deref())? {
        runs.retain(|run| run.rolled_back_by.is_none());
    }
    let runs = runs.iter().filter(|run| {
        status.as_deref().is_none_or(|status| status == rows::status_word(run.status))
    });
    let shown = runs.skip(offset).take(limit.unwrap_or(LIMIT)).map(|run| {
        let mut shown = service.shown(run);
        if let Some(by) = &run.rolled_back_by {
            shown["replaced_by"] = json!(by);
        }
        shown
    });
    Ok(Json(shown.collect()))
}

async fn run_at(service: &Service, thread: &str, run: &str) -> Result<RunRef> {
    Ok(RunRef { thread: service.thread_id(thread).await?, run: ids::parse_run(run)? })
}

async fn one(service: Service, Path((thread, run)): Path<(String, String)>) -> Result<Json<Value>> {
    Ok(Json(service.shown(&service.run_row(&run_at(&service, &thread, &run).await?).await?)))
}

async fn delete(
    service: Service,
    Path((thread, run)): Path<(String, String)>,
) -> Result<StatusCode> {
    service.delete_run(&run_at(&service, &thread, &run).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn join(service: Service, Path((thread, run)): Path<(String, String)>) -> Result<Response> {
    let run = run_at(&service, &thread, &run).await?;
    service.run_row(&run).await?;
    let headers = headers_of(&run, Some("join"));
    let waiting = service.clone();
    let values = async move { waiting.end(&run).await };
    Ok(awaited::response(service, headers, Box::pin(values)))
}

async fn read_log(
    service: Service,
    Path((thread, run)): Path<(String, String)>,
) -> Result<Json<Value>> {
    Ok(Json(service.run_log(&run_at(&service, &thread, &run).await?).await?))
}

/// The parameters of a stream. Clients repeat the parameter of the modes, or separate them by commas.
type Follow = Vec<(String, String)>;

async fn follow(
    service: Service,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<Follow>,
    request: HeaderMap,
) -> Result<Response> {
    let at = run_at(&service, &thread, &run).await?;
    follow_run(service, at, query, &request).await
}

async fn follow_stateless(
    service: Service,
    Path(run): Path<String>,
    Query(query): Query<Follow>,
    request: HeaderMap,
) -> Result<Response> {
    let run = service.find_run(&ids::parse_run(&run)?).await?;
    follow_run(service, run, query, &request).await
}

async fn follow_run(
    service: Service,
    run: RunRef,
    query: Follow,
    request: &HeaderMap,
) -> Result<Response> {
    let values = |name| query.iter().filter(move |pair| pair.0 == name).map(|pair| &*pair.1);
    // Servers of LangGraph ignore the second name here, so that clients of both can send it.
    let names = values("stream_mode").chain(values("stream_modes")).map(str::to_owned);
    let mut names: Vec<String> = names.collect();
    if names.iter().all(String::is_empty) {
        names = service.run_row(&run).await?.new.options.stream_modes;
    }
    if names.is_empty() {
        names.push(FOLLOWED.to_owned());
    }
    let names = names.iter().flat_map(|names| names.split(',')).map(str::trim);
    let modes = body::parse_modes(names.filter(|name| !name.is_empty()))?;
    let cancels = parse_flag(values("cancel_on_disconnect").next_back())?;
    if cancels {
        service.require(Right::Run)?;
    }
    let subgraphs = values("stream_subgraphs").next_back();
    let subgraphs = subgraphs.is_none() || parse_flag(subgraphs)?;
    let place = match request.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
        None => FollowStart::Unknown,
        Some("-1" | "0") => FollowStart::Start,
        Some(id) => match id.parse() {
            Ok(received) => FollowStart::After(received),
            Err(problem) if id.parse::<u64>().is_ok() => FollowStart::Foreign(problem),
            Err(problem) => return Err(last_event_id(&problem)),
        },
    };
    let (frames, translator) = service.frames(&run, modes, subgraphs, place).await?;
    let guard = on_leave(&service, &run, cancels);
    let headers = headers_of(&run, Some(&stream_place(modes, subgraphs)));
    Ok((headers, sse::response(service, run, frames, translator, guard)).into_response())
}

/// The place of a stream beneath its run. Clients that lose their connection request it as it is.
fn stream_place(modes: Requested, subgraphs: bool) -> String {
    format!("stream?stream_mode={}&stream_subgraphs={subgraphs}", modes.names())
}

fn last_event_id(problem: &NoPosition) -> ApiError {
    let found = &problem.found;
    let expected = "the id of an event of this stream, or -1 for all events";
    ApiError::invalid(format!("`last-event-id` is `{found}`; expected {expected}"))
}

#[derive(Debug, Deserialize)]
struct Cancel {
    #[serde(default)]
    wait: Option<String>,
    #[serde(default)]
    action: CancelAction,
}

async fn cancel(
    service: Service,
    Path((thread, run)): Path<(String, String)>,
    Query(Cancel { wait, action }): Query<Cancel>,
) -> Result<Response> {
    let run = run_at(&service, &thread, &run).await?;
    let wait = parse_flag(wait.as_deref())?;
    service.cancel(&run, action, wait).await?;
    let status = if wait { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, headers_of(&run, Some("join")), Json(json!({}))).into_response())
}

#[derive(Debug, Deserialize)]
struct CancelAll {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    run_ids: Option<Vec<String>>,
    #[serde(default)]
    status: Option<Unfinished>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Unfinished {
    Pending,
    Running,
    All,
}

async fn cancel_all(
    service: Service,
    Query(Cancel { action, .. }): Query<Cancel>,
    body: Bytes,
) -> Result<StatusCode> {
    let CancelAll { thread_id, run_ids, status } = body::read(&body)?;
    let bulk = match (thread_id, run_ids, status) {
        (None, None, Some(status)) => Bulk::Unfinished {
            pending: status != Unfinished::Running,
            running: status != Unfinished::Pending,
        },
        (Some(thread), Some(runs), None) => Bulk::Runs {
            thread: service.thread_id(&thread).await?,
            runs: runs.iter().map(|run| ids::parse_run(run)).collect::<Result<_>>()?,
        },
        _ => {
            let detail = "expected either `status`, or `thread_id` with `run_ids`";
            return Err(ApiError::invalid(detail));
        }
    };
    service.cancel_all(bulk, action).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Headers that name a run, and the place where its end or its events are read.
fn headers_of(run: &RunRef, place: Option<&str>) -> HeaderMap {
    headers_at(&format!("/threads/{}/runs/{}", run.thread.to_path(), run.run), place)
}

fn headers_at(path: &str, place: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    if let Some(place) = place {
        set("location", &format!("{path}/{place}"));
    }
    set("content-location", path);
    headers
}
