//! Streamable HTTP over the egress port.

use crate::connection::Web;
use crate::header_values::HeaderValues;
use crate::limits::Limits;
use crate::lines::repair_line;
use crate::oauth::{Challenge, OauthError};
use crate::text::short;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::port::{EgressError, EgressRequest, EgressResponse, Method};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Error code of servers for a session that they do not know.
const SESSION_NOT_FOUND: i64 = -32001;
/// Words of servers about a session that they do not know.
const SESSION_LOST: [&str; 10] = [
    "no valid session",
    "session not found",
    "session expired",
    "session has expired",
    "session terminated",
    "session does not exist",
    "invalid session",
    "unknown session",
    "missing session",
    "server not initialized",
];
/// Part of an answer that may say why the request failed, in bytes.
const WORDS_BYTES: usize = 4_000;
/// Length of a server's words in an error, in characters.
const WORDS_CHARS: usize = 300;

/// Maximum wait between two pieces of a response. Calls have time limits of their own.
const IDLE: Duration = Duration::from_secs(15 * 60);

type Failure = StreamableHttpError<OauthError>;

/// The HTTP client of a server: the egress port, with limits on all responses, and the login.
#[derive(Debug, Clone)]
pub(crate) struct EgressClient {
    web: Web,
    limits: Limits,
}

/// Creates the transport to an address.
///
/// # Errors
/// The header that cannot be sent.
pub(crate) fn new_transport(
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

/// Returns the error of this client among the causes of an error.
pub(crate) fn http_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a OauthError> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<OauthError>() {
            return Some(found);
        }
        if let Some(Failure::Client(found)) = current.downcast_ref::<Failure>() {
            return Some(found);
        }
        if let Some(found) = current.downcast_ref::<DynamicTransportError>() {
            return http_cause(found.error.as_ref());
        }
        next = current.source();
    }
    None
}

/// The parts that all requests have.
#[derive(Clone)]
struct Head {
    url: Arc<str>,
    session: Option<Arc<str>>,
    token: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
}

/// A request, apart from what all have.
#[derive(Clone)]
struct Request {
    method: Method,
    own: Vec<(String, String)>,
    body: Bytes,
}

/// A response, and the values that its request had.
struct Sent {
    response: EgressResponse,
    values: HeaderValues,
}

impl EgressClient {
    pub(crate) fn new(web: Web, limits: Limits) -> Self {
        Self { web, limits }
    }

    /// Sends a request with the token of the login. A server that refuses the token has not carried
    /// the request out: it is sent once more if there is another token.
    async fn send(&self, mut head: Head, request: Request) -> Result<Sent, Failure> {
        let Some(login) = &self.web.login else { return self.send_once(head, request).await };
        head.token = login.token().await.map_err(StreamableHttpError::Client)?;
        let sent = self.send_once(head.clone(), request.clone()).await?;
        let Some(token) = head.token.filter(|_| sent.response.status == 401) else {
            return Ok(sent);
        };
        match login.renew(&token).await.map_err(StreamableHttpError::Client)? {
            Some(other) => self.send_once(Head { token: Some(other), ..head }, request).await,
            None => Ok(sent),
        }
    }

    async fn send_once(&self, head: Head, request: Request) -> Result<Sent, Failure> {
        let values = HeaderValues::of(head.token.as_deref(), &head.headers);
        let mut headers = request.own;
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
            body: request.body,
            head_timeout: IDLE,
            idle_timeout: IDLE,
            body_max: Some(self.limits.message_bytes as u64),
            ..EgressRequest::new(request.method, head.url.to_string())
        };
        let response = self.web.egress.send(request).await;
        let response = response.map_err(|error| StreamableHttpError::Client(error.into()))?;
        Ok(Sent { response, values })
    }

    /// Returns the error for a response that asks for a login or for more scopes.
    async fn login_needed(
        &self,
        status: u16,
        challenge: &Challenge,
        text: &[u8],
    ) -> Option<Failure> {
        let login = self.web.login.as_ref()?;
        let said = status_words(status, text);
        let problem = match status {
            401 if challenge.resource_metadata.is_some() => said,
            401 => describe_status(status, text),
            403 if challenge.is_insufficient_scope() => {
                let scope = challenge.scope.as_deref().unwrap_or_default();
                if let Err(error) = login.need_scope(scope).await {
                    return Some(StreamableHttpError::Client(error));
                }
                format!("{said}; it asks for the scopes `{}`", short(scope, WORDS_CHARS))
            }
            _ => return None,
        };
        Some(StreamableHttpError::Client(OauthError::needed(problem)))
    }
}

