//! Requests to a router, and what comes back.

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{HeaderMap, Request};
use futures_util::StreamExt;
use serde_json::Value;
use tower::ServiceExt;

/// Returns a request, such as `GET /v1/models`, of the client with a token; of one without a token if it is
/// empty. The host is `localhost` unless a header names one.
pub fn request_of(
    token: &str,
    request: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Body> {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_owned())).expect("a request")
}

/// Sends a request, and reads the whole answer.
pub async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("routes do not fail");
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a whole body");
    let body = String::from_utf8(body.to_vec()).expect("text");
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// Sends a request whose answer is a stream with status 200, whose events come one by one.
pub async fn open(router: &Router, request: Request<Body>) -> Events {
    let response = router.clone().oneshot(request).await.expect("routes do not fail");
    assert_eq!(response.status().as_u16(), 200);
    Events { body: response.into_body().into_data_stream(), text: String::new() }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: String,
}

impl Answer {
    /// The JSON of an answer with status 200.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.any_json()
    }

    /// The JSON of an answer with any status.
    #[track_caller]
    pub fn any_json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }

    /// The member `error` of a refused request.
    #[track_caller]
    pub fn error(&self) -> Value {
        assert!(self.status >= 400, "{}", self.body);
        let body = self.any_json();
        assert!(body["error"]["message"].is_string(), "{body}");
        body["error"].clone()
    }

    /// The data of the server-sent events, but for `[DONE]`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let data = data.filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    /// The messages of JSON-RPC: the body, or the data of its events.
    #[track_caller]
    pub fn messages(&self) -> Vec<Value> {
        let kind = self.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        match kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            true => self.events(),
            false => vec![self.any_json()],
        }
    }

    /// The result of JSON-RPC: the last message, which is no error.
    #[track_caller]
    pub fn result(&self) -> Value {
        let messages = self.messages();
        let last = messages.last().expect("a message");
        assert!(last.get("error").is_none(), "{} {last}", self.status);
        last["result"].clone()
    }

    /// The code of an error of JSON-RPC, whatever the status.
    #[track_caller]
    pub fn code(&self) -> i64 {
        let body = self.any_json();
        body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {body}"))
    }

    /// The reason of an error in the form of `google.rpc.Status`, or its status if it has none.
    #[track_caller]
    pub fn reason(&self) -> String {
        let error = self.error();
        assert_eq!(error["code"], self.status, "{error}");
        let reason = error["details"][0]["reason"].as_str().or(error["status"].as_str());
        reason.expect("a reason").to_owned()
    }

    /// A header.
    #[track_caller]
    pub fn header(&self, name: &str) -> String {
        self.headers[name].to_str().expect("text").to_owned()
    }
}

/// The events of an open stream.
#[derive(Debug)]
pub struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    /// Returns the data of the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let event = line
                    .strip_prefix("data: ")
                    .map(|data| serde_json::from_str(data).expect("JSON"));
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            let bytes = self.body.next().await?.expect("a part");
            self.text.push_str(std::str::from_utf8(&bytes).expect("text"));
        }
    }

    /// Returns the data of all events that follow.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}
