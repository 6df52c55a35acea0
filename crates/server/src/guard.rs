//! Checks of requests before any route: the host and the origin that they name, who makes them, and
//! the size and the time of their bodies.
//!
//! A page of a browser must not reach a server on a loopback address under another name (DNS
//! rebinding), nor from another origin.

#[cfg(feature = "ui")]
use crate::auth::Tickets;
use crate::auth::external::Authenticator;
use crate::auth::{Client, Tokens, is_same_origin};
use crate::error::ApiError;
use crate::log::LogEntry;
use crate::mounted::{ErrorForm, shape_error};
use crate::operations::{Access, Operations};
use crate::origin::{REQUEST_ID, RequestOrigin};
use crate::service::Service;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::json::ValueCounter;

/// Headers of responses that scripts of other origins may read.
const EXPOSED: &str = "location, content-location, x-pagination-total, x-pagination-next, \
                       x-ignored-input, x-request-id, \
                       x-vercel-ai-data-stream, x-vercel-ai-ui-message-stream, mcp-session-id";
/// Headers that scripts of other origins may send, if they do not ask for some.
const SENT: &str = "content-type, idempotency-key, last-event-id, x-api-key, authorization, \
                    cache-control, user-agent, x-request-id, traceparent, \
                    mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// Maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Maximum number of JSON values in a body, containers included. Each takes hundreds of bytes of
/// memory while a request is processed, however short its text is.
pub(crate) const VALUES_MAX: usize = 100_000;
/// Maximum time for a body to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum length of the path and query of a request in bytes.
const TARGET_BYTES_MAX: usize = 16 << 10;
/// Maximum size of the headers of a request in bytes. Connections read up to about twice as much
/// before they refuse it.
pub(crate) const HEADERS_BYTES_MAX: usize = 32 << 10;
/// The hosts that requests and origins may name, besides loopback names, and the tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed {
    pub(crate) hosts: Vec<String>,
    /// Headers that scripts may send besides [`SENT`].
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) tokens: Tokens,
    /// Function of the program in place of the tokens.
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) operations: Operations,
    /// Forms of the errors of mounted protocols.
    pub(crate) error_forms: Vec<ErrorForm>,
    /// Tickets that were made and not used.
    #[cfg(feature = "ui")]
    pub(crate) tickets: Arc<Tickets>,
}

impl Allowed {
    fn allows(&self, authority: &str) -> bool {
        let host = host(authority);
        let loopback = host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }

    /// Returns the client of a request.
    async fn client(&self, head: &Parts, service: &Service) -> Result<Client, ApiError> {
        match &self.authenticator {
            Some(authenticator) => authenticator.client(head).await,
            None => self.tokens.client(&head.headers, service.now()),
        }
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| self.allows(authority))
    }
}

/// Returns the host of an authority, without port and brackets; an empty text if it has other parts.
fn host(authority: &str) -> &str {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) { host } else { "" }
}

/// Refuses requests of other hosts and origins and without a token, and answers preflights of allowed
/// origins.
pub(crate) async fn check_request(
    State((allowed, service)): State<(Arc<Allowed>, Service)>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let begun = service.now();
    let origin_ids = RequestOrigin::of(request.headers());
    let request_id = HeaderValue::from_str(origin_ids.request.as_str());
    let is_preflight = method == Method::OPTIONS;
    let from_page = is_same_origin(request.headers());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let shares = origin
        .as_ref()
        .is_none_or(|origin| origin.to_str().is_ok_and(|origin| allowed.allows_origin(origin)));
    let mut response = if request.headers().get_all(header::HOST).iter().count() > 1 {
        refuse_request(StatusCode::BAD_REQUEST, "the request has more than one header `host`")
    } else if !allowed.allows(&host_of(&request)) {
        refuse_request(StatusCode::FORBIDDEN, "the host of the request is not allowed")
    } else if !shares {
        refuse_request(StatusCode::FORBIDDEN, "the origin of the request is not allowed")
    } else if method == Method::OPTIONS && origin.is_some() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        match admit_request(&allowed, &service, request, origin_ids).await {
            Ok(request) => next.run(request).await,
            Err(error) => error.into_response(),
        }
    };
    response = shape_error(&allowed.error_forms, &path, response);
    if let Some(origin) = origin.filter(|_| shares) {
        share(response.headers_mut(), origin, wanted, &allowed.headers);
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if is_preflight {
        headers.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    }
    headers.extend(request_id.map(|id| (HeaderName::from_static(REQUEST_ID), id)));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    let status = response.status().as_u16();
    service.count(&method, status);
    if let Some(log) = service.log() {
        log.add(LogEntry::Answered {
            method: method.to_string(),
            path,
            status,
            took: service.now().since(begun),
            from_page,
        });
    }
    response
}

