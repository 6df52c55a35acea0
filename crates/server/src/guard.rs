//! Checks of requests before any route: the host and the origin that they name.
//!
//! The server has no authentication: it listens on loopback addresses, and a page of a browser must
//! not reach it under another name (DNS rebinding).

use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Headers of responses that scripts of other origins may read.
const EXPOSED: &str = "location, content-location, x-pagination-total, x-pagination-next";

/// The hosts that requests and origins may name, besides loopback names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed {
    pub(crate) hosts: Vec<String>,
}

impl Allowed {
    fn allows(&self, authority: &str) -> bool {
        let host = host(authority);
        let loopback = host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| self.allows(authority))
    }
}

/// Returns the host of an authority, without port and brackets.
fn host(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

/// Refuses requests of other hosts and origins, and answers for those that are allowed.
pub(crate) async fn check(
    State(allowed): State<Arc<Allowed>>,
    request: Request,
    next: Next,
) -> Response {
    if !allowed.allows(&host_of(&request)) {
        return refuse("the host of the request is not allowed");
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    if let Some(origin) = &origin
        && !origin.to_str().is_ok_and(|origin| allowed.allows_origin(origin))
    {
        return refuse("the origin of the request is not allowed");
    }
    let preflight = request.method() == Method::OPTIONS && origin.is_some();
    let mut response = match preflight {
        true => StatusCode::NO_CONTENT.into_response(),
        false => next.run(request).await,
    };
    if let Some(origin) = origin {
        share(response.headers_mut(), origin);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

/// Returns the host that a request names.
fn host_of(request: &Request) -> String {
    match request.headers().get(header::HOST).map(HeaderValue::to_str) {
        Some(Ok(host)) => host.to_owned(),
        _ => request.uri().authority().map(ToString::to_string).unwrap_or_default(),
    }
}

fn refuse(detail: &str) -> Response {
    ApiError::new(StatusCode::FORBIDDEN, detail).into_response()
}

fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "content-type, last-event-id, x-api-key, authorization, cache-control",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_named_hosts_are_allowed() {
        let allowed = Allowed { hosts: vec!["agents.example".to_owned()] };
        for host in ["localhost", "LOCALHOST:8123", "127.0.0.1:9", "[::1]:9", "agents.example:443"]
        {
            assert!(allowed.allows(host), "{host}");
            assert!(allowed.allows_origin(&format!("http://{host}")), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil"] {
            assert!(!allowed.allows(host), "{host}");
        }
        assert!(!allowed.allows_origin("null"));
    }
}
