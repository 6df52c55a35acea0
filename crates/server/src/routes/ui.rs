//! `/ui/`: the page, whose files are part of the program, and its session.

use crate::auth::{Session, is_same_origin};
use crate::body;
use crate::error::{ApiError, Result};
use crate::guard::Allowed;
use crate::service::Service;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{self, HeaderMap};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

/// A file of the page.
struct Asset {
    path: &'static str,
    /// Content type.
    kind: &'static str,
    /// Entity tag: the hash of the file, in quotes.
    tag: &'static str,
    /// The file, compressed with gzip.
    packed: &'static [u8],
}

const ASSETS: &[Asset] = include!("../../ui/assets.in");
/// The page loads nothing of other hosts, and no scripts but its own files. Images of messages are
/// part of their addresses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// Files in this folder have their hash in their name.
const HASHED: &str = "assets/";

pub(super) fn routes(guard: (Arc<Allowed>, Service)) -> Router<Service> {
    Router::new()
        .route("/ui", get(async || Redirect::permanent("/ui/")))
        .route("/ui/", get(async |headers: HeaderMap| file_response("index.html", &headers)))
        .route(
            "/ui/{*path}",
            get(async |Path(path): Path<String>, headers: HeaderMap| {
                file_response(&path, &headers)
            }),
        )
        .route("/ui/session", post(log_in).delete(log_out).with_state(guard))
}

/// Returns a file, or status 304 if the client has it.
fn file_response(path: &str, headers: &HeaderMap) -> Result<Response> {
    let asset = ASSETS.iter().find(|asset| asset.path == path).ok_or_else(ApiError::not_found)?;
    let caching =
        if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let fixed = [
        (header::ETAG, asset.tag),
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    if accepts_value(headers, header::IF_NONE_MATCH, asset.tag) {
        return Ok((StatusCode::NOT_MODIFIED, fixed).into_response());
    }
    if !accepts_value(headers, header::ACCEPT_ENCODING, "gzip") {
        let detail = "the page is compressed; expected `accept-encoding: gzip`";
        return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, detail));
    }
    let kind = [(header::CONTENT_TYPE, asset.kind), (header::CONTENT_ENCODING, "gzip")];
    Ok((fixed, kind, asset.packed).into_response())
}

/// Returns `true` if a list in a header has a value.
fn accepts_value(headers: &HeaderMap, name: header::HeaderName, value: &str) -> bool {
    let lists = headers.get_all(name).iter().filter_map(|list| list.to_str().ok());
    let mut values = lists
        .flat_map(|list| list.split(','))
        .map(|one| one.split(';').next().unwrap_or_default().trim().trim_start_matches("W/"));
    values.any(|found| found == value || found == "*")
}

/// A secret that is exchanged for a session.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Secret {
    Token(String),
    Ticket(String),
}

async fn log_in(
    State((allowed, service)): State<(Arc<Allowed>, Service)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    check_origin(&headers)?;
    let now = service.now();
    let entry = match body::read(&body)? {
        Secret::Token(token) => allowed.tokens.of_token(&token, now),
        Secret::Ticket(ticket) => {
            let token = allowed.tickets.take(&ticket, now);
            token.and_then(|token| allowed.tokens.of_hash(token, now))
        }
    };
    let entry = entry.ok_or_else(|| {
        ApiError::unauthorized(
            "the server does not have this token, or the ticket was used or is old",
        )
    })?;
    Ok(with_cookie(&Session::begin(&headers, &entry.session_secret, now)))
}

async fn log_out(headers: HeaderMap) -> Result<Response> {
    check_origin(&headers)?;
    Ok(with_cookie(&Session::end(&headers)))
}

fn check_origin(headers: &HeaderMap) -> Result<()> {
    let refuse =
        || ApiError::new(StatusCode::FORBIDDEN, "sessions are for the page of this server");
    is_same_origin(headers).then_some(()).ok_or_else(refuse)
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
