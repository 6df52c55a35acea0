//! A server with graphs, and local graphs with remote nodes.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_graph::channel::{LastValue, Messages};
use weftwork_graph::run_loop::SubgraphState;
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, Input, NodeError, NodeResult, START,
    Semantics, State,
};
use weftwork_remote::{RemoteGraph, RemoteServer};
use weftwork_runtime::Runtime;
use weftwork_server::Server;
use weftwork_store::memory::MemoryStore;
use weftwork_store::{RunRow, Store};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Egress;
use weftwork_types::{BoxFuture, Principal};

/// The other server.
pub(crate) struct There {
    pub(crate) url: String,
    pub(crate) runtime: Runtime,
    pub(crate) gate: Arc<Gate>,
}

/// A node that waits until it is let through, and counts its calls.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) calls: AtomicU32,
    pub(crate) entered: Semaphore,
    pub(crate) open: Semaphore,
}

pub(crate) fn last(name: &'static str) -> ChannelDef {
    ChannelDef::new(name, LastValue::<Value>::new())
}

fn graph(name: &str, channels: Vec<ChannelDef>) -> Graph<Dynamic> {
    Graph::dynamic(name, channels).semantics(Semantics::langgraph())
}

pub(crate) fn text(state: &State<Dynamic>, name: &str) -> String {
    state.get(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn parent() -> CompiledGraph {
    async fn pre(state: State<Dynamic>, ctx: Ctx) -> DynUpdate {
        ctx.emit(json!({"progress": 1}));
        DynUpdate::new().write("msg", json!(format!("pre-{}", text(&state, "msg"))))
    }
    async fn echo(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("out", json!(format!("echo:{}", text(&state, "msg"))))
    }
    let channels = || vec![last("msg"), last("out")];
    let sub = graph("echo", channels()).node("echo", echo).edge(START, "echo").build();
    graph("parent", channels())
        .node("pre", pre)
        .subgraph("sub", sub.expect("sound"), SubgraphState::PerTask)
        .edge(START, "pre")
        .edge("pre", "sub")
        .build()
        .expect("sound")
}

fn inter() -> CompiledGraph {
    async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!({"question": "approve?", "q": text(&state, "q")}))?;
        Ok(DynUpdate::new().write("answer", answer))
    }
    async fn other(ctx: Ctx) -> NodeResult<DynUpdate> {
        Ok(DynUpdate::new().write("other", ctx.interrupt(json!("and you?"))?))
    }
    async fn done(state: State<Dynamic>) -> DynUpdate {
        let note = format!("done:{}:{}", text(&state, "answer"), text(&state, "other"));
        DynUpdate::new().write("note", json!(note))
    }
    graph("inter", vec![last("q"), last("answer"), last("other"), last("note")])
        .node("ask", ask)
        .node("other", other)
        .node("done", done)
        .edge(START, "ask")
        .edge(START, "other")
        .join(["ask", "other"], "done")
        .build()
        .expect("sound")
}

fn failing() -> CompiledGraph {
    async fn boom(_: State<Dynamic>) -> NodeResult<DynUpdate> {
        Err(NodeError::of_kind("ValueError", "boom!"))
    }
    graph("failing", vec![last("q")]).node("boom", boom).edge(START, "boom").build().expect("sound")
}

fn gated(gate: Arc<Gate>) -> CompiledGraph {
    let wait = move |_: Input, ctx: Ctx| {
        let gate = Arc::clone(&gate);
        async move {
            ctx.emit(json!({"progress": 1}));
            let calls = gate.calls.fetch_add(1, Ordering::SeqCst) + 1;
            gate.entered.add_permits(1);
            gate.open.acquire().await.expect("never closed").forget();
            DynUpdate::new().write("out", json!(format!("call {calls}")))
        }
    };
    graph("gated", vec![last("msg"), last("out")])
        .node("wait", wait)
        .edge(START, "wait")
        .build()
        .expect("sound")
}

