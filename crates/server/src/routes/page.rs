//! Pages of results.

use crate::body::{self, OneOrMany};
use crate::error::{ApiError, Result};
use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Number of results of a search without a limit.
const LIMIT: usize = 10;
/// Maximum number of results of a search.
const LIMIT_MAX: usize = 1_000;

/// The part of the results that a client asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    #[serde(default, deserialize_with = "read_limit")]
    limit: Option<usize>,
    #[serde(default, deserialize_with = "read_offset")]
    offset: Option<usize>,
}

// The members of a flattened struct have no path in errors, so that these name themselves.
fn read_limit<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    Option::deserialize(value).map_err(|error| D::Error::custom(format_args!("`limit`: {error}")))
}

fn read_offset<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    Option::deserialize(value).map_err(|error| D::Error::custom(format_args!("`offset`: {error}")))
}

/// A direction of an order.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SortOrder {
    Asc,
    Desc,
}

impl Page {
    /// Returns the results of the page, with their total number and the offset of the next page as
    /// headers.
    pub(super) fn of<T>(&self, found: Vec<T>) -> Result<(HeaderMap, Vec<T>)> {
        let total = found.len();
        let limit = self.limit.unwrap_or(LIMIT);
        if limit > LIMIT_MAX {
            return Err(ApiError::invalid(format!("`limit` is at most {LIMIT_MAX}")));
        }
        let offset = self.offset.unwrap_or(0);
        let mut headers = HeaderMap::from_iter([(
            HeaderName::from_static("x-pagination-total"),
            HeaderValue::from(total),
        )]);
        let end = offset.saturating_add(limit);
        if end < total {
            headers.insert("x-pagination-next", HeaderValue::from(end));
        }
        Ok((headers, found.into_iter().skip(offset).take(limit).collect()))
    }
}

/// Returns a page of results, with the selected members.
pub(super) fn respond(
    found: Vec<Value>,
    page: &Page,
    select: Option<OneOrMany<String>>,
) -> Result<(HeaderMap, Json<Value>)> {
    let (headers, mut found) = page.of(found)?;
    if let Some(select) = select.map(OneOrMany::into_vec) {
        found.iter_mut().for_each(|result| body::select_members(result, &select));
    }
    Ok((headers, Json(found.into())))
}
