//! States and histories of threads.

use crate::body::{self, CheckpointBody, OneOrMany};
use crate::error::{ApiError, Result};
use crate::service::{Query, Service};
use crate::translate::ids;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value};
use weftwork_graph::run_loop::{HistoryFilter, Source};

/// Number of checkpoints of a history without a limit, in a query and in a body.
const LIMITS: (usize, usize) = (1, 10);
/// Maximum number of checkpoints of a history.
const LIMIT_MAX: usize = 1_000;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads/{id}/state", get(newest).post(update))
        .route("/threads/{id}/state/checkpoint", post(at_place))
        .route("/threads/{id}/state/{checkpoint}", get(at))
        .route("/threads/{id}/history", get(history_page).post(history))
}

#[derive(Debug, Deserialize)]
struct Shape {
    #[serde(default)]
    subgraphs: Option<String>,
}

async fn newest(
    service: Service,
    Path(id): Path<String>,
    Query(shape): Query<Shape>,
) -> Result<Json<Value>> {
    let at = CheckpointBody::default();
    service
        .state(&service.thread_id(&id).await?, &at, body::parse_flag(shape.subgraphs.as_deref())?)
        .await
        .map(Json)
}

async fn at(
    service: Service,
    Path((id, checkpoint)): Path<(String, String)>,
    Query(shape): Query<Shape>,
) -> Result<Json<Value>> {
    let at = CheckpointBody { checkpoint_id: Some(checkpoint), ..CheckpointBody::default() };
    let subgraphs = body::parse_flag(shape.subgraphs.as_deref())?;
    let mut state = service.state(&service.thread_id(&id).await?, &at, subgraphs).await?;
    // The path names a checkpoint of the outermost graph, and so does the answer.
    if let Some(place) = state["checkpoint"].as_object_mut() {
        place.remove("checkpoint_ns");
    }
    Ok(Json(state))
}

#[derive(Debug, Deserialize)]
struct StateRequest {
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    #[serde(default)]
    subgraphs: Option<bool>,
}

async fn at_place(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let StateRequest { checkpoint, subgraphs } = body::read(&body)?;
    let at = checkpoint.unwrap_or_default();
    let subgraphs = subgraphs.unwrap_or(false);
    service.state(&service.thread_id(&id).await?, &at, subgraphs).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Update {
    #[serde(default)]
    values: Value,
    #[serde(default)]
    as_node: Option<String>,
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    #[serde(default)]
    checkpoint_id: Option<String>,
}

async fn update(
    service: Service,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<(HeaderMap, Json<Value>)> {
    let Update { values, as_node, checkpoint, checkpoint_id } = body::read(&body)?;
    let mut at = checkpoint.unwrap_or_default();
    at.checkpoint_id = at.checkpoint_id.or(checkpoint_id);
    let thread = service.thread_id(&id).await?;
    let (changed, ignored) = service.update(&thread, &at, values, as_node).await?;
    let mut headers = HeaderMap::new();
    ignored.add_header(&mut headers);
    Ok((headers, Json(changed)))
}

#[derive(Debug, Default, Deserialize)]
struct History {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    before: Option<Before>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    #[serde(default)]
    select: Option<OneOrMany<String>>,
}

/// The checkpoint before which a history begins: its id, or a configuration with it.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the id of a checkpoint, or an object with `configurable` or `checkpoint_id`"
)]
enum Before {
    Id(String),
    Config { configurable: CheckpointBody },
    Place(CheckpointBody),
}

#[derive(Debug, Deserialize)]
struct HistoryPage {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    before: Option<String>,
}

async fn history_page(
    service: Service,
    Path(id): Path<String>,
    Query(HistoryPage { limit, before }): Query<HistoryPage>,
) -> Result<Json<Value>> {
    let history = History {
        limit: Some(limit.unwrap_or(LIMITS.0)),
        before: before.map(Before::Id),
        ..History::default()
    };
    read_history(&service, &id, history).await
}

async fn history(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    read_history(&service, &id, body::read(&body)?).await
}

async fn read_history(service: &Service, id: &str, history: History) -> Result<Json<Value>> {
    let History { limit, before, metadata, checkpoint, select } = history;
    let before = match before {
        Some(Before::Id(id)) => Some(id),
        Some(Before::Config { configurable: place } | Before::Place(place)) => place.checkpoint_id,
        None => None,
    };
    let limit = limit.unwrap_or(LIMITS.1);
    if limit > LIMIT_MAX {
        return Err(ApiError::invalid(format!("`limit` is at most {LIMIT_MAX}")));
    }
    let mut filter = HistoryFilter {
        before: before.as_deref().map(ids::parse_checkpoint).transpose()?,
        limit,
        ..HistoryFilter::default()
    };
    for (name, value) in metadata.unwrap_or_default() {
        match (name.as_str(), &value) {
            ("step", Value::Number(step)) => filter.step = step.as_i64(),
            ("run_id", Value::String(run)) => filter.run = Some(ids::parse_run(run)?),
            ("source", Value::String(source)) => {
                filter.source = Some(match source.as_str() {
                    "input" => Source::Input,
                    "loop" => Source::Loop,
                    "update" => Source::Update,
                    "fork" => Source::Fork,
                    _ => {
                        return Err(ApiError::invalid(format!(
                            "source `{source}` is not known; expected input, loop, update or fork"
                        )));
                    }
                });
            }
            _ => {
                filter.metadata.insert(name, value);
            }
        }
    }
    let at = checkpoint.unwrap_or_default();
    let select = select.map(OneOrMany::into_vec);
    let found =
        service.history(&service.thread_id(id).await?, &at, &filter, select.as_deref()).await?;
    Ok(Json(found.into()))
}