impl StreamableHttpClient for EgressClient {
    type Error = OauthError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let with_session = session_id.is_some();
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let is_request = asked.is_some();
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let head =
            Head { url: uri, session: session_id, token: auth_header, headers: custom_headers };
        let own = [("accept", "text/event-stream, application/json"), ("content-type", JSON)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let request = Request { method: Method::Post, own, body };
        let Sent { response, values: sent } = self.send(head, request).await?;
        let session = response.header(SESSION).map(str::to_owned);
        let status = response.status;
        let kind = content_type(&response).to_owned();
        match status {
            202 | 204 if !is_request => return Ok(StreamableHttpPostResponse::Accepted),
            200..=299 if kind == EVENTS => {
                return Ok(StreamableHttpPostResponse::Sse(read_events(response, sent), session));
            }
            _ => {}
        }
        let challenge = Challenge::of(&response);
        let body = String::from_utf8_lossy(&read_body(response).await?).into_owned();
        let text = sent.hide_in_error(status, &body).into_bytes();
        if with_session && is_session_lost(status, &text) {
            return Err(StreamableHttpError::SessionExpired);
        }
        if let Some(needed) = self.login_needed(status, &challenge, &text).await {
            return Err(needed);
        }
        if !(200..=299).contains(&status) {
            return refuse_request(&message, with_session, status, &text, session);
        }
        // What a server answers to a notification does not matter.
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        let own = address_answer(&text, &asked);
        let own = repair_line(own.as_bytes()).unwrap_or(own);
        // Further messages are notifications, which the answer can do without.
        match serde_json::from_str(answer_of(&own)) {
            Ok(parsed) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
            Err(_) if is_discovery(&message) => {
                Ok(StreamableHttpPostResponse::Json(unknown_answer(status, &text, asked), None))
            }
            Err(_) => Err(broken_connection(format!(
                "{}, which is no answer",
                describe_status(status, &text)
            ))),
        }
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
        let request = Request { method: Method::Delete, own: Vec::new(), body: Bytes::new() };
        self.send(head, request).await.map(drop)
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
        let request = Request { method: Method::Get, own, body: Bytes::new() };
        let Sent { response, values: sent } = self.send(head, request).await?;
        match response.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..=299 if content_type(&response) == EVENTS => Ok(read_events(response, sent)),
            200..=299 => Err(StreamableHttpError::UnexpectedContentType(Some(
                content_type(&response).to_owned(),
            ))),
            status => Err(StreamableHttpError::HttpStatus(HttpStatusError::new(status, None))),
        }
    }
}

/// The media type of a response, without parameters.
fn content_type(response: &EgressResponse) -> &str {
    let kind = response.header("content-type").unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns the events of a response. Events that are no messages are left out.
fn read_events(
    response: EgressResponse,
    sent: HeaderValues,
) -> BoxStream<'static, Result<Sse, SseError>> {
    // The last event may have no empty line after it.
    let end = stream::iter([Ok(Bytes::from_static(b"\n\n"))]);
    let events = SseStream::from_bytes_stream(response.body.chain(end));
    let readable = move |event: Sse| {
        let data = event.data.map(|data| sent.hide_in_error(200, &data));
        let repaired = data.as_deref().and_then(|data| repair_line(data.as_bytes()));
        Sse { data: repaired.or(data), ..event }
    };
    let is_message = |event: &Sse| {
        event.event.as_deref().is_none_or(|name| name.is_empty() || name == "message")
            && event.data.as_deref().is_none_or(|data| data.trim() != "[DONE]" && !is_remark(data))
    };
    let events = events
        .filter(move |event| futures_util::future::ready(event.as_ref().map_or(true, is_message)));
    events.map(move |event| event.map(&readable)).boxed()
}

/// Returns `true` for an error that answers no request. The answer may follow it.
fn is_remark(data: &str) -> bool {
    let message = serde_json::from_str::<Value>(data).unwrap_or_default();
    message["id"].is_null() && message["error"].is_object() && message.get("method").is_none()
}

/// Returns a message with the id of the request that it answers: an error of a server that did not
/// read that id has none.
fn address_answer(text: &[u8], asked: &RequestId) -> String {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let plain = || String::from_utf8_lossy(text).into_owned();
    let Ok(Value::Object(mut members)) = serde_json::from_slice(text) else { return plain() };
    let is_error = members.get("error").is_some_and(|error| !error.is_null());
    if !is_error || members.get("id").is_some_and(|id| id == &json!(asked)) {
        return plain();
    }
    members.insert("id".to_owned(), json!(asked));
    Value::Object(members).to_string()
}

