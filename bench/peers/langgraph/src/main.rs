//! The benchmark cases on the crate langgraph: channels of JSON values.
//!
//! Its routers return a single node, so the branches of the fan-out are a hundred nodes with their
//! own edges. Its checkpointers block, so they need the thread pool.

use langgraph::channels::base::Channel;
use langgraph::channels::binop::{BinaryOperatorAggregate, append_reducer};
use langgraph::channels::last_value::LastValue;
use langgraph::checkpoint::{BaseCheckpointSaver, InMemorySaver};
use langgraph::prelude::{
    CompiledStateGraph, END, GraphError, JsonValue, RoutingFn, Runnable, RunnableConfig, START,
    StateGraph, SyncNodeFn,
};
use langgraph::sqlite::SqliteSaver;
use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, is_done, message_json, wide};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

type Channels = HashMap<String, Box<dyn Channel>>;

/// Channels that hold the last value, and channels that append.
fn channels(last: impl IntoIterator<Item = String>, lists: &[&str]) -> Channels {
    let last = last.into_iter().map(|name| {
        let channel: Box<dyn Channel> = Box::new(LastValue::new(name.clone()));
        (name, channel)
    });
    let lists = lists.iter().map(|name| {
        let channel: Box<dyn Channel> =
            Box::new(BinaryOperatorAggregate::new(*name, append_reducer));
        ((*name).to_owned(), channel)
    });
    last.chain(lists).collect()
}

fn n() -> std::iter::Once<String> {
    std::iter::once("n".to_owned())
}

fn count(input: &JsonValue, key: &str) -> usize {
    input[key].as_array().map_or(0, Vec::len)
}

fn chain(channels: Channels) -> Result<StateGraph, GraphError> {
    let mut graph = StateGraph::new(channels);
    for i in 0..10 {
        let node = SyncNodeFn(|input: &JsonValue, _: &RunnableConfig| {
            Ok(json!({ "n": input["n"].as_u64().unwrap_or_default() + 1 }))
        });
        graph.add_node(format!("n{i}"), node)?;
        let before = if i == 0 { START.to_owned() } else { format!("n{}", i - 1) };
        graph.add_edge(before, format!("n{i}"))?;
    }
    graph.add_edge("n9", END)?;
    Ok(graph)
}

fn fan() -> Result<StateGraph, GraphError> {
    let mut graph = StateGraph::new(channels(n(), &["items"]));
    graph
        .add_node("start", SyncNodeFn(|_: &JsonValue, _: &RunnableConfig| Ok(json!({ "n": 1 }))))?;
    graph.add_node(
        "join",
        SyncNodeFn(|input: &JsonValue, _: &RunnableConfig| {
            Ok(json!({ "n": count(input, "items") }))
        }),
    )?;
    graph.add_edge(START, "start")?;
    for i in 0..100u64 {
        let node = SyncNodeFn(move |_: &JsonValue, _: &RunnableConfig| Ok(json!({ "items": [i] })));
        graph.add_node(format!("w{i}"), node)?;
        graph.add_edge("start", format!("w{i}"))?;
        graph.add_edge(format!("w{i}"), "join")?;
    }
    graph.add_edge("join", END)?;
    Ok(graph)
}

fn react() -> Result<StateGraph, GraphError> {
    let mut graph = StateGraph::new(channels([], &["messages"]));
    for name in ["agent", "tool"] {
        // The agent or the tool, both of which append the next message.
        let node = SyncNodeFn(|input: &JsonValue, _: &RunnableConfig| {
            Ok(json!({ "messages": [message_json(count(input, "messages"))] }))
        });
        graph.add_node(name, node)?;
    }
    graph.add_edge(START, "agent")?;
    graph.add_edge("tool", "agent")?;
    // A router receives the node's writes, not the state.
    let router = RoutingFn(|written: &JsonValue| {
        (if is_done(&written["messages"][0]) { END } else { "tool" }).to_owned()
    });
    let targets = [("tool", "tool"), (END, END)].map(|(key, to)| (key.to_owned(), to.to_owned()));
    graph.add_conditional_edges("agent", router, Some(targets.into()))?;
    Ok(graph)
}

struct LangGraph {
    graph: CompiledStateGraph,
    checkpointer: Option<Arc<dyn BaseCheckpointSaver>>,
    memory: bool,
    input: JsonValue,
}

fn config(run: u64) -> RunnableConfig {
    [("configurable".to_owned(), json!({ "thread_id": format!("t{run}"), "checkpoint_ns": "" }))]
        .into()
}

impl Engine for LangGraph {
    type Input = (JsonValue, RunnableConfig);
    type Output = JsonValue;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let mut graph = match cell.case {
            Case::Seq10 => chain(channels(n(), &[]))?,
            Case::Fan100 => fan()?,
            Case::React50 => react()?,
            Case::Wide100 => chain(channels(n().chain(wide().map(|(key, _)| key)), &[]))?,
        };
        let checkpointer: Option<Arc<dyn BaseCheckpointSaver>> = match cell.checkpointer {
            Saver::None => None,
            Saver::Memory => Some(Arc::new(InMemorySaver::new())),
            Saver::Sqlite => {
                let checkpointer =
                    SqliteSaver::from_conn_string(&format!("sqlite:{}", cell.file.display()))
                        .await?;
                checkpointer.setup().await?;
                Some(Arc::new(checkpointer))
            }
        };
        let mut builder = graph.compile_builder().recursion_limit(1_000);
        if let Some(checkpointer) = &checkpointer {
            builder = builder.checkpointer(Arc::clone(checkpointer));
        }
        let graph = builder.build()?;
        let mut input = json!({ "n": 0 });
        if cell.case == Case::React50 {
            input = json!({ "messages": [] });
        } else if cell.case == Case::Wide100 {
            input = wide().chain([("n".to_owned(), json!(0))]).collect();
        }
        Ok(Self { graph, checkpointer, memory: cell.checkpointer == Saver::Memory, input })
    }

    fn input(&self, run: u64) -> Result<Self::Input, Failure> {
        Ok((self.input.clone(), config(run)))
    }

    async fn run(&self, start: Self::Input) -> Result<JsonValue, Failure> {
        let (input, config) = start;
        Ok(self.graph.ainvoke(&input, &config).await?)
    }

    fn found(output: &JsonValue) -> Found {
        let entries = output.as_object().into_iter().flatten();
        Found::in_json(entries.map(|(key, value)| (key.as_str(), value)))
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.memory) else { return Ok(None) };
        Ok(Some(checkpointer.list(Some(&config(run)), None, None, None)?.len() as u64))
    }
}

fn main() -> Result<(), Failure> {
    peers_harness::main::<LangGraph>(Cell::from_args()?)
}
