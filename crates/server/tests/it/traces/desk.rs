//! The runs of which traces are sent: a graph with two tasks beside each other, an agent with tools, and
//! an agent that it asks; and a provider of models on this machine.

use super::collector::Collector;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tower::ServiceExt;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::graph::SubgraphState;
use weftwork::models::{
    ChatModel, ChatRequest, ModelCaller, ModelRegistry, ProviderOverride, ProviderTable,
};
use weftwork::prelude::*;
use weftwork::telemetry::{Parts, Settings, Telemetry};
use weftwork_server::Server;
use weftwork_store::{MemoryStore, Store};
use weftwork_testkit::{LoopbackServer, Received, Reply};
use weftwork_types::port::{Clock, Egress, RunObserver};
use weftwork_types::{MessageId, Principal};

/// Longest wait for the collector.
pub(crate) const WAIT: Duration = Duration::from_secs(20);
/// The trace of the client.
pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// The span of the client.
pub(crate) const SPAN: &str = "00f067aa0ba902b7";

/// A text that no span, metric or log may have.
pub(crate) fn canary(kind: &str) -> String {
    format!("{kind}-quince-7719")
}

/// Looks up an order.
#[tool]
fn look_up(order: String) -> String {
    format!("{order} {}", canary("result"))
}

/// Opens a safe.
#[tool(shown(id))]
fn open_safe(id: String, #[arg(secret)] pin: String) -> Safe {
    Safe { id, content: format!("{pin} {}", canary("hidden")) }
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Safe {
    id: String,
    content: String,
}

/// Pays, which fails.
#[tool]
fn pay(euros: u32) -> Result<String, ToolError> {
    Err(ToolError::failed(format!("{euros} {}", canary("error"))))
}

/// A provider of models on this machine.
pub(crate) struct Lab {
    server: LoopbackServer,
}

impl Lab {
    /// Starts the provider, which refuses the first requests.
    pub(crate) async fn start(refusals: usize) -> Self {
        let refused = AtomicUsize::new(0);
        let answer = move |_: usize, request: &Received| {
            let is_draft = !String::from_utf8_lossy(&request.body).contains("\"tools\"");
            if is_draft && refused.fetch_add(1, Ordering::SeqCst) < refusals {
                let error = json!({"error": {"message": canary("refusal")}}).to_string();
                let headers = [("content-type", "application/json"), ("retry-after", "0")];
                return Reply::full(429, &headers, error);
            }
            reply(request)
        };
        Self { server: LoopbackServer::start(answer).await.expect("a server") }
    }

    /// The model, with a secret key.
    pub(crate) fn model(&self) -> Arc<dyn ChatModel> {
        let settings = json!({"lab": {"url": self.server.url(""), "key_env": "LAB_KEY"}});
        let settings: BTreeMap<String, ProviderOverride> =
            serde_json::from_value(settings).expect("settings");
        let env = |name: &str| (name == "LAB_KEY").then(|| canary("key"));
        let table = ProviderTable::load(&env, &settings).expect("a table");
        let host = table.row("lab").expect("a row").host();
        ModelRegistry::new(&table, &client(host)).resolve("lab:tiny").expect("a model")
    }
}

/// A client that may reach a host.
pub(crate) fn client(host: &str) -> Arc<dyn Egress> {
    let allow = vec![host.parse().expect("a host")];
    let config = EgressConfig { allow, ..EgressConfig::default() };
    Arc::new(GuardedClient::new(config).expect("a client"))
}

/// Answers as each of the agents.
fn reply(request: &Received) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let has = |tool: &str| body["tools"].to_string().contains(tool);
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let is_answered = messages.last().is_some_and(|last| last["role"] == "tool");
    let call = |index: usize, name: &str, args: Value| {
        let function = json!({"name": name, "arguments": args.to_string()});
        json!({"index": index, "id": format!("call_{name}"), "type": "function", "function": function})
    };
    let calls = match is_answered {
        true => Vec::new(),
        false if has("ask_cashier") => vec![
            call(0, "look_up", json!({"order": canary("argument")})),
            call(1, "ask_cashier", json!({"request": canary("request")})),
        ],
        false if has("open_safe") => vec![
            call(0, "open_safe", json!({"id": "A1", "pin": canary("pin")})),
            call(1, "pay", json!({"euros": 5})),
        ],
        false => Vec::new(),
    };
    match calls.is_empty() {
        true => stream(&json!({"content": canary("answer")}), "stop"),
        false => stream(&json!({"tool_calls": calls}), "tool_calls"),
    }
}

fn stream(delta: &Value, reason: &str) -> Reply {
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let choice = |delta: &Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let usage = json!({"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28,
            "prompt_tokens_details": {"cached_tokens": 5}});
        let chunk = json!({"id": "lab-1", "choices": [choice], "usage": usage});
        format!("data: {chunk}\n\n")
    };
    head.piece(choice(delta, Value::Null))
        .piece(choice(&json!({}), json!(reason)))
        .piece("data: [DONE]\n\n")
        .end()
}

