//! A desk whose agents are exposed by A2A, and a network of one webhook.

use axum::Router;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use weftwork::models::ChatRequest;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::Step;
use weftwork::types::BoxFuture;
use weftwork::types::exposure::AgentProtocol;
use weftwork::types::message::Role;
use weftwork::types::port::{CheckUrl, Egress, EgressError, EgressRequest, EgressResponse};
use weftwork_a2a::A2aServer;
pub(crate) use weftwork_protocol_testkit::{
    ADA, Answer, BOB, EVE, Events, READER, RUNNER, last_text,
};
use weftwork_protocol_testkit::{Desk, DeskParts, Model, request_of};
use weftwork_server::Server;

pub(crate) struct World {
    router: Router,
    pub(crate) server: A2aServer,
    pub(crate) desk: Desk,
    pub(crate) web: Arc<Web>,
    model: Model,
}

/// Answers with the text of the user.
pub(crate) fn echo(request: &ChatRequest) -> Step {
    if request.response_schema.is_some() {
        return Step::text(json!({"line": "a"}).to_string());
    }
    let count = request.messages.iter().filter(|message| message.role != Role::System).count();
    Step::text(format!("{count}: {}", last_text(request)))
}

/// A message of a user with a text.
pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(echo).await
    }

    pub(crate) async fn with(model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static) -> Self {
        Self::over(Arc::new(MemoryStore::new()), model).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
    ) -> Self {
        let model = Model::new(model);
        let parts = DeskParts::new(model.clone()).store(store);
        Self::built(parts, model, |server| server).await
    }

    /// A server with the agent `cashier`.
    pub(crate) async fn of_cashier() -> Self {
        let model = Model::new(echo);
        Self::built(DeskParts::new(model.clone()).cashier(), model, |server| server).await
    }

    /// A server on which each account may send one request a minute.
    pub(crate) async fn limited() -> Self {
        let model = Model::new(echo);
        let parts = DeskParts::new(model.clone()).limit("requests_per_minute", 1);
        Self::built(parts, model, |server| server).await
    }

    /// A server of A2A with other settings.
    pub(crate) async fn serving(map: impl FnOnce(A2aServer) -> A2aServer) -> Self {
        let model = Model::new(echo);
        Self::built(DeskParts::new(model.clone()), model, map).await
    }

    async fn built(
        parts: DeskParts,
        model: Model,
        map: impl FnOnce(A2aServer) -> A2aServer,
    ) -> Self {
        let web = Arc::new(Web::default());
        let desk = Desk::open(AgentProtocol::A2a, parts.egress(web.clone())).await;
        let clock = Arc::clone(desk.runtime.clock());
        let store = Arc::clone(&desk.store);
        let a2a = map(A2aServer::new(desk.platform.clone(), store, clock, web.clone()));
        let server = a2a.routes().into_iter().fold(desk.server(), Server::mount);
        Self { router: Desk::router(server), server: a2a, desk, web, model }
    }

    /// The number of requests that the model got.
    pub(crate) fn requests(&self) -> usize {
        self.model.requests().len()
    }

    /// Opens a stream, whose events come one by one.
    pub(crate) async fn open(&self, token: &str, request: &str, body: &Value) -> Events {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request_of(token, request, &[("a2a-version", "1.0")], &body);
        weftwork_protocol_testkit::open(&self.router, request).await
    }

    /// Sends a request with headers.
    pub(crate) async fn send_with(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let request = request_of(token, request, headers, body);
        weftwork_protocol_testkit::send(&self.router, request).await
    }

    /// Sends a request of HTTP+JSON.
    pub(crate) async fn rest(&self, token: &str, request: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_with(token, request, &[("a2a-version", "1.0")], &body).await
    }

    /// Sends a request of JSON-RPC to an agent.
    pub(crate) async fn rpc(
        &self,
        token: &str,
        agent: &str,
        method: &str,
        params: &Value,
    ) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.rest(token, &format!("POST /a2a/{agent}"), &body).await
    }

    /// Sends a text to an agent, and returns the task.
    pub(crate) async fn ask(&self, agent: &str, id: &str, text: &str) -> Value {
        let params = json!({"message": message(id, text)});
        self.rpc(ADA, agent, "SendMessage", &params).await.result()["task"].clone()
    }
}

/// The state of a task.
pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// The text of the first artifact of a task.
pub(crate) fn text_of(task: &Value) -> &str {
    task.pointer("/artifacts/0/parts/0/text").and_then(Value::as_str).unwrap_or_default()
}

/// A network of one webhook, which answers with the next status, or 200.
#[derive(Debug, Default)]
pub(crate) struct Web {
    pub(crate) statuses: Mutex<VecDeque<u16>>,
    received: Mutex<Vec<Received>>,
    arrived: Notify,
}

/// A notification that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Web {
    /// Waits for this many notifications.
    pub(crate) async fn received(&self, count: usize) -> Vec<Received> {
        loop {
            let arrived = self.arrived.notified();
            {
                let received = self.received.lock().expect("no panic");
                if received.len() >= count {
                    return received.clone();
                }
            }
            arrived.await;
        }
    }
}

impl Egress for Web {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let EgressRequest { url, headers, body, .. } = request;
        let body = serde_json::from_slice(&body).expect("JSON");
        self.received.lock().expect("no panic").push(Received { url, headers, body });
        self.arrived.notify_waiters();
        let status = self.statuses.lock().expect("no panic").pop_front().unwrap_or(200);
        let body = Box::pin(futures_util::stream::empty());
        let response = EgressResponse { status, headers: Vec::new(), body };
        Box::pin(std::future::ready(Ok(response)))
    }
}

impl CheckUrl for Web {
    fn check_url(&self, url: &str) -> Result<(), EgressError> {
        match url.starts_with("https://") && !url.contains("10.0.0.1") {
            true => Ok(()),
            false => Err(EgressError::Refused {
                host: "10.0.0.1".to_owned(),
                address: "10.0.0.1".to_owned(),
                class: "private",
                redirect: None,
            }),
        }
    }
}
