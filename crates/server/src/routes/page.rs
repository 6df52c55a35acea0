//! Pages of results.

use crate::body::OneOrMany;
use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Number of results of a search without a limit.
const LIMIT: usize = 10;

/// Returns a page of results, with their total number and the offset of the next page as headers.
pub(super) fn of(
    found: Vec<Value>,
    limit: Option<usize>,
    offset: usize,
    select: Option<OneOrMany<String>>,
) -> (HeaderMap, Json<Value>) {
    let (total, limit) = (found.len(), limit.unwrap_or(LIMIT));
    let mut headers = HeaderMap::from_iter([(
        HeaderName::from_static("x-pagination-total"),
        HeaderValue::from(total),
    )]);
    let end = offset.saturating_add(limit);
    if end < total {
        headers.insert("x-pagination-next", HeaderValue::from(end));
    }
    let mut page: Vec<Value> = found.into_iter().skip(offset).take(limit).collect();
    if let Some(select) = select.map(OneOrMany::into_vec) {
        for members in page.iter_mut().filter_map(Value::as_object_mut) {
            members.retain(|name, _| select.contains(name));
        }
    }
    (headers, Json(page.into()))
}