/// Asks the model.
async fn draft(ctx: Ctx, model: Deps<Arc<dyn ChatModel>>) -> NodeResult<ChatUpdate> {
    let id = MessageId::new("m1").expect("an id");
    let messages = vec![Message::text(id, Role::User, canary("prompt"))];
    let request = ChatRequest { messages, ..ChatRequest::default() };
    ModelCaller::default().call(&**model, request, ctx.calls()).await?;
    Ok(ChatUpdate::new())
}

/// Two drafts beside each other, and then an agent that asks another one.
pub(crate) fn graph(model: &Arc<dyn ChatModel>) -> CompiledGraph {
    let policy = || Policy::new().allow("*").expect("a name");
    let cashier = ReactAgent::new("cashier", Arc::clone(model))
        .tools(ToolBox::new().with(open_safe).with(pay))
        .policy(policy());
    let cashier = cashier.as_tool("ask_cashier", "pays").expect("sound");
    let clerk = ReactAgent::new("clerk", Arc::clone(model))
        .tools(ToolBox::new().with(look_up).with(cashier))
        .policy(policy());
    let graph = Graph::<Chat>::new("desk").with(Arc::clone(model));
    let graph = graph.node("left", draft).node("right", draft);
    let clerk = clerk.build().expect("sound");
    let graph = graph.subgraph("clerk", clerk, SubgraphState::PerTask);
    let graph = graph.edge(START, "left").edge(START, "right");
    graph.edge("left", "clerk").build().expect("sound")
}

/// A server whose runs are traced.
pub(crate) struct Desk {
    pub(crate) router: Router,
    pub(crate) runtime: Runtime,
    pub(crate) telemetry: Arc<Telemetry>,
}

/// Settings for a collector, with further variables.
pub(crate) fn settings(collector: &Collector, more: &[(&str, &str)]) -> Settings {
    settings_for(&collector.url(), more)
}

pub(crate) fn settings_for(url: &str, more: &[(&str, &str)]) -> Settings {
    let variable = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
        name => more.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()),
    };
    Settings::read(&variable).expect("settings").expect("an endpoint")
}

/// Starts an export.
pub(crate) fn export(
    store: &Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
) -> Arc<Telemetry> {
    let host = settings.hosts().next().expect("a host");
    let parts = Parts { store: Arc::clone(store), clock, egress: client(&host) };
    Arc::new(Telemetry::start(settings, parts))
}

impl Desk {
    pub(crate) async fn open(graph: CompiledGraph, settings: Settings) -> Self {
        Self::over(Arc::new(MemoryStore::new()), graph, settings).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        graph: CompiledGraph,
        settings: Settings,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(weftwork::graph::SystemClock::new());
        let telemetry = export(&store, Arc::clone(&clock), settings);
        let builder = Runtime::builder(store).clock(clock).graph("desk", graph);
        let builder = builder.observer(Arc::clone(&telemetry) as Arc<dyn RunObserver>);
        let runtime = builder.open().await.expect("opens");
        let server = Server::new(runtime.clone()).open_to_all();
        Self { router: server.router().expect("open to all"), runtime, telemetry }
    }

    /// Runs the graph on a thread, for a client with a trace.
    pub(crate) async fn run(&self, thread: &str, parent: Option<&str>) -> Value {
        let text = canary("input");
        let message = json!({"role": "user", "content": text});
        let input = json!({"messages": [message]});
        self.post(thread, parent, json!({"input": input})).await
    }

    pub(crate) async fn post(&self, thread: &str, parent: Option<&str>, more: Value) -> Value {
        let mut body = json!({"assistant_id": "desk", "if_not_exists": "create"});
        for (name, value) in more.as_object().expect("members") {
            body[name] = value.clone();
        }
        let path = format!("/threads/{thread}/runs/wait");
        let mut request = Request::builder().method("POST").uri(path).header("host", "localhost");
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("routes do not fail");
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Waits until everything was sent.
    pub(crate) async fn flush(&self) {
        self.telemetry.flush(WAIT).await;
    }

    pub(crate) async fn close(self) {
        self.runtime.shutdown(Duration::from_secs(5)).await.expect("ends");
    }
}

/// The `traceparent` of the client.
pub(crate) fn sampled() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

/// The log of a run, for messages of tests.
pub(crate) async fn log_of(store: &Arc<dyn Store>, thread: &str) -> String {
    let who = Principal::local();
    let thread = weftwork_types::ThreadId::new(thread).expect("an id");
    let mut text = String::new();
    for run in store.runs(&who, &thread).await.expect("reads") {
        for event in store.events(&who, &run.new.at, 0, 999).await.expect("reads") {
            text.push_str(&format!("{} {} {}\n", event.seq, event.at.0, json!(event.event)));
        }
    }
    text
}
