//! The protocol over standard streams: a message a line.
//!
//! Each line is a request to the routes, so that both transports have one behaviour. What HTTP has in
//! headers, a line has in its message, and a process has one client: its session is remembered here.

use crate::message::Params;
use crate::peer::{SESSION, encode_header, named_param, version_of_meta};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, Response};
use futures_util::StreamExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt;

/// Maximum length of a line in bytes, as that of a body.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Number of lines that wait to be written.
const LINES_WAITING: usize = 64;
/// Time for open requests to be answered after the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Answers the messages of `input` by routes that need no token, until the input ends. Nothing else is
/// written to `output`.
///
/// # Errors
/// Those of the streams.
///
/// # Cancel safety
/// Calls of the newer version are cancelled, and the runs of older ones continue.
pub async fn serve_lines(
    router: Router,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(LINES_WAITING);
    let lines =
        Lines { router, sender, session: None, open: BTreeMap::new(), work: JoinSet::new() };
    let read = lines.read(BufReader::new(input));
    let write = write_lines(receiver, output);
    let (read, written) = tokio::join!(read, write);
    read.and(written)
}

/// The session of an older client.
#[derive(Debug, Clone)]
struct Session {
    id: Option<HeaderValue>,
    version: String,
}

/// The client of standard streams.
struct Lines {
    router: Router,
    sender: mpsc::Sender<Value>,
    session: Option<Session>,
    /// Requests that have no response yet, by their ids as JSON.
    open: BTreeMap<String, AbortHandle>,
    work: JoinSet<()>,
}

impl Lines {
    async fn read(mut self, mut input: impl AsyncBufRead + Unpin) -> io::Result<()> {
        let mut line = Vec::new();
        while read_line(&mut input, &mut line).await? {
            if !line.trim_ascii().is_empty() && !self.sender.is_closed() {
                self.take(std::mem::take(&mut line)).await;
            }
            line.clear();
            while self.work.try_join_next().is_some() {}
            self.open.retain(|_, request| !request.is_finished());
        }
        let rest = async { while self.work.join_next().await.is_some() {} };
        drop(tokio::time::timeout(LAST_ANSWERS, rest).await);
        Ok(())
    }

    async fn take(&mut self, line: Vec<u8>) {
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let none = Params::new();
        let params = message["params"].as_object().unwrap_or(&none);
        let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
        // What is no message is answered, too.
        let is_answered = id.is_some() || !message.is_object();
        let request = self.request(method, params, line.clone());
        match method {
            // Later messages are of the session that this one begins.
            "initialize" => self.initialize(request, id, is_answered).await,
            "notifications/cancelled" => {
                let cancelled = params.get("requestId").map(ToString::to_string);
                let open = cancelled.and_then(|id| self.open.remove(&id));
                if version_of_meta(params).is_none() && self.session.is_some() {
                    drop(send(&self.router, request).await);
                }
                if let Some(open) = open {
                    open.abort();
                }
            }
            _ => {
                let router = self.router.clone();
                let sender = self.sender.clone();
                let name = id.as_ref().map(ToString::to_string);
                let work = self.work.spawn(async move {
                    let response = send(&router, request).await;
                    let response = Answered { response, id, is_answered };
                    response.forward(&sender).await;
                });
                if let Some(name) = name {
                    self.open.insert(name, work);
                }
            }
        }
    }

    /// Returns the request of HTTP for a message.
    fn request(&self, method: &str, params: &Params, line: Vec<u8>) -> Request<Body> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(version) = version_of_meta(params) {
            request = request
                .header("mcp-protocol-version", encode_header(version))
                .header("mcp-method", encode_header(method));
            if let Some(name) = named_param(method, params) {
                request = request.header("mcp-name", encode_header(name));
            }
        } else if let Some(Session { id, version }) = &self.session {
            request = request.header("mcp-protocol-version", version);
            if let Some(id) = id {
                request = request.header(SESSION, id);
            }
        }
        // The headers above have no characters that headers cannot have.
        request.body(Body::from(line)).unwrap_or_default()
    }

    async fn initialize(&mut self, request: Request<Body>, id: Option<Value>, is_answered: bool) {
        self.session = None;
        let response = send(&self.router, request).await;
        let session = response.headers().get(SESSION).cloned();
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, LINE_BYTES_MAX).await.unwrap_or_default();
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(version) = answer["result"]["protocolVersion"].as_str() {
            self.session = Some(Session { id: session, version: version.to_owned() });
        }
        let response = Response::from_parts(head, Body::from(body));
        Answered { response, id, is_answered }.forward(&self.sender).await;
    }
}

/// Reads a line without its end, or the beginning of one that is too long; `false` at the end of the
/// input.
async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    let mut is_read = false;
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(is_read);
        }
        is_read = true;
        let end = part.iter().position(|byte| *byte == b'\n');
        let content = &part[..end.unwrap_or(part.len())];
        // A byte more than allowed, so that the routes refuse it.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&content[..content.len().min(room)]);
        let used = end.map_or(part.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

async fn send(router: &Router, request: Request<Body>) -> Response<Body> {
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The response of the routes to a message.
struct Answered {
    response: Response<Body>,
    /// Id of the request.
    id: Option<Value>,
    /// `false` for a notification and a response of the client, which get no answer.
    is_answered: bool,
}

impl Answered {
    /// Writes the messages of the response. One to a request names it.
    async fn forward(self, sender: &mpsc::Sender<Value>) {
        let Self { response, id, is_answered } = self;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut body = response.into_body().into_data_stream();
        let mut text = Vec::new();
        while let Some(Ok(bytes)) = body.next().await {
            text.extend_from_slice(&bytes);
            if is_stream {
                forward_events(&mut text, sender).await;
            }
        }
        let Ok(Value::Object(mut message)) = serde_json::from_slice::<Value>(&text) else { return };
        if !is_answered {
            let error = &message["error"]["message"];
            return tracing::warn!(%error, "a notification or response of the client was refused");
        }
        if let Some(id) = id {
            message.entry("id").or_insert(id);
        }
        // The output is closed only with the whole program.
        drop(sender.send(Value::Object(message)).await);
    }
}

/// Writes the data of the events that are complete.
async fn forward_events(text: &mut Vec<u8>, sender: &mpsc::Sender<Value>) {
    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = text.drain(..=end).collect();
        let data = line.strip_prefix(b"data: ".as_slice());
        let message = data.and_then(|data| serde_json::from_slice(data).ok());
        if let Some(message) = message {
            drop(sender.send(message).await);
        }
    }
}

async fn write_lines(
    mut lines: mpsc::Receiver<Value>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        let text = Bytes::from(format!("{line}\n"));
        output.write_all(&text).await?;
        output.flush().await?;
    }
    Ok(())
}
