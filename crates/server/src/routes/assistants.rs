//! `/assistants`.

use super::page::{self, Page};
use crate::body::{self, OneOrMany, parse_flag};
use crate::error::{ApiError, Result};
use crate::service::{Changes, Query, Service};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/assistants", post(create))
        .route("/assistants/search", post(search))
        .route("/assistants/count", post(count))
        .route("/assistants/{id}", get(one).patch(change).delete(delete))
        .route("/assistants/{id}/versions", post(versions))
        .route("/assistants/{id}/latest", post(latest))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
        .route("/assistants/{id}/tools", get(tools))
        .route("/assistants/{id}/subgraphs", get(all_subgraphs))
        .route("/assistants/{id}/subgraphs/{namespace}", get(subgraphs))
}

/// The settings of an assistant, all of them optional in changes.
#[derive(Debug, Deserialize)]
struct AssistantBody {
    #[serde(default)]
    assistant_id: Option<String>,
    #[serde(default)]
    graph_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    context: Option<Value>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    if_exists: body::IfExistsBody,
}

impl AssistantBody {
    fn changes(self) -> Changes {
        let Self { graph_id: graph, name, description, config, context, metadata, .. } = self;
        let metadata = metadata.unwrap_or_default();
        Changes { graph, name, description, config, context, metadata }
    }
}

async fn create(service: Service, body: Bytes) -> Result<Json<Value>> {
    let settings: AssistantBody = body::read(&body)?;
    if settings.graph_id.is_none() {
        return Err(ApiError::invalid("\"graph_id\" is a required property"));
    }
    let id = settings.assistant_id.clone();
    let accepts = settings.if_exists.accepts_existing();
    let created = service.create_assistant(id.as_deref(), accepts, settings.changes()).await?;
    Ok(Json(created.shown()))
}

async fn change(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let settings: AssistantBody = body::read(&body)?;
    Ok(Json(service.change_assistant(&id, settings.changes()).await?.shown()))
}

#[derive(Debug, Deserialize)]
struct Deletion {
    #[serde(default)]
    delete_threads: Option<String>,
}

async fn delete(
    service: Service,
    Path(id): Path<String>,
    Query(Deletion { delete_threads }): Query<Deletion>,
) -> Result<StatusCode> {
    service.delete_assistant(&id, parse_flag(delete_threads.as_deref())?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
struct AssistantSearch {
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    graph_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    sort_by: Option<AssistantOrder>,
    #[serde(default)]
    sort_order: Option<page::SortOrder>,
    #[serde(default)]
    select: Option<OneOrMany<String>>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AssistantOrder {
    AssistantId,
    GraphId,
    Name,
    CreatedAt,
    UpdatedAt,
}

async fn search_assistants(service: &Service, search: &AssistantSearch) -> Result<Vec<Value>> {
    let wanted = Value::Object(search.metadata.clone().unwrap_or_default());
    let all = service.assistants().await?;
    let mut found: Vec<_> = all.iter().map(crate::translate::assistant::Assistant::shown).collect();
    let text = |assistant: &Value, name: &str| {
        assistant.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    found.retain(|assistant| {
        body::contains(&assistant["metadata"], &wanted)
            && search.graph_id.as_deref().is_none_or(|id| id == text(assistant, "graph_id"))
            && search.name.as_deref().is_none_or(|name| {
                text(assistant, "name").to_lowercase().contains(&name.to_lowercase())
            })
    });
    let by = match search.sort_by {
        Some(AssistantOrder::AssistantId) => "assistant_id",
        Some(AssistantOrder::GraphId) => "graph_id",
        Some(AssistantOrder::Name) => "name",
        Some(AssistantOrder::UpdatedAt) => "updated_at",
        Some(AssistantOrder::CreatedAt) | None => "created_at",
    };
    // Assistants of graphs have the same times, and are listed by their names in both orders.
    found
        .sort_by_cached_key(|assistant| (text(assistant, "name"), text(assistant, "assistant_id")));
    let is_ascending = matches!(search.sort_order, Some(page::SortOrder::Asc));
    found.sort_by(|one, other| {
        let order = text(one, by).cmp(&text(other, by));
        if is_ascending { order } else { order.reverse() }
    });
    Ok(found)
}

async fn search(service: Service, body: Bytes) -> Result<Response> {
    let search: AssistantSearch = body::read(&body)?;
    let found = search_assistants(&service, &search).await?;
    Ok(page::respond(found, &search.page, search.select)?.into_response())
}

async fn count(service: Service, body: Bytes) -> Result<Json<Value>> {
    let search: AssistantSearch = body::read(&body)?;
    Ok(Json(json!(search_assistants(&service, &search).await?.len())))
}

async fn one(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    Ok(Json(service.assistant(&id).await?.shown()))
}

#[derive(Debug, Deserialize)]
struct VersionsRequest {
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(flatten)]
    page: Page,
}

async fn versions(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let VersionsRequest { metadata, page } = body::read(&body)?;
    let wanted = Value::Object(metadata.unwrap_or_default());
    let mut versions = service.assistant(&id).await?.versions();
    versions.retain(|version| body::contains(&version["metadata"], &wanted));
    Ok(page::respond(versions, &page, None)?.1)
}

#[derive(Debug, Deserialize)]
struct Latest {
    version: u32,
}

async fn latest(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let Latest { version } = body::read(&body)?;
    Ok(Json(service.set_version(&id, version).await?.shown()))
}

#[derive(Debug, Deserialize)]
struct Xray {
    #[serde(default)]
    xray: Option<String>,
}

async fn graph(
    service: Service,
    Path(id): Path<String>,
    Query(Xray { xray }): Query<Xray>,
) -> Result<Json<Value>> {
    let depth = match xray.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("false") => 0,
        Some("true") => usize::MAX,
        Some(depth) => depth
            .parse()
            .map_err(|_| ApiError::invalid("`xray` is true, false or a number of levels"))?,
    };
    Ok(Json(service.graph(&id, depth).await?))
}

async fn schemas(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    service.schemas(&id).await.map(Json)
}

async fn tools(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    service.tools(&id).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Recurse {
    #[serde(default)]
    recurse: Option<String>,
}

async fn all_subgraphs(
    service: Service,
    Path(id): Path<String>,
    Query(Recurse { recurse }): Query<Recurse>,
) -> Result<Json<Value>> {
    service.subgraphs(&id, None, parse_flag(recurse.as_deref())?).await.map(Json)
}

async fn subgraphs(
    service: Service,
    Path((id, namespace)): Path<(String, String)>,
    Query(Recurse { recurse }): Query<Recurse>,
) -> Result<Json<Value>> {
    service.subgraphs(&id, Some(&namespace), parse_flag(recurse.as_deref())?).await.map(Json)
}
