//! `/store`: items of the long-term store.

use crate::body;
use crate::error::{ApiError, Result};
use crate::service::{Query, Service};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroUsize;
use std::time::Duration;
use weftwork_store::{Filter, Indexing, ItemQuery, NamespaceQuery, Pattern, PutOptions, Ttl};

/// Maximum number of results.
const LIMIT_MAX: usize = 1_000;
/// Longest time to live: about ten years, in minutes.
const TTL_MAX: f64 = 5_256_000.0;

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/store/items", put(put_item).get(item).delete(delete))
        .route("/store/items/search", post(search))
        .route("/store/namespaces", post(namespaces))
}

#[derive(Debug, Deserialize)]
struct Put {
    namespace: Vec<String>,
    key: String,
    value: Value,
    /// `false`, or the paths that a search by text covers.
    #[serde(default)]
    index: Option<Index>,
    /// Minutes.
    #[serde(default)]
    ttl: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected `true`, `false`, or a list of paths")]
enum Index {
    All(bool),
    Paths(Vec<String>),
}

async fn put_item(service: Service, body: Bytes) -> Result<StatusCode> {
    let Put { namespace, key, value, index, ttl } = body::read(&body)?;
    let indexing = match index {
        None | Some(Index::All(true)) => Indexing::All,
        Some(Index::All(false)) => Indexing::Off,
        Some(Index::Paths(paths)) => Indexing::Paths(paths),
    };
    let ttl = match ttl {
        None => None,
        Some(minutes) if minutes > 0.0 && minutes <= TTL_MAX => {
            Some(Duration::from_secs_f64(minutes * 60.0))
        }
        Some(minutes) => {
            let detail = format!("`ttl` is {minutes}; expected more than 0, at most {TTL_MAX}");
            return Err(ApiError::invalid(detail));
        }
    };
    service.put_item(namespace, &key, value, PutOptions { ttl, indexing }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
struct At {
    /// Labels with dots between them.
    #[serde(default)]
    namespace: String,
    key: String,
    #[serde(default)]
    refresh_ttl: Option<String>,
}

fn ttl_of(refresh: bool) -> Ttl {
    if refresh { Ttl::Refresh } else { Ttl::Keep }
}

async fn item(service: Service, Query(at): Query<At>) -> Result<Json<Value>> {
    let labels = at.namespace.split('.').map(str::to_owned).collect();
    let ttl = ttl_of(body::parse_flag(at.refresh_ttl.as_deref())?);
    service.item(labels, &at.key, ttl).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Delete {
    namespace: Vec<String>,
    key: String,
}

async fn delete(service: Service, body: Bytes) -> Result<StatusCode> {
    let Delete { namespace, key } = body::read(&body)?;
    service.delete_item(namespace, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
struct ItemSearch {
    #[serde(default)]
    namespace_prefix: Option<Vec<String>>,
    #[serde(default)]
    filter: Option<Value>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    refresh_ttl: Option<bool>,
}

fn check_limit(limit: Option<usize>, usual: usize) -> Result<usize> {
    match limit.unwrap_or(usual) {
        limit if limit <= LIMIT_MAX => Ok(limit),
        _ => Err(ApiError::invalid(format!("`limit` is at most {LIMIT_MAX}"))),
    }
}

async fn search(service: Service, body: Bytes) -> Result<Json<Value>> {
    let search: ItemSearch = body::read(&body)?;
    let filter = match &search.filter {
        None | Some(Value::Null) => Filter::default(),
        Some(filter) => Filter::parse(filter)?,
    };
    let query = ItemQuery {
        filter,
        text: search.query,
        limit: check_limit(search.limit, 10)?,
        offset: search.offset.unwrap_or(0),
        ttl: ttl_of(search.refresh_ttl.unwrap_or(false)),
    };
    service.search_items(search.namespace_prefix.unwrap_or_default(), &query).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct Namespaces {
    #[serde(default)]
    prefix: Option<Vec<String>>,
    #[serde(default)]
    suffix: Option<Vec<String>>,
    #[serde(default)]
    max_depth: Option<NonZeroUsize>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: Option<usize>,
}

async fn namespaces(service: Service, body: Bytes) -> Result<Json<Value>> {
    let wanted: Namespaces = body::read(&body)?;
    let pattern = |labels: Option<Vec<String>>| match labels {
        Some(labels) if !labels.is_empty() => Pattern::new(labels),
        _ => Ok(Pattern::default()),
    };
    let query = NamespaceQuery {
        prefix: pattern(wanted.prefix)?,
        suffix: pattern(wanted.suffix)?,
        depth_max: wanted.max_depth,
        limit: check_limit(wanted.limit, 100)?,
        offset: wanted.offset.unwrap_or(0),
    };
    service.namespaces(&query).await.map(Json)
}