/// Finds out who makes a request, and reads its body.
async fn admit_request(
    allowed: &Allowed,
    service: &Service,
    request: Request,
    origin: RequestOrigin,
) -> Result<Request, ApiError> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > TARGET_BYTES_MAX {
        let detail = format!("the path has {target} bytes; expected at most {TARGET_BYTES_MAX}");
        return Err(ApiError::new(StatusCode::URI_TOO_LONG, detail));
    }
    let (mut head, body) = request.into_parts();
    let sizes = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let bytes: usize = sizes.sum();
    if bytes > HEADERS_BYTES_MAX {
        let detail =
            format!("the headers have {bytes} bytes; expected at most {HEADERS_BYTES_MAX}");
        return Err(ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail));
    }
    let authority = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    if let Some(authority) = authority {
        // Requests of HTTP/2 name their host there.
        head.headers.entry(header::HOST).or_insert(authority);
    }
    authorize_request(allowed, service, &mut head, origin).await?;
    if let Some(kind) = foreign_form(&head.headers) {
        let detail = format!("the body has the type `{kind}`; expected application/json");
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let too_large = || {
        let detail = format!("the body is too large; expected at most {BODY_BYTES_MAX} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse::<usize>().ok()).is_some_and(|n| n > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME_MAX, read_body(body)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(head, Body::from(bytes))),
        Ok(Err(BodyError::TooLarge)) => Err(too_large()),
        Ok(Err(BodyError::TooManyValues)) => Err(too_many_values()),
        Ok(Err(BodyError::Broken)) => {
            Err(ApiError::new(StatusCode::BAD_REQUEST, "the body ended early"))
        }
        Err(_) => {
            let detail = format!("the body did not arrive within {BODY_TIME_MAX:?}");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, detail))
        }
    }
}

/// Finds out who makes a request, and refuses an operation for which the client has no right.
async fn authorize_request(
    allowed: &Allowed,
    service: &Service,
    head: &mut Parts,
    origin: RequestOrigin,
) -> Result<(), ApiError> {
    let matched = head.extensions.get::<MatchedPath>().cloned();
    let route = matched.as_ref().map(MatchedPath::as_str);
    let access = route.and_then(|route| allowed.operations.access(&head.method, route));
    if access == Some(Access::Open) {
        return Ok(());
    }
    let client = match (allowed.client(head, service).await, access) {
        (Err(_), Some(Access::Welcome)) => return Ok(()),
        (client, _) => client?,
    };
    let rights = client.principal.rights;
    match (route, access) {
        (_, Some(access)) if !access.admits(rights) => {
            return Err(ApiError::lacking(access.rights(), rights));
        }
        // A route that is not in the table of operations is not served.
        (Some(route), None) => {
            return Err(ApiError::method_not_allowed(allowed.operations.methods(route)));
        }
        // The route answers, or the fallback for a path without one.
        (_, Some(_)) | (None, None) => {}
    }
    head.extensions.insert(client.of_request(origin));
    Ok(())
}

/// The reason for which a body is not read.
enum BodyError {
    TooLarge,
    TooManyValues,
    /// The client left.
    Broken,
}

/// Reads a body within the limits of its size and of its number of values. What follows too many
/// values is read and dropped, because clients read no answer before they have sent their request.
async fn read_body(body: Body) -> Result<Bytes, BodyError> {
    let mut frames = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut counter = ValueCounter::default();
    let mut size: usize = 0;
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        size = size.saturating_add(frame.len());
        if size > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
        if counter.values() <= VALUES_MAX {
            counter.add(&frame);
            bytes.extend_from_slice(&frame);
        } else {
            bytes = Vec::new();
        }
    }
    if counter.values() > VALUES_MAX { Err(BodyError::TooManyValues) } else { Ok(bytes.into()) }
}

/// The error for more values than a request may have.
pub(crate) fn too_many_values() -> ApiError {
    let detail = format!("the request has too many JSON values; expected at most {VALUES_MAX}");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// Returns the type of a body if a page of another origin can send it without asking: that of a
/// form, or plain text.
fn foreign_form(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let forms = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
    forms.iter().any(|form| kind.eq_ignore_ascii_case(form)).then_some(kind)
}

/// Returns the host that a request names.
fn host_of(request: &Request) -> String {
    match request.headers().get(header::HOST).map(HeaderValue::to_str) {
        Some(Ok(host)) => host.to_owned(),
        _ => request.uri().authority().map(ToString::to_string).unwrap_or_default(),
    }
}

fn refuse_request(status: StatusCode, detail: &str) -> Response {
    ApiError::new(status, detail).into_response()
}

/// Adds the headers by which a browser lets scripts of an allowed origin read a response, and send the
/// headers that they ask for, or else the headers of known clients and `more`. Front ends add headers
/// for tracing and for their proxies.
fn share(
    headers: &mut HeaderMap,
    origin: HeaderValue,
    wanted: Option<HeaderValue>,
    more: &[HeaderName],
) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let usual = || more.iter().cloned().map(HeaderValue::from);
    let sent = match wanted {
        Some(wanted) => vec![wanted],
        None => std::iter::once(HeaderValue::from_static(SENT)).chain(usual()).collect(),
    };
    for names in sent {
        headers.append(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_named_hosts_are_allowed() {
        let hosts = vec!["agents.example".to_owned()];
        let allowed = Allowed { hosts, ..Allowed::default() };
        for host in ["localhost", "LOCALHOST:8123", "127.0.0.1:9", "[::1]:9", "agents.example:443"]
        {
            assert!(allowed.allows(host), "{host}");
            assert!(allowed.allows_origin(&format!("http://{host}")), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost.evil",
            "localhost:80@evil.example",
            "[::1]evil",
            "[::1",
        ] {
            assert!(!allowed.allows(host), "{host}");
        }
        assert!(!allowed.allows_origin("null"));
    }
}
