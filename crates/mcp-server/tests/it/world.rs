//! A server with agents, a scripted model, and clients of two organisations.

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{HeaderMap, Request};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tower::ServiceExt;
use weftwork::models::{ChatRequest, ModelError};
use weftwork::platform::{
    Agents, DefinitionFolder, HostedAgents, NewExposure, RowWriter, Services, read_folder,
};
use weftwork::runtime::Runtime;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::{Policy, ToolError};
use weftwork::types::exposure::{AgentProtocol, ExposureChange};
use weftwork::types::message::Role;
use weftwork::types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork::types::{BoxFuture, OrgId, Principal, Right, Rights, Timestamp};
use weftwork_mcp_server::McpServer;
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

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: &str = "2025-11-25";
const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(crate) struct World {
    pub(crate) router: Router,
    /// Routes of the local user, which need no token.
    local: Router,
    pub(crate) agents: Agents,
    pub(crate) store: Arc<dyn Store>,
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
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }

    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let messages = self.messages();
        let last = messages.last().expect("a message");
        assert!(last.get("error").is_none(), "{} {last}", self.status);
        last["result"].clone()
    }

    /// A header.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers[name].to_str().expect("text").to_owned()
    }

    /// The code of the error.
    #[track_caller]
    pub(crate) fn code(&self) -> i64 {
        let body = self.json();
        body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {body}"))
    }

    /// The messages of the body, or of its events.
    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Value> {
        let kind = self.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return vec![self.json()];
        }
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
    if request.response_schema.is_some() || last_text(request).starts_with('{') {
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

/// The metadata of a request of the newer version.
pub(crate) fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Capabilities of a client that puts forms to a person.
pub(crate) fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// Capabilities of a client that puts forms to a person, and knows tasks.
pub(crate) fn tasks() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
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
        Self::serving(store, model, |mcp| mcp).await
    }

    /// A server of agents of which all but `hidden` are exposed.
    pub(crate) async fn serving(
        store: Arc<dyn Store>,
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        map: impl FnOnce(McpServer) -> McpServer,
    ) -> Self {
        let clerk = "type: tool\ntools: [desk/write]\nrequires_confirmation: [desk/write]\n";
        let typed = "type: context\nagent_card: {name: Typed, description: Takes a line}\n\
                     input_schema:\n  type: object\n  properties: {line: {type: string, x-mcp-header: Line}}\n  \
                     required: [line]\noutput_schema:\n  type: object\n  properties: {line: {type: string}}\n  \
                     required: [line]\ndeliverable: {format: json}\n";
        let definitions = vec![
            agent("golf", "type: context\ncontext: Answer in short words.\n"),
            agent("clerk", clerk),
            agent("hidden", "type: context\n"),
            agent("own", "type: context\norganization: one\n"),
            agent("typed-one", typed),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            model(request)
        });
        let web = Arc::new(NoWeb);
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
            egress_of_organizations: web,
            secrets: Arc::new(|_, _| Err("there are none".to_owned())),
        };
        let agents = Agents::new(definitions.into(), services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.open().await.expect("opens");
        let platform = Arc::new(HostedAgents::new(runtime.clone(), agents.clone()));
        let clock = Arc::clone(runtime.clock());
        let mcp = map(McpServer::new(platform.clone(), clock));
        let of =
            |org: &str, subject: &str| Principal::new(OrgId::new(org).expect("valid"), subject);
        let tokens = [
            (ADA, of("one", "ada")),
            (EVE, of("one", "eve")),
            (BOB, of("two", "bob")),
            (READER, of("one", "ada").with_rights(Rights::of(&[Right::Read]))),
            (RUNNER, of("one", "ada").with_rights(Rights::of(&[Right::Read, Right::Run]))),
        ];
        let server = || Server::new(runtime.clone()).platform(platform.clone()).mount(mcp.routes());
        let local = server().open_to_all().router().expect("is open");
        let server = tokens
            .into_iter()
            .fold(server(), |server, (token, who)| server.token(token, who).expect("valid"));
        let router = server.router().expect("has tokens");
        let world = Self { router, local, agents, store, asked };
        let exposed = [(None, "golf"), (None, "clerk"), (Some("one"), "own"), (None, "typed-one")];
        for (org, slug) in exposed {
            world.expose(org, slug, true).await;
        }
        world
    }

    /// Exposes an agent, or no longer.
    pub(crate) async fn expose(&self, org: Option<&str>, slug: &str, is_on: bool) {
        let protocols = [AgentProtocol::Mcp].into();
        let change = match is_on {
            true => ExposureChange { on: protocols, ..ExposureChange::default() },
            false => ExposureChange { off: protocols, ..ExposureChange::default() },
        };
        let organization = org.map(str::to_owned);
        let by = RowWriter::Operator;
        let new = NewExposure { organization, slug: slug.to_owned(), change, by };
        self.agents.expose(&*self.store, new, Timestamp(1)).await.expect("exposed");
    }

    /// The runs of a client, by the routes of the server.
    pub(crate) async fn runs_of(&self, token: &str) -> Vec<Value> {
        let threads = request_of(token, "POST /threads/search", &[], "{}");
        let threads = self.send(threads).await.json();
        let mut runs = Vec::new();
        for thread in threads.as_array().expect("a list") {
            let path =
                format!("GET /threads/{}/runs", thread["thread_id"].as_str().expect("an id"));
            let of_thread = self.send(request_of(token, &path, &[], "")).await.json();
            let of_thread = of_thread.as_array().expect("a list").clone();
            runs.extend(of_thread.into_iter().map(|run| run["run_id"].clone()));
        }
        runs
    }

    pub(crate) fn local(&self) -> Router {
        self.local.clone()
    }

    /// The number of runs of the local user that have not ended, by their threads.
    pub(crate) async fn open_runs(&self) -> usize {
        let threads = request_of("", "POST /threads/search", &[], r#"{"status": "busy"}"#);
        let response = self.local().oneshot(threads).await.expect("routes do not fail");
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let threads: Value = serde_json::from_slice(&body).expect("JSON");
        threads.as_array().expect("a list").len()
    }

    /// The number of requests that the model got.
    pub(crate) fn requests(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    /// Sends a body with headers.
    pub(crate) async fn post(&self, token: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let request = request_of(token, "POST /mcp", headers, body);
        self.send(request).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a whole body");
        let body = String::from_utf8(body.to_vec()).expect("text");
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Opens the stream of a request, whose messages come one by one.
    pub(crate) async fn open(&self, client: &Client, method: &str, params: Value) -> Messages {
        let request = client.request(method, params);
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        assert_eq!(response.status().as_u16(), 200);
        Messages { body: response.into_body().into_data_stream(), text: String::new() }
    }

    pub(crate) async fn ask(&self, client: &Client, method: &str, params: Value) -> Answer {
        self.send(client.request(method, params)).await
    }

    /// Calls a tool with a message.
    pub(crate) async fn call(&self, client: &Client, tool: &str, message: &str) -> Answer {
        let params = json!({"name": tool, "arguments": {"message": message}});
        self.ask(client, "tools/call", params).await
    }

    /// A client of an older version, with its session.
    pub(crate) async fn session(&self, token: &'static str, capabilities: &Value) -> Client {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": LEGACY, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }});
        let begun = self.post(token, &[], &body.to_string()).await;
        assert_eq!(begun.result()["protocolVersion"], LEGACY);
        let session = begun.headers["mcp-session-id"].to_str().expect("text").to_owned();
        Client {
            token,
            id: json!(1),
            session: Some(session),
            capabilities: json!({}),
            streams: true,
        }
    }
}

/// A client, and the id of its next request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) token: &'static str,
    pub(crate) id: Value,
    /// Session of an older version.
    pub(crate) session: Option<String>,
    pub(crate) capabilities: Value,
    /// `true` if it takes streams.
    pub(crate) streams: bool,
}

impl Client {
    /// A client of the newer version.
    pub(crate) fn modern(token: &'static str, capabilities: Value) -> Self {
        Self { token, id: json!(1), session: None, capabilities, streams: true }
    }

    pub(crate) fn id(&self, id: Value) -> Self {
        Self { id, ..self.clone() }
    }

    pub(crate) fn of(&self, token: &'static str) -> Self {
        Self { token, ..self.clone() }
    }

    /// The same without streams.
    pub(crate) fn plain(&self) -> Self {
        Self { streams: false, ..self.clone() }
    }

    pub(crate) fn request(&self, method: &str, mut params: Value) -> Request<Body> {
        let name = ["name", "taskId"].iter().find_map(|name| params.get(*name)?.as_str());
        let name = name.unwrap_or_default().to_owned();
        let accept = match self.streams {
            true => "application/json, text/event-stream",
            false => "application/json",
        };
        let mut headers = vec![("accept", accept)];
        match &self.session {
            Some(session) => {
                headers.extend([("mcp-protocol-version", LEGACY), ("mcp-session-id", session)]);
            }
            None => {
                let given = params["_meta"].take();
                params["_meta"] = meta(&self.capabilities);
                for (key, value) in given.as_object().into_iter().flatten() {
                    params["_meta"][key] = value.clone();
                }
                headers.extend([("mcp-protocol-version", MODERN), ("mcp-method", method)]);
                headers.push(("mcp-name", &name));
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        request_of(self.token, "POST /mcp", &headers, &body.to_string())
    }
}

pub(crate) fn request_of(
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

/// The messages of an open stream.
pub(crate) struct Messages {
    body: BodyDataStream,
    text: String,
}

impl Messages {
    /// Returns the next message; `None` at the end.
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

/// The text of a result.
pub(crate) fn text_of(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default()
}

/// No network.
#[derive(Debug)]
struct NoWeb;

impl Egress for NoWeb {
    fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let refused = EgressError::Refused {
            host: "10.0.0.1".to_owned(),
            address: "10.0.0.1".to_owned(),
            class: "private",
            redirect: None,
        };
        Box::pin(std::future::ready(Err(refused)))
    }
}
