//! A server with agents, a scripted model, webhooks, and clients of two organisations.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::ServiceExt;
use weftwork::models::{ChatRequest, ModelError};
use weftwork::platform::{
    Agents, DefinitionFolder, HostedAgents, NewExposure, RowWriter, Services, read_folder,
};
use weftwork::runtime::Runtime;
use weftwork::runtime::limits::{LimitOwner, LimitRules, UsageLimits};
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::{Policy, ToolError};
use weftwork::types::exposure::{AgentProtocol, ExposureChange};
use weftwork::types::message::Role;
use weftwork::types::port::{CheckUrl, Egress, EgressError, EgressRequest, EgressResponse};
use weftwork::types::{BoxFuture, OrgId, Principal, Right, Rights, Timestamp};
use weftwork_a2a::A2aServer;
use weftwork_server::Server;

/// Writes a line, and returns it.
#[weftwork::tool(
    name = "desk/write",
    effect = external_side_effect,
    example(request = "Write a.", args = {"line": "a"})
)]
fn write(line: String) -> Result<String, ToolError> {
    match line.as_str() {
        "fail" => Err(ToolError::failed("the desk is closed")),
        line => Ok(format!("wrote {line}")),
    }
}

/// The clients, by their tokens.
pub(crate) const ADA: &str = "token-of-ada-in-one";
/// Another subject of the organisation of `ADA`.
pub(crate) const EVE: &str = "token-of-eve-in-one";
pub(crate) const BOB: &str = "token-of-bob-in-two";
/// `ADA` with the rights of one kind.
pub(crate) const READER: &str = "token-of-ada-who-reads";
pub(crate) const RUNNER: &str = "token-of-ada-who-runs";

pub(crate) struct World {
    router: Router,
    pub(crate) server: A2aServer,
    pub(crate) agents: Agents,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) web: Arc<Web>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The result of JSON-RPC.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let body = self.json();
        assert!(body.get("error").is_none(), "{body}");
        body["result"].clone()
    }

    /// The code of the error of JSON-RPC.
    #[track_caller]
    pub(crate) fn code(&self) -> i64 {
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {body}"))
    }

    /// The reason of the error of HTTP+JSON.
    #[track_caller]
    pub(crate) fn reason(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        let error = &body["error"];
        assert_eq!(error["code"], self.status, "{body}");
        let reason = error["details"][0]["reason"].as_str().or(error["status"].as_str());
        reason.expect("a reason").to_owned()
    }

    /// The data of the server-sent events.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

/// Reads a definition from its text.
fn agent(slug: &str, text: &str) -> DefinitionFolder {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join(slug);
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("agent.yaml"), text).expect("is written");
    read_folder(&folder).expect("sound")
}

/// Answers with the text of the user.
pub(crate) fn echo(request: &ChatRequest) -> Step {
    if request.response_schema.is_some() {
        return Step::text(json!({"line": "a"}).to_string());
    }
    let count = request.messages.iter().filter(|message| message.role != Role::System).count();
    Step::text(format!("{count}: {}", last_text(request)))
}

/// The text of the last message of the user.
pub(crate) fn last_text(request: &ChatRequest) -> String {
    let last = request.messages.iter().rev().find(|message| message.role == Role::User);
    last.map(weftwork::types::message::Message::joined_text).unwrap_or_default()
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
        Self::serving(store, model, |server| server).await
    }

    /// A server on which each account may send one request a minute.
    pub(crate) async fn limited() -> Self {
        let rules = LimitRules::from([("requests_per_minute".parse().expect("a limit"), 1)]);
        let limits = UsageLimits::new("UTC").expect("a zone");
        let limits = limits.with(LimitOwner::Account, UsageLimits::ALL, rules).expect("all");
        Self::built(Arc::new(MemoryStore::new()), echo, limits, |server| server).await
    }

    /// A server of agents of which all but `hidden` are exposed.
    pub(crate) async fn serving(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        map: impl FnOnce(A2aServer) -> A2aServer,
    ) -> Self {
        let limits = UsageLimits::new("UTC").expect("a zone");
        Self::built(store, model, limits, map).await
    }

    async fn built(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        limits: UsageLimits,
        map: impl FnOnce(A2aServer) -> A2aServer,
    ) -> Self {
        let clerk = "type: tool\ntools: [desk/write]\nrequires_confirmation: [desk/write]\n";
        let definitions = vec![
            agent("golf", "type: context\ncontext: Answer in short words.\n"),
            agent("clerk", clerk),
            agent("hidden", "type: context\n"),
            agent("own", "type: context\norganization: one\n"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            model(request)
        });
        let web = Arc::new(Web::default());
        let services = Services {
            model: Arc::new(model),
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools: vec![Arc::new(write)],
            policy: Policy::new().allow("desk/*").expect("a pattern"),
            store: Arc::clone(&store),
            sandbox: None,
            egress: web.clone(),
            egress_of_organizations: web.clone(),
            secrets: Arc::new(|_, _| Err("there are none".to_owned())),
        };
        let agents = Agents::new(definitions.into(), services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.limits(limits).open().await.expect("opens");
        let platform = Arc::new(HostedAgents::new(runtime.clone(), agents.clone()));
        let clock = Arc::clone(runtime.clock());
        let a2a = A2aServer::new(platform.clone(), Arc::clone(&store), clock, web.clone());
        let a2a = map(a2a);
        let of =
            |org: &str, subject: &str| Principal::new(OrgId::new(org).expect("valid"), subject);
        let tokens = [
            (ADA, of("one", "ada")),
            (EVE, of("one", "eve")),
            (BOB, of("two", "bob")),
            (READER, of("one", "ada").with_rights(Rights::of(&[Right::Read]))),
            (RUNNER, of("one", "ada").with_rights(Rights::of(&[Right::Read, Right::Run]))),
        ];
        let server = Server::new(runtime).platform(platform);
        let server = a2a.routes().into_iter().fold(server, Server::mount);
        let server = tokens
            .into_iter()
            .fold(server, |server, (token, who)| server.token(token, who).expect("valid"));
        let router = server.router().expect("has tokens");
        let world = Self { router, server: a2a, agents, store, web, asked };
        for (org, slug) in [(None, "golf"), (None, "clerk"), (Some("one"), "own")] {
            world.expose(org, slug, true).await;
        }
        world
    }

    /// Exposes an agent, or no longer.
    pub(crate) async fn expose(&self, org: Option<&str>, slug: &str, is_on: bool) {
        let protocols = [AgentProtocol::A2a].into();
        let change = match is_on {
            true => ExposureChange { on: protocols, ..ExposureChange::default() },
            false => ExposureChange { off: protocols, ..ExposureChange::default() },
        };
        let organization = org.map(str::to_owned);
        let by = RowWriter::Operator;
        let new = NewExposure { organization, slug: slug.to_owned(), change, by };
        self.agents.expose(&*self.store, new, Timestamp(1)).await.expect("exposed");
    }

    /// The number of requests that the model got.
    pub(crate) fn requests(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a whole body");
        let body = String::from_utf8(body.to_vec()).expect("text");
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Opens a stream, whose events come one by one.
    pub(crate) async fn open(&self, token: &str, request: &str, body: &Value) -> Events {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request_of(token, request, &[("a2a-version", "1.0")], &body);
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        assert_eq!(response.status().as_u16(), 200);
        Events { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Sends a request with headers.
    pub(crate) async fn send_with(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send(request_of(token, request, headers, body)).await
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

fn request_of(token: &str, request: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_owned())).expect("a request")
}

/// The events of an open stream.
pub(crate) struct Events {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Events {
    /// Returns the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
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

    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
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
