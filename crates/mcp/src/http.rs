//! Streamable HTTP over the egress port.

use crate::limits::Limits;
use crate::lines::readable;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use sse_stream::{Sse, SseStream};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Maximum wait between two pieces of a response. Calls have time limits of their own.
const IDLE: Duration = Duration::from_secs(15 * 60);

type Failure = StreamableHttpError<EgressError>;

/// The HTTP client of a server: the egress port, with limits on all responses.
#[derive(Debug, Clone)]
pub(crate) struct EgressClient {
    egress: Arc<dyn Egress>,
    limits: Limits,
}

/// Creates the transport to an address.
///
/// # Errors
/// The header that cannot be sent.
pub(crate) fn transport(
    client: EgressClient,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<EgressClient>, String> {
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let bad = || format!("header `{}` cannot be sent", crate::text::short(name, 80));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        custom.insert(key, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Returns the error of the egress port among the causes of an error.
pub(crate) fn egress_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a EgressError> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<EgressError>() {
            return Some(found);
        }
        if let Some(Failure::Client(found)) = current.downcast_ref::<Failure>() {
            return Some(found);
        }
        if let Some(found) = current.downcast_ref::<DynamicTransportError>() {
            return egress_cause(found.error.as_ref());
        }
        next = current.source();
    }
    None
}

/// The parts that all requests have.
struct Head {
    url: Arc<str>,
    session: Option<Arc<str>>,
    token: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl EgressClient {
    pub(crate) fn new(egress: Arc<dyn Egress>, limits: Limits) -> Self {
        Self { egress, limits }
    }

    async fn send(
        &self,
        method: Method,
        head: Head,
        own: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<EgressResponse, Failure> {
        let mut headers = own;
        if let Some(session) = head.session {
            headers.push((SESSION.to_owned(), session.to_string()));
        }
        if let Some(token) = head.token {
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        // Their order has no meaning in HTTP.
        headers.extend(head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        }));
        let request = EgressRequest {
            headers,
            body,
            head_timeout: IDLE,
            idle_timeout: IDLE,
            body_max: Some(self.limits.message_bytes as u64),
            ..EgressRequest::new(method, head.url.to_string())
        };
        let response = self.egress.send(request).await.map_err(StreamableHttpError::Client)?;
        match response.status {
            401 | 403 => {
                Err(StreamableHttpError::HttpStatus(HttpStatusError::new(response.status, None)))
            }
            _ => Ok(response),
        }
    }
}

impl StreamableHttpClient for EgressClient {
    type Error = EgressError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let with_session = session_id.is_some();
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let head =
            Head { url: uri, session: session_id, token: auth_header, headers: custom_headers };
        let own = [("accept", "text/event-stream, application/json"), ("content-type", JSON)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let response = self.send(Method::Post, head, own, body).await?;
        let session = response.header(SESSION).map(str::to_owned);
        let (status, kind) = (response.status, kind(&response).to_owned());
        match status {
            202 | 204 => return Ok(StreamableHttpPostResponse::Accepted),
            404 if with_session => return Err(StreamableHttpError::SessionExpired),
            200..=299 if kind == EVENTS => {
                return Ok(StreamableHttpPostResponse::Sse(events(response), session));
            }
            _ => {}
        }
        let text = read(response).await?;
        if (200..=299).contains(&status) {
            // Some servers answer notifications with an empty 200.
            if text.is_empty() && !matches!(message, JsonRpcMessage::Request(_)) {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            let parsed = match readable(&text) {
                Some(repaired) => serde_json::from_str(&repaired)?,
                None => serde_json::from_slice(&text)?,
            };
            return Ok(StreamableHttpPostResponse::Json(parsed, session));
        }
        refused(&message, with_session, status, &text, session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let session = Some(session_id);
        let head = Head { url: uri, session, token: auth_header, headers: custom_headers };
        // A server that keeps no sessions to delete is as good as one that has deleted it.
        self.send(Method::Delete, head, Vec::new(), Bytes::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let head =
            Head { url: uri, session: session_id, token: auth_header, headers: custom_headers };
        let mut own = vec![("accept".to_owned(), EVENTS.to_owned())];
        own.extend(last_event_id.map(|id| (LAST_EVENT.to_owned(), id)));
        let response = self.send(Method::Get, head, own, Bytes::new()).await?;
        match response.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..=299 if kind(&response) == EVENTS => Ok(events(response)),
            200..=299 => {
                Err(StreamableHttpError::UnexpectedContentType(Some(kind(&response).to_owned())))
            }
            status => Err(StreamableHttpError::HttpStatus(HttpStatusError::new(status, None))),
        }
    }
}

/// The media type of a response, without parameters.
fn kind(response: &EgressResponse) -> &str {
    let kind = response.header("content-type").unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

fn events(response: EgressResponse) -> BoxStream<'static, Result<Sse, SseError>> {
    let events = SseStream::from_bytes_stream(response.body);
    let readable = |event: Sse| {
        let repaired = event.data.as_deref().and_then(|data| readable(data.as_bytes()));
        Sse { data: repaired.or(event.data), ..event }
    };
    events.map(move |event| event.map(readable)).boxed()
}

async fn read(mut response: EgressResponse) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = response.body.next().await {
        text.extend_from_slice(&piece.map_err(StreamableHttpError::Client)?);
    }
    Ok(text)
}

/// Handles a response with an error status. Its JSON-RPC error is the answer, if it has one. A
/// server that refuses `server/discover` in another way has an older protocol.
fn refused(
    message: &ClientJsonRpcMessage,
    with_session: bool,
    status: u16,
    text: &[u8],
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(text) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let client_error = StatusCode::from_u16(status).is_ok_and(|status| status.is_client_error());
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && client_error
        && !with_session
    {
        let problem = || ErrorData::invalid_request(format!("HTTP status {status}"), None);
        let problem = error.map_or_else(problem, |error| error.error);
        let answer = ServerJsonRpcMessage::error(problem, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session)),
        None => Err(StreamableHttpError::HttpStatus(HttpStatusError::new(status, None))),
    }
}
