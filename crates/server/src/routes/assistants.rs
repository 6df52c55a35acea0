//! `/assistants`: the hosted graphs.

use super::page;
use crate::body::{self, OneOrMany};
use crate::error::{ApiError, Result};
use crate::service::Service;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/assistants/search", post(search))
        .route("/assistants/count", post(count))
        .route("/assistants/{id}", get(one))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
}

#[derive(Debug, Deserialize)]
struct Search {
    #[serde(default)]
    metadata: Map<String, Value>,
    #[serde(default)]
    graph_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    select: Option<OneOrMany<String>>,
}

fn found(service: &Service, search: &Search) -> Vec<Value> {
    let mut found = service.assistants();
    found.retain(|assistant| {
        let text = |name: &str| assistant[name].as_str().unwrap_or_default();
        let members = search.metadata.iter();
        members.into_iter().all(|(name, value)| assistant["metadata"].get(name) == Some(value))
            && search.graph_id.as_deref().is_none_or(|graph| graph == text("graph_id"))
            && search.name.as_deref().is_none_or(|name| text("name").contains(name))
    });
    found
}

async fn search(State(service): State<Service>, body: Bytes) -> Result<Response> {
    let search: Search = body::read(&body)?;
    let found = found(&service, &search);
    Ok(page::of(found, search.limit, search.offset, search.select).into_response())
}

async fn count(State(service): State<Service>, body: Bytes) -> Result<Json<Value>> {
    let search: Search = body::read(&body)?;
    Ok(Json(json!(found(&service, &search).len())))
}

async fn one(State(service): State<Service>, Path(id): Path<String>) -> Result<Json<Value>> {
    service.assistant(&id).map(Json)
}

#[derive(Debug, Deserialize)]
struct Xray {
    #[serde(default)]
    xray: Option<String>,
}

async fn graph(
    State(service): State<Service>,
    Path(id): Path<String>,
    Query(Xray { xray }): Query<Xray>,
) -> Result<Json<Value>> {
    let depth = match xray.as_deref() {
        None | Some("false") => 0,
        Some("true") => usize::MAX,
        Some(depth) => depth
            .parse()
            .map_err(|_| ApiError::invalid("`xray` is true, false or a number of levels"))?,
    };
    Ok(Json(service.hosted(&id)?.graph.topology(depth)))
}

async fn schemas(State(service): State<Service>, Path(id): Path<String>) -> Result<Json<Value>> {
    let hosted = service.hosted(&id)?;
    Ok(Json(json!({
        "graph_id": hosted.name,
        "input_schema": null,
        "output_schema": null,
        "state_schema": null,
        "config_schema": null,
        "context_schema": null,
    })))
}