/// A conversation that counts the messages it has, and says the number in two pieces. It waits for
/// the gate before the end if the last message is `wait`.
fn talk(gate: Arc<Gate>) -> CompiledGraph {
    let say = move |state: State<Dynamic>, ctx: Ctx| {
        let gate = Arc::clone(&gate);
        async move {
            let messages = state.get("messages").unwrap_or_default();
            let messages: Vec<Message> = serde_json::from_value(messages).expect("messages");
            let id = ctx.message_id();
            let number = messages.len().to_string();
            ctx.token(&id, "messages: ");
            ctx.token(&id, &number);
            if messages.last().is_some_and(|last| last.joined_text() == "wait") {
                gate.open.acquire().await.expect("never closed").forget();
            }
            let message = Message::text(id, Role::Assistant, format!("messages: {number}"));
            DynUpdate::new().write("messages", json!([message]))
        }
    };
    graph("talk", vec![ChannelDef::new("messages", Messages)])
        .node("say", say)
        .edge(START, "say")
        .build()
        .expect("sound")
}

impl There {
    /// Starts a server with the graphs.
    pub(crate) async fn start() -> Self {
        let gate = Arc::new(Gate {
            calls: AtomicU32::new(0),
            entered: Semaphore::new(0),
            open: Semaphore::new(0),
        });
        let runtime = Runtime::in_memory()
            .graph("parent", parent())
            .graph("inter", inter())
            .graph("failing", failing())
            .graph("gated", gated(Arc::clone(&gate)))
            .graph("talk", talk(Arc::clone(&gate)));
        let runtime = runtime.open().await.expect("opens");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(Server::new(runtime.clone()).serve(listener, std::future::pending()));
        Self { url, runtime, gate }
    }

    pub(crate) fn remote(&self, assistant: &str) -> RemoteGraph {
        RemoteGraph::new(server(&self.url), assistant)
    }

    async fn rows(&self) -> Vec<RunRow> {
        let store = self.runtime.store();
        let who = Principal::local();
        let threads = store.threads(&who, 0, 100).await.expect("reads");
        let mut rows = Vec::new();
        for thread in threads {
            rows.extend(store.runs(&who, &thread.id).await.expect("reads"));
        }
        rows
    }

    /// Number of runs of all threads.
    pub(crate) async fn runs(&self) -> usize {
        self.rows().await.len()
    }

    /// Step limits of the runs of all threads.
    pub(crate) async fn step_limits(&self) -> Vec<Option<u32>> {
        self.rows().await.iter().map(|run| run.new.options.step_limit).collect()
    }

    /// Number of threads.
    pub(crate) async fn threads(&self) -> usize {
        let threads = self.runtime.store().threads(&Principal::local(), 0, 100).await;
        threads.expect("reads").len()
    }

    /// Waits until all runs have ended.
    pub(crate) async fn rests(&self) {
        while self.rows().await.iter().any(|run| !run.status.is_final()) {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) fn egress(url: &str) -> Arc<dyn Egress> {
    let host = url.trim_start_matches("http://").parse().expect("a host");
    let config = EgressConfig { allow: vec![host], ..EgressConfig::default() };
    Arc::new(GuardedClient::new(config).expect("a client"))
}

pub(crate) fn server(url: &str) -> RemoteServer {
    RemoteServer::new("helper", url, egress(url)).expect("valid").key("key-of-helper")
}

/// A graph of a remote node between its start and `after`.
pub(crate) fn graph_with_remote(remote: RemoteGraph, channels: &[&'static str]) -> CompiledGraph {
    async fn after(state: State<Dynamic>) -> DynUpdate {
        let object = state.object();
        let out = object.get("note").or(object.get("out")).cloned().unwrap_or_default();
        DynUpdate::new().write("after", json!(format!("after {}", out.as_str().unwrap_or("?"))))
    }
    let channels = channels.iter().copied().chain(["after"]).map(last);
    Graph::dynamic("around", channels.collect())
        .node("remote", node(remote))
        .node("after", after)
        .edge(START, "remote")
        .edge("remote", "after")
        .build()
        .expect("sound")
}

pub(crate) fn node(
    remote: RemoteGraph,
) -> impl Fn(Input, Ctx) -> BoxFuture<'static, NodeResult<DynUpdate>> + Clone + Send + Sync + 'static
{
    move |Input(input), ctx| {
        let remote = remote.clone();
        Box::pin(async move { remote.run(&ctx, input).await })
    }
}

pub(crate) async fn local(store: Arc<dyn Store>, graph: CompiledGraph) -> Runtime {
    Runtime::builder(store).graph("around", graph).open().await.expect("opens")
}

pub(crate) async fn in_memory(graph: CompiledGraph) -> Runtime {
    local(Arc::new(MemoryStore::new()), graph).await
}
