//! A desk whose agents are exposed as MCP tools.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::models::ChatRequest;
use weftwork::store::{MemoryStore, Store};
use weftwork::testing::Step;
use weftwork::tools::{Questions, Replies, ToolError, ToolOutput, question};
use weftwork::types::exposure::AgentProtocol;
use weftwork::types::message::Role;
use weftwork_mcp_server::McpServer;
pub(crate) use weftwork_protocol_testkit::{
    ADA, Answer, BOB, EVE, Events, READER, RUNNER, last_text, request_of,
};
use weftwork_protocol_testkit::{Agent, Desk, DeskParts, Model};

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: &str = "2025-11-25";
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// An agent that takes a line, and gives one.
const TYPED: &str = "\
type: context
agent_card: {name: Typed, description: Takes a line}
input_schema:
  type: object
  properties: {line: {type: string, x-mcp-header: Line}}
  required: [line]
output_schema:
  type: object
  properties: {line: {type: string}}
  required: [line]
deliverable: {format: json}
";

/// Greets a person, for whose name it asks.
#[weftwork::tool(
    name = "desk/greet",
    effect = external_side_effect,
    example(request = "Greet a.", args = {"line": "a"})
)]
fn greet(line: String, replies: Option<Replies>) -> Result<ToolOutput<String>, ToolError> {
    let Some(replies) = replies else {
        return Ok(Questions::new([question::<String>("Whom?")]).into());
    };
    let name = replies.content::<String>(0)?.unwrap_or_default();
    Ok(ToolOutput::Value(format!("{line}: hello, {name}")))
}

pub(crate) struct World {
    router: Router,
    /// Routes of the local user, which need no token.
    local: Router,
    pub(crate) desk: Desk,
    model: Model,
}

/// Answers with the text of the user.
pub(crate) fn echo(request: &ChatRequest) -> Step {
    if request.response_schema.is_some() || last_text(request).starts_with('{') {
        return Step::text(json!({"line": "a"}).to_string());
    }
    let count = request.messages.iter().filter(|message| message.role != Role::System).count();
    Step::text(format!("{count}: {}", last_text(request)))
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
        Self::built(model, |parts| parts.store(store), |mcp| mcp).await
    }

    /// A server with the agent `cashier`.
    pub(crate) async fn of_cashier() -> Self {
        Self::built(echo, |parts| parts.cashier(), |mcp| mcp).await
    }

    /// A server with the agent `greeter`, which asks for a text.
    pub(crate) async fn of_greeter() -> Self {
        let greeter = || Agent::new("greeter", "type: tool\ntools: [desk/greet]\n");
        Self::built(echo, |parts| parts.tool(greet).agent(greeter()), |mcp| mcp).await
    }

    /// A server on which each account may send one request a minute.
    pub(crate) async fn limited() -> Self {
        Self::built(echo, |parts| parts.limit("requests_per_minute", 1), |mcp| mcp).await
    }

    /// A server with other settings of the protocol.
    pub(crate) async fn serving(map: impl FnOnce(McpServer) -> McpServer) -> Self {
        Self::built(echo, |parts| parts, map).await
    }

    async fn built(
        model: impl Fn(&ChatRequest) -> Step + Send + Sync + 'static,
        with: impl FnOnce(DeskParts) -> DeskParts,
        map: impl FnOnce(McpServer) -> McpServer,
    ) -> Self {
        let model = Model::new(model);
        let parts = DeskParts::new(model.clone()).agent(Agent::new("typed-one", TYPED));
        let desk = Desk::open(AgentProtocol::Mcp, with(parts)).await;
        let clock = Arc::clone(desk.runtime.clock());
        let mcp = map(McpServer::new(desk.platform.clone(), clock));
        let server = || desk.server().mount(mcp.routes());
        let local = server().open_to_all().router().expect("is open");
        Self { router: Desk::router(server()), local, desk, model }
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
        let threads = weftwork_protocol_testkit::send(&self.local, threads).await.json();
        threads.as_array().expect("a list").len()
    }

    /// The number of requests that the model got.
    pub(crate) fn requests(&self) -> usize {
        self.model.requests().len()
    }

    /// Sends a body with headers.
    pub(crate) async fn post(&self, token: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send(request_of(token, "POST /mcp", headers, body)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        weftwork_protocol_testkit::send(&self.router, request).await
    }

    /// Opens the stream of a request, whose messages come one by one.
    pub(crate) async fn open(&self, client: &Client, method: &str, params: Value) -> Events {
        let request = client.request(method, params);
        weftwork_protocol_testkit::open(&self.router, request).await
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

/// The text of a result.
pub(crate) fn text_of(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default()
}
