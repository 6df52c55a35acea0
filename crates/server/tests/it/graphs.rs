//! Graphs that the reference servers of clients' test suites have.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::{Semantics, SubgraphState};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, END, Graph, Next, NodeError, NodeResult,
    START, State,
};
use weftwork_runtime::{Runtime, RuntimeBuilder};
use weftwork_testkit::ManualClock;

fn last(name: &'static str) -> ChannelDef {
    ChannelDef::new(name, LastValue::<Value>::new())
}

fn graph(name: &str, channels: Vec<ChannelDef>) -> Graph<Dynamic> {
    Graph::dynamic(name, channels).semantics(Semantics::langgraph())
}

fn text(state: &State<Dynamic>, name: &str) -> String {
    state.get(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn echo_channels() -> Vec<ChannelDef> {
    vec![last("msg"), last("out"), last("n")]
}

fn echo() -> CompiledGraph {
    async fn echo(state: State<Dynamic>) -> DynUpdate {
        let n = state.get("n").and_then(|n| n.as_i64()).unwrap_or_default();
        let out = format!("echo:{}", text(&state, "msg"));
        DynUpdate::new().write("out", json!(out)).write("n", json!(n + 1))
    }
    graph("echo", echo_channels()).node("echo", echo).edge(START, "echo").build().expect("sound")
}

fn slow() -> CompiledGraph {
    async fn slow(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let done = state.get("log").and_then(|log| log.as_array().map(Vec::len)).unwrap_or(0);
        ctx.emit(json!({"progress": done}));
        tokio::task::yield_now().await;
        Ok(DynUpdate::new().write("log", json!([format!("step{done}")])))
    }
    fn again(state: State<Dynamic>) -> Next {
        let done = state.get("log").and_then(|log| log.as_array().map(Vec::len)).unwrap_or(0);
        let steps = state.get("steps").and_then(|steps| steps.as_u64()).unwrap_or(3);
        if (done as u64) < steps { Next::node("slow") } else { Next::End }
    }
    let channels = vec![ChannelDef::new("log", Append::<Value>::new()), last("steps")];
    let built = graph("slow", channels).node("slow", slow).edge(START, "slow");
    built.route_to("slow", ["slow", END], again).build().expect("sound")
}

fn inter() -> CompiledGraph {
    async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let answer = ctx.interrupt(json!({"question": "approve?", "q": text(&state, "q")}))?;
        Ok(DynUpdate::new().write("answer", answer))
    }
    async fn done(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("note", json!(format!("done:{}", text(&state, "answer"))))
    }
    graph("inter", vec![last("q"), last("answer"), last("note")])
        .node("ask", ask)
        .node("done", done)
        .edge(START, "ask")
        .edge("ask", "done")
        .build()
        .expect("sound")
}

fn parent() -> CompiledGraph {
    async fn pre(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("msg", json!(format!("pre-{}", text(&state, "msg"))))
    }
    graph("parent", echo_channels())
        .node("pre", pre)
        .subgraph("sub", echo(), SubgraphState::PerTask)
        .edge(START, "pre")
        .edge("pre", "sub")
        .build()
        .expect("sound")
}

fn failing() -> CompiledGraph {
    async fn boom(_: State<Dynamic>) -> NodeResult<DynUpdate> {
        Err(NodeError::of_kind("ValueError", "boom!"))
    }
    graph("failing", echo_channels()).node("boom", boom).edge(START, "boom").build().expect("sound")
}

/// A node that waits until it is cancelled, unless the message is `go`.
fn stuck() -> CompiledGraph {
    async fn wait(state: State<Dynamic>) -> DynUpdate {
        if text(&state, "msg") != "go" {
            std::future::pending::<()>().await;
        }
        DynUpdate::new().write("out", json!("went"))
    }
    graph("stuck", echo_channels()).node("wait", wait).edge(START, "wait").build().expect("sound")
}

/// A graph that waits for an hour, and asks a person too if its input is `ask`.
pub(crate) fn nap() -> CompiledGraph {
    async fn sleep(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        ctx.sleep(Duration::from_secs(3_600)).await?;
        Ok(DynUpdate::new())
    }
    async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        if text(&state, "q") == "ask" {
            ctx.interrupt(json!("go?"))?;
        }
        Ok(DynUpdate::new())
    }
    graph("nap", vec![last("q")])
        .node("sleep", sleep)
        .node("ask", ask)
        .edge(START, "sleep")
        .edge(START, "ask")
        .build()
        .expect("sound")
}

/// Hosts them.
pub(crate) fn host(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder
        .graph("echo", echo())
        .graph("slow", slow())
        .graph("inter", inter())
        .graph("parent", parent())
        .graph("failing", failing())
        .graph("stuck", stuck())
}

/// A runtime in memory that hosts them.
pub(crate) async fn runtime() -> Runtime {
    host(Runtime::in_memory()).open().await.expect("opens")
}

/// The same over a clock that the test moves.
pub(crate) async fn runtime_with_clock() -> (Runtime, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let runtime = host(Runtime::in_memory().clock(Arc::clone(&clock) as _)).open().await;
    (runtime.expect("opens"), clock)
}
