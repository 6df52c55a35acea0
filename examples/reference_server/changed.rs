//! Graphs of two builds of one program: the later one cannot read all threads that the earlier one
//! wrote. `changed.json` names the kinds of threads, the graphs that run on each, and a part of the
//! error of the later build (null if it can read the newest state).

use serde_json::{Value, json};
use std::time::Duration;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::SubgraphState;
use weftwork_graph::{
    BuildError, ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Graph, NodeError, NodeResult,
    START, State,
};
use weftwork_runtime::RuntimeBuilder;

fn graph(name: &str, channels: Vec<ChannelDef>) -> Graph<Dynamic> {
    Graph::dynamic(name, channels)
}

fn text() -> Vec<ChannelDef> {
    vec![ChannelDef::new("text", LastValue::<Value>::new())]
}

async fn write(_: State<Dynamic>) -> DynUpdate {
    DynUpdate::new().write("text", json!("written"))
}

async fn ask(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
    Ok(DynUpdate::new().write("text", ctx.interrupt(json!("go on?"))?))
}

async fn fail(_: State<Dynamic>) -> NodeResult<DynUpdate> {
    Err(NodeError::of_kind("ValueError", "boom!"))
}

async fn sleep(_: State<Dynamic>, ctx: Ctx) -> NodeResult<DynUpdate> {
    ctx.sleep(Duration::from_secs(3_600)).await?;
    Ok(DynUpdate::new())
}

async fn hang(_: State<Dynamic>) -> DynUpdate {
    std::future::pending().await
}

/// A graph with one channel and one node.
macro_rules! single {
    ($node:literal, $run:expr) => {
        graph("single", text()).node($node, $run).edge(START, $node).build()
    };
}

/// A graph that runs another one.
fn enclosing_graph(inner: CompiledGraph) -> Result<CompiledGraph, BuildError> {
    graph("around", text())
        .subgraph("inner", inner, SubgraphState::PerTask)
        .edge(START, "inner")
        .build()
}

/// A graph with two nodes after each other, of which the second one asks.
fn two_steps(second: &'static str) -> Result<CompiledGraph, BuildError> {
    graph("two", text())
        .node("first", write)
        .node(second, ask)
        .edge(START, "first")
        .edge("first", second)
        .build()
}

fn with_channel(channel: ChannelDef) -> Result<CompiledGraph, BuildError> {
    async fn put(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("x", json!(["a"]))
    }
    graph("kind", vec![channel]).node("put", put).edge(START, "put").build()
}

fn of_numbers() -> Result<CompiledGraph, BuildError> {
    async fn put(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("x", json!(7))
    }
    let channels = vec![ChannelDef::new("x", LastValue::<u64>::new())];
    graph("numbers", channels).node("put", put).edge(START, "put").build()
}

/// Two nodes beside each other that ask.
fn fan(second: &'static str) -> Result<CompiledGraph, BuildError> {
    graph("fan", vec![ChannelDef::new("text", Append::<Value>::new())])
        .node("left", ask)
        .node(second, ask)
        .edge(START, "left")
        .edge(START, second)
        .build()
}

/// Adds the graphs of the earlier build.
pub(crate) fn before(builder: RuntimeBuilder) -> Result<RuntimeBuilder, BuildError> {
    Ok(builder
        .graph("removed", single!("write", write)?)
        .graph("acme:writer", single!("write", write)?)
        .graph("asks", single!("ask", ask)?)
        .graph("fails", single!("fail", fail)?)
        .graph("sleeps", single!("sleep", sleep)?)
        .graph("hangs", single!("hang", hang)?)
        .graph("lost_node", single!("ask", ask)?)
        .graph("lost_second", two_steps("second")?)
        .graph("lost_branch", fan("right")?)
        .graph("lost_inner", enclosing_graph(single!("ask", ask)?)?)
        .graph("inner_removed", enclosing_graph(single!("ask", ask)?)?)
        .graph("kind", with_channel(ChannelDef::new("x", Append::<Value>::new()))?)
        .graph("type", with_channel(ChannelDef::new("x", LastValue::<Value>::new()))?)
        .graph("damaged", single!("write", write)?)
        .graph("newer", single!("write", write)?)
        .graph("absent", single!("write", write)?))
}

/// Adds the graphs of this build.
pub(crate) fn now(builder: RuntimeBuilder) -> Result<RuntimeBuilder, BuildError> {
    Ok(builder
        .graph("renamed", single!("write", write)?)
        .graph("other:writer", single!("write", write)?)
        .graph("lost_node", single!("question", ask)?)
        .graph("lost_second", two_steps("third")?)
        .graph("lost_branch", fan("up")?)
        .graph("lost_inner", enclosing_graph(single!("question", ask)?)?)
        .graph("inner_removed", single!("inner", write)?)
        .graph("kind", with_channel(ChannelDef::new("x", LastValue::<Value>::new()))?)
        .graph("type", of_numbers()?)
        .graph("damaged", single!("write", write)?)
        .graph("newer", single!("write", write)?)
        .graph("absent", single!("write", write)?))
}
