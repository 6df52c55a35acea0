//! `/threads`.

use super::page;
use crate::body::{self, OneOrMany};
use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::translate::ids;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weftwork_store::thread::{Direction, ThreadKey};
use weftwork_store::{IfExists, SearchFrom, ThreadOrder, ThreadQuery, ThreadStatus};

/// Maximum number of results of a search.
const LIMIT_MAX: usize = 1_000;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/search", post(search))
        .route("/threads/count", post(count))
        .route("/threads/{id}", get(one).patch(change).delete(delete))
        .route("/threads/{id}/copy", post(copy))
}

#[derive(Debug, Deserialize)]
struct Create {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    if_exists: Option<IfExistsBody>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IfExistsBody {
    Raise,
    DoNothing,
}

async fn create(State(service): State<Service>, body: Bytes) -> Result<Json<Value>> {
    let Create { thread_id, metadata, if_exists } = body::read(&body)?;
    let if_exists = match if_exists {
        Some(IfExistsBody::DoNothing) => IfExists::Return,
        Some(IfExistsBody::Raise) | None => IfExists::Refuse,
    };
    let metadata = metadata.unwrap_or_default();
    service.create_thread(thread_id.as_deref(), metadata, if_exists).await.map(Json)
}

async fn one(State(service): State<Service>, Path(id): Path<String>) -> Result<Json<Value>> {
    service.thread(&ids::thread(&id)?).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Change {
    #[serde(default)]
    metadata: Map<String, Value>,
}

async fn change(
    State(service): State<Service>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Value>> {
    let Change { metadata } = body::read(&body)?;
    service.set_metadata(&ids::thread(&id)?, metadata).await.map(Json)
}

async fn delete(State(service): State<Service>, Path(id): Path<String>) -> Result<StatusCode> {
    service.delete_thread(&ids::thread(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn copy(State(service): State<Service>, Path(id): Path<String>) -> Result<Json<Value>> {
    service.copy_thread(&ids::thread(&id)?).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Search {
    #[serde(default)]
    ids: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    status: Option<StatusBody>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    sort_by: Option<SortBy>,
    #[serde(default)]
    sort_order: Option<SortOrder>,
    #[serde(default)]
    select: Option<OneOrMany<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatusBody {
    Idle,
    Busy,
    Interrupted,
    Error,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    ThreadId,
    CreatedAt,
    UpdatedAt,
    StateUpdatedAt,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortOrder {
    Asc,
    Desc,
}

impl Search {
    fn query(&self) -> Result<ThreadQuery> {
        let ids = self
            .ids
            .as_ref()
            .map(|ids| ids.iter().map(|id| ids::thread(id)).collect::<Result<BTreeSet<_>>>());
        let status = self.status.map(|status| match status {
            StatusBody::Idle => ThreadStatus::Idle,
            StatusBody::Busy => ThreadStatus::Busy,
            StatusBody::Interrupted => ThreadStatus::Interrupted,
            StatusBody::Error => ThreadStatus::Error,
        });
        let by = match self.sort_by {
            Some(SortBy::ThreadId) => ThreadKey::Id,
            Some(SortBy::CreatedAt) => ThreadKey::CreatedAt,
            Some(SortBy::UpdatedAt | SortBy::StateUpdatedAt) | None => ThreadKey::UpdatedAt,
        };
        let direction = match self.sort_order {
            Some(SortOrder::Asc) => Direction::Ascending,
            Some(SortOrder::Desc) | None => Direction::Descending,
        };
        Ok(ThreadQuery {
            ids: ids.transpose()?,
            metadata: self.metadata.clone().unwrap_or_default(),
            status,
            from: SearchFrom::Start(ThreadOrder { by, direction }),
            ..ThreadQuery::default()
        })
    }
}

async fn search(State(service): State<Service>, body: Bytes) -> Result<Response> {
    let search: Search = body::read(&body)?;
    if search.limit.is_some_and(|limit| limit > LIMIT_MAX) {
        return Err(ApiError::invalid(format!("`limit` is at most {LIMIT_MAX}")));
    }
    let found = service.search(search.query()?).await?;
    Ok(page::of(found, search.limit, search.offset, search.select).into_response())
}

async fn count(State(service): State<Service>, body: Bytes) -> Result<Json<Value>> {
    let search: Search = body::read(&body)?;
    Ok(Json(json!(service.search(search.query()?).await?.len())))
}