/// Returns the answer among the messages of a response.
fn answer_of(lines: &str) -> &str {
    let is_answer = |line: &&str| {
        let message = serde_json::from_str::<Value>(line).unwrap_or_default();
        message.get("method").is_none()
            && (message.get("result").is_some() || message.get("error").is_some())
    };
    lines.lines().find(is_answer).unwrap_or(lines)
}

/// Returns `true` if a server says that it does not know the session of the request, which it then has
/// not carried out: by status 404, or by an error that has no id, as it is from before the request was
/// read. What a tool says of sessions has the id of the request.
fn is_session_lost(status: u16, text: &[u8]) -> bool {
    let answer = serde_json::from_slice::<Value>(text).unwrap_or_default();
    let error = &answer["error"];
    if !answer["id"].is_null() {
        return (200..=499).contains(&status) && error["code"] == SESSION_NOT_FOUND;
    }
    let said = match (status, error["message"].as_str()) {
        (404, _) => return true,
        (200..=299 | 400..=499, Some(message)) => message.to_lowercase(),
        (400, None) => String::from_utf8_lossy(&text[..text.len().min(WORDS_BYTES)]).to_lowercase(),
        _ => return false,
    };
    SESSION_LOST.iter().any(|words| said.contains(words))
}

async fn read_body(mut response: EgressResponse) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = response.body.next().await {
        text.extend_from_slice(&piece.map_err(|error| StreamableHttpError::Client(error.into()))?);
    }
    Ok(text)
}

/// Handles a response with an error status. Its JSON-RPC error is the answer, if it has one. A
/// server that refuses `server/discover` in another way has an older protocol. A request that was
/// refused by its status was not carried out; what a server did that failed is not known.
fn refuse_request(
    message: &ClientJsonRpcMessage,
    with_session: bool,
    status: u16,
    text: &[u8],
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failure> {
    // What a server answers to a notification does not matter.
    let JsonRpcMessage::Request(request) = message else {
        return Ok(StreamableHttpPostResponse::Accepted);
    };
    let own = address_answer(text, &request.id);
    let own = repair_line(own.as_bytes()).unwrap_or(own);
    let error = match serde_json::from_str::<ServerJsonRpcMessage>(&own) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_refusal = (400..500).contains(&status) && status != 408;
    let is_discovery = is_discovery(message) && !with_session;
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session)),
        None if is_refusal || is_discovery => {
            let answer = unknown_answer(status, text, request.id.clone());
            Ok(StreamableHttpPostResponse::Json(answer, session))
        }
        None => Err(broken_connection(describe_status(status, text))),
    }
}

/// Returns `true` for the first request, which servers of older protocols do not know.
fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::DiscoverRequest(_))
}

/// The answer to a request that a server does not take.
fn unknown_answer(status: u16, text: &[u8], asked: RequestId) -> ServerJsonRpcMessage {
    let problem = ErrorData::invalid_request(describe_status(status, text), None);
    ServerJsonRpcMessage::error(problem, Some(asked))
}

/// The error for a request of which it is not known what the server did.
fn broken_connection(reason: String) -> Failure {
    let error = EgressError::Broken { host: "the server".to_owned(), reason };
    StreamableHttpError::Client(error.into())
}

/// Describes a status with the words of the server, and what to do about it.
fn describe_status(status: u16, text: &[u8]) -> String {
    let advice = match status {
        401 | 403 => {
            "; give the server a token: `\"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}` in the \
             MCP file"
        }
        _ => "",
    };
    format!("{}{advice}", status_words(status, text))
}

/// Describes a status with the words of the server.
fn status_words(status: u16, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(WORDS_BYTES)]);
    let said = match serde_json::from_str::<Value>(&text) {
        Ok(json) => {
            let places = ["/error/message", "/message", "/detail", "/error_description", "/error"];
            let found = places.iter().find_map(|place| json.pointer(place)?.as_str());
            found.map_or_else(|| text.to_string(), str::to_owned)
        }
        // A page: its words without the tags.
        Err(_) if text.trim_start().starts_with('<') => {
            let pieces =
                text.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, t)| t));
            pieces.collect::<Vec<_>>().join(" ")
        }
        Err(_) => text.to_string(),
    };
    let said = short(&said.split_whitespace().collect::<Vec<_>>().join(" "), WORDS_CHARS);
    let separator = if said.is_empty() { "" } else { ": " };
    format!("HTTP status {status}{separator}{said}")
}
