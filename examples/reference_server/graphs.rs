//! The graphs that test suites of LangGraph's clients expect a server to have: `echo`, `slow`,
//! `inter`, `parent` and `failing`. State keys, node names and values are part of them.

use serde_json::{Value, json};
use std::time::Duration;
use weftwork::graph::channel::{Append, LastValue};
use weftwork::graph::{
    BuildError, ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, END, Graph, Next, NodeError,
    NodeResult, START, State,
};
use weftwork::graph::{Semantics, SubgraphState};
use weftwork::runtime::RuntimeBuilder;

/// Longest wait of a node, in seconds.
const DELAY_MAX: f64 = 60.0;

/// Adds the graphs to a runtime.
///
/// # Errors
/// [`BuildError`] if a graph is not sound.
pub(crate) fn host(builder: RuntimeBuilder) -> Result<RuntimeBuilder, BuildError> {
    Ok(builder
        .graph("echo", echo()?)
        .graph("slow", slow()?)
        .graph("inter", inter()?)
        .graph("parent", parent()?)
        .graph("failing", failing()?))
}

/// A channel for one value of a JSON type.
pub(crate) fn last(name: &'static str, kind: &str) -> ChannelDef {
    ChannelDef::new(name, LastValue::<Value>::new()).with_schema(schema(name, kind))
}

pub(crate) fn append(name: &'static str) -> ChannelDef {
    ChannelDef::new(name, Append::<Value>::new()).with_schema(schema(name, "array"))
}

fn schema(name: &str, kind: &str) -> Value {
    let title = name.split_at(1);
    let title = title.0.to_uppercase() + title.1;
    json!({"default": null, "title": title, "type": kind})
}

pub(crate) fn graph(name: &str, channels: Vec<ChannelDef>) -> Graph<Dynamic> {
    Graph::dynamic(name, channels).semantics(Semantics::langgraph())
}

fn text(state: &State<Dynamic>, name: &str) -> String {
    state.get(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(crate) fn length(state: &State<Dynamic>, name: &str) -> usize {
    state.get(name).and_then(|list| list.as_array().map(Vec::len)).unwrap_or_default()
}

/// Waits for a number of seconds of the state.
pub(crate) async fn wait(seconds: Option<f64>, usual: f64, ctx: &Ctx) {
    let seconds = seconds.unwrap_or(usual).clamp(0.0, DELAY_MAX);
    if seconds > 0.0 {
        ctx.clock().sleep(Duration::from_secs_f64(seconds)).await;
    }
}

fn echo_channels() -> Vec<ChannelDef> {
    vec![last("msg", "string"), last("out", "string"), last("n", "integer")]
}

fn echo() -> Result<CompiledGraph, BuildError> {
    async fn echo(state: State<Dynamic>) -> DynUpdate {
        let n = state.get("n").and_then(|n| n.as_i64()).unwrap_or_default();
        let out = format!("echo:{}", text(&state, "msg"));
        DynUpdate::new().write("out", json!(out)).write("n", json!(n + 1))
    }
    graph("echo", echo_channels()).node("echo", echo).edge(START, "echo").build()
}

fn slow() -> Result<CompiledGraph, BuildError> {
    async fn slow(state: State<Dynamic>, ctx: Ctx) -> DynUpdate {
        let done = length(&state, "log");
        ctx.emit(json!({"progress": done}));
        wait(state.get("delay").and_then(|delay| delay.as_f64()), 0.5, &ctx).await;
        DynUpdate::new().write("log", json!([format!("step{done}")]))
    }
    fn again(state: State<Dynamic>) -> Next {
        let steps = state.get("steps").and_then(|steps| steps.as_u64()).unwrap_or(3);
        let done = u64::try_from(length(&state, "log")).unwrap_or(u64::MAX);
        if done < steps { Next::node("slow") } else { Next::End }
    }
    graph("slow", vec![append("log"), last("steps", "integer"), last("delay", "number")])
        .node("slow", slow)
        .edge(START, "slow")
        .route_to("slow", ["slow", END], again)
        .build()
}

fn inter() -> Result<CompiledGraph, BuildError> {
    async fn ask(state: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
        let question = json!({"question": "approve?", "q": text(&state, "q")});
        Ok(DynUpdate::new().write("answer", ctx.interrupt(question)?))
    }
    async fn done(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("note", json!(format!("done:{}", text(&state, "answer"))))
    }
    graph("inter", vec![last("q", "string"), last("answer", "string"), last("note", "string")])
        .node("ask", ask)
        .node("done", done)
        .edge(START, "ask")
        .edge("ask", "done")
        .build()
}

fn parent() -> Result<CompiledGraph, BuildError> {
    async fn pre(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("msg", json!(format!("pre-{}", text(&state, "msg"))))
    }
    graph("parent", echo_channels())
        .node("pre", pre)
        .subgraph("sub", echo()?, SubgraphState::PerTask)
        .edge(START, "pre")
        .edge("pre", "sub")
        .build()
}

fn failing() -> Result<CompiledGraph, BuildError> {
    async fn boom(_: State<Dynamic>) -> NodeResult<DynUpdate> {
        Err(NodeError::of_kind("ValueError", "boom!"))
    }
    graph("failing", echo_channels()).node("boom", boom).edge(START, "boom").build()
}
