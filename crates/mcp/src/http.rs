//! Streamable HTTP over the egress port.

use crate::connection::Web;
use crate::http_answer::{
    SessionLoss, WORDS_CHARS, describe_status, is_refusal, judge_session, read_answer,
    refused_answer, status_words,
};
use crate::limits::Limits;
use crate::lines::repair_line;
use crate::oauth::{Challenge, OauthError};
use crate::secrets::Secrets;
use crate::text::short;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork_types::port::{EgressRequest, EgressResponse, Method};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Maximum wait between two pieces of a response. Calls have time limits of their own.
const IDLE: Duration = Duration::from_secs(15 * 60);

type Failure = StreamableHttpError<OauthError>;

/// The HTTP client of a server: the egress port, with limits on all responses, and the login.
#[derive(Debug, Clone)]
pub(crate) struct EgressClient {
    web: Web,
    limits: Limits,
    secrets: Secrets,
    sessions: LostSessions,
}

/// Mark of a call whose repetition does no harm, among the extensions of its request. The server does
/// not get it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeatable;

/// Losses of sessions.
#[derive(Debug, Clone, Default)]
struct LostSessions(Arc<Mutex<Losses>>);

#[derive(Debug, Default)]
struct Losses {
    /// Session of which the server has said in the answer to a call that it is lost.
    session: Option<Arc<str>>,
    /// Requests that are sent again because their session was lost.
    repeated: HashSet<RequestId>,
}

impl LostSessions {
    /// Records that a request is sent again in a new session. Returns `false` if it was before.
    fn repeat(&self, request: &RequestId) -> bool {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        losses.repeated.insert(request.clone())
    }

    fn set_lost(&self, session: Option<Arc<str>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).session = session;
    }

    /// Returns `true` once for a session that is lost.
    fn take_lost(&self, session: Option<&Arc<str>>) -> bool {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = losses.session.is_some() && losses.session.as_ref() == session;
        if is_lost {
            losses.session = None;
        }
        is_lost
    }
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
    values: Secrets,
}

impl EgressClient {
    pub(crate) fn new(web: Web, limits: Limits, secrets: Secrets) -> Self {
        Self { web, limits, secrets, sessions: LostSessions::default() }
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
        let values = self.secrets.with_token(head.token.as_deref());
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

    /// Checks if the session of a request is lost, and the request is to be sent again in a new one.
    ///
    /// # Errors
    /// [`Failure::SessionExpired`] if the request was not carried out or may be carried out twice, once
    /// for each request. For others, the outcome is unknown; the next request begins a new session.
    fn check_session(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&Arc<str>>,
        status: u16,
        text: &[u8],
    ) -> Result<(), Failure> {
        let loss = judge_session(status, text).filter(|_| session.is_some());
        let Some(loss) = loss else { return Ok(()) };
        let JsonRpcMessage::Request(request) = message else {
            return Err(StreamableHttpError::SessionExpired);
        };
        if loss == SessionLoss::PerhapsAfterwards && !is_repeatable(message) {
            self.sessions.set_lost(session.cloned());
            return Err(no_answer(status_words(status, text)));
        }
        match self.sessions.repeat(&request.id) {
            true => Err(StreamableHttpError::SessionExpired),
            false => Ok(()),
        }
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
                let scope = challenge.scopes.as_deref().unwrap_or_default();
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
        let session = session_id.clone();
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let is_request = asked.is_some();
        if let Some(asked) = asked.as_ref().filter(|_| self.sessions.take_lost(session.as_ref())) {
            self.sessions.repeat(asked);
            return Err(StreamableHttpError::SessionExpired);
        }
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let head =
            Head { url: uri, session: session_id, token: auth_header, headers: custom_headers };
        let own = [("accept", "text/event-stream, application/json"), ("content-type", JSON)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let request = Request { method: Method::Post, own, body };
        let Sent { response, values: sent } = self.send(head, request).await?;
        let new_session = response.header(SESSION).map(str::to_owned);
        let status = response.status;
        let kind = content_type(&response).to_owned();
        match status {
            202 | 204 if !is_request => return Ok(StreamableHttpPostResponse::Accepted),
            200..=299 if kind == EVENTS => {
                return Ok(StreamableHttpPostResponse::Sse(
                    read_events(response, sent),
                    new_session,
                ));
            }
            _ => {}
        }
        let challenge = Challenge::of(&response);
        let body = String::from_utf8_lossy(&read_body(response).await?).into_owned();
        let text = sent.hide_in_error(status, &body).into_bytes();
        self.check_session(&message, session.as_ref(), status, &text)?;
        if let Some(needed) = self.login_needed(status, &challenge, &text).await {
            return Err(needed);
        }
        // What a server answers to a notification does not matter.
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        // The answer of a server that failed, or of a gateway before it, does not say what the call
        // did, unless it is that of the call itself.
        let is_sure = (200..=299).contains(&status) || is_refusal(status) || !is_call(&message);
        let answer = read_answer(&text, &asked, status, is_sure);
        // Servers of older protocols do not know the first request.
        let is_first = is_discovery(&message) && session.is_none();
        match answer {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            None if is_refusal(status) || is_first => {
                let answer = refused_answer(status, &text, asked);
                Ok(StreamableHttpPostResponse::Json(answer, new_session))
            }
            None if (200..=299).contains(&status) => {
                Err(no_answer(format!("{}, which is no answer", describe_status(status, &text))))
            }
            None => Err(no_answer(describe_status(status, &text))),
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
    sent: Secrets,
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

async fn read_body(mut response: EgressResponse) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = response.body.next().await {
        text.extend_from_slice(&piece.map_err(|error| StreamableHttpError::Client(error.into()))?);
    }
    Ok(text)
}

/// Returns `true` for a call of a tool.
fn is_call(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::CallToolRequest(_))
}

/// Returns `true` for a request that may be carried out twice.
fn is_repeatable(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::CallToolRequest(call) => call.extensions.get::<Repeatable>().is_some(),
        _ => true,
    }
}

/// The error for a request of which it is not known what the server did.
fn no_answer(problem: String) -> Failure {
    StreamableHttpError::Client(OauthError::Unanswered { problem })
}

/// Returns `true` for the first request, which servers of older protocols do not know.
fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::DiscoverRequest(_))
}
