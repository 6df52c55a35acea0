//! A client of the routes, without a network.

use crate::graphs;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;
use weftwork_runtime::Runtime;
use weftwork_server::Server;
use weftwork_types::{OrgId, Principal};

/// All channels of the events of threads.
pub(crate) const CHANNELS: [&str; 9] = [
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
];

/// Returns the token of an organisation: `one` or `two`.
pub(crate) fn token(org: &str) -> String {
    format!("token-of-organisation-{org}")
}

/// Adds the tokens of both organisations to a server.
pub(crate) fn with_tokens(server: Server) -> Server {
    ["one", "two"].into_iter().fold(server, |server, org| {
        let principal = Principal::new(OrgId::new(org).expect("valid"), "ada");
        server.token(token(org), principal).expect("valid")
    })
}

/// A server with the reference graphs.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) router: Router,
    pub(crate) runtime: Runtime,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// `true` if the connection was cut before the end of the body.
    pub(crate) cut: bool,
}

impl Client {
    pub(crate) async fn new() -> Self {
        Self::over(graphs::runtime().await)
    }

    /// Creates a client of a server over a runtime.
    pub(crate) fn over(runtime: Runtime) -> Self {
        Self::of(Server::new(runtime.clone()), runtime)
    }

    /// Creates a client of a server over a runtime, which needs no token.
    pub(crate) fn of(server: Server, runtime: Runtime) -> Self {
        let router = server.open_to_all().router().expect("open to all");
        Self { router, runtime }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await;
        let cut = body.is_err();
        let body = String::from_utf8(body.unwrap_or_default().to_vec()).expect("text");
        Answer { status: head.status, headers: head.headers, body, cut }
    }

    /// Sends a request with the token of an organisation, or without one.
    pub(crate) async fn send_as(
        &self,
        org: Option<&str>,
        method: &str,
        path: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(org) = org {
            request = request.header("authorization", format!("Bearer {}", token(org)));
        }
        self.send(request.body(body.into()).expect("a request")).await
    }

    async fn call(&self, method: &str, path: &str, body: Body) -> Answer {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        self.send(request.body(body).expect("a request")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, Body::empty()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Body::from(body.to_string())).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, Body::from(body.to_owned())).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call("PUT", path, Body::from(body.to_string())).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call("PATCH", path, Body::from(body.to_string())).await
    }

    /// Creates a thread and returns its path.
    pub(crate) async fn thread(&self) -> String {
        let made = self.post("/threads", serde_json::json!({})).await.json();
        format!("/threads/{}", made["thread_id"].as_str().expect("an id"))
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The names and data of server-sent events, with their ids.
    pub(crate) fn events(&self) -> Vec<(String, Value, Option<String>)> {
        let fields = |block: &str, name: &str| {
            block
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|text| text.trim().to_owned())
        };
        let blocks = self.body.split("\n\n").filter(|block| block.contains("event:"));
        let event = |block: &str| {
            let data = fields(block, "data:").unwrap_or_default();
            let data = serde_json::from_str(&data).unwrap_or(Value::Null);
            (fields(block, "event:").expect("a name"), data, fields(block, "id:"))
        };
        blocks.map(event).collect()
    }

    /// The names of server-sent events, without the ids of tasks.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |name: String| name.split(':').next().unwrap_or_default().to_owned();
        self.events().into_iter().map(|event| name(event.0)).collect()
    }
}
