//! The benchmark cases on adk-graph: a state of JSON values.
//!
//! The library has no sends, so the branches of the fan-out are a hundred nodes with their own
//! edges. Edges that meet are conditional ones with a single target: a node with several plain
//! incoming edges waits for all of them and receives a copy of the state from each, which costs
//! several times as much.

use adk_graph::{
    Checkpointer, CompiledGraph, END, ExecutionConfig, MemoryCheckpointer, NodeContext, NodeOutput,
    START, SqliteCheckpointer, State, StateGraph, StateSchema,
};
use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, is_done, message_json, wide};
use serde_json::{Value, json};
use std::sync::Arc;

fn count(ctx: &NodeContext, key: &str) -> usize {
    ctx.get(key).and_then(Value::as_array).map_or(0, Vec::len)
}

fn chain(schema: StateSchema) -> StateGraph {
    let mut graph = StateGraph::new(schema).add_edge(START, "n0");
    for i in 0..10 {
        let name = format!("n{i}");
        graph = graph.add_node_fn(&name, |ctx| async move {
            let n = ctx.get("n").and_then(Value::as_u64).unwrap_or_default();
            Ok(NodeOutput::new().with_update("n", json!(n + 1)))
        });
        let after = format!("n{}", i + 1);
        graph = graph.add_edge(&name, if i == 9 { END } else { &after });
    }
    graph
}

fn fan() -> StateGraph {
    let schema = StateSchema::builder().channel("n").list_channel("items").build();
    let mut graph = StateGraph::new(schema)
        .add_node_fn("start", |_| async { Ok(NodeOutput::new().with_update("n", json!(1))) })
        .add_node_fn("join", |ctx| async move {
            Ok(NodeOutput::new().with_update("n", json!(count(&ctx, "items"))))
        })
        .add_edge(START, "start")
        .add_edge("join", END);
    for i in 0..100u64 {
        let name = format!("w{i}");
        graph = graph
            .add_node_fn(&name, move |_| async move {
                Ok(NodeOutput::new().with_update("items", json!(i)))
            })
            .add_edge("start", &name)
            .add_conditional_edges(&name, |_| "join".to_owned(), [("join", "join")]);
    }
    graph
}

fn react() -> StateGraph {
    let mut graph = StateGraph::new(StateSchema::builder().list_channel("messages").build());
    for name in ["agent", "tool"] {
        // The agent or the tool, both of which append the next message.
        graph = graph.add_node_fn(name, |ctx| async move {
            let message = message_json(count(&ctx, "messages"));
            Ok(NodeOutput::new().with_update("messages", message))
        });
    }
    let after_agent = |state: &State| {
        let last = state.get("messages").and_then(Value::as_array).and_then(|list| list.last());
        (if last.is_some_and(is_done) { "done" } else { "tool" }).to_owned()
    };
    graph
        .add_edge(START, "agent")
        .add_conditional_edges("tool", |_| "agent".to_owned(), [("agent", "agent")])
        .add_conditional_edges("agent", after_agent, [("tool", "tool"), ("done", END)])
}

struct Adk {
    graph: CompiledGraph,
    checkpointer: Option<Arc<dyn Checkpointer>>,
    memory: bool,
    input: State,
}

impl Engine for Adk {
    type Input = (State, ExecutionConfig);
    type Output = State;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let graph = match cell.case {
            Case::Seq10 => chain(StateSchema::simple(&["n"])),
            Case::Fan100 => fan(),
            Case::React50 => react(),
            Case::Wide100 => {
                let names: Vec<String> = wide().map(|(key, _)| key).collect();
                let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
                names.push("n");
                chain(StateSchema::simple(&names))
            }
        };
        let checkpointer: Option<Arc<dyn Checkpointer>> = match cell.checkpointer {
            Saver::None => None,
            Saver::Memory => Some(Arc::new(MemoryCheckpointer::new())),
            Saver::Sqlite => {
                let url = format!("sqlite:{}", cell.file.display());
                Some(Arc::new(SqliteCheckpointer::new(&url).await?))
            }
        };
        let mut graph = graph.compile()?;
        if let Some(checkpointer) = &checkpointer {
            graph = graph.with_checkpointer_arc(Arc::clone(checkpointer));
        }
        let input = if cell.case == Case::Wide100 { wide().collect() } else { State::new() };
        Ok(Self { graph, checkpointer, memory: cell.checkpointer == Saver::Memory, input })
    }

    fn input(&self, run: u64) -> Result<Self::Input, Failure> {
        // The limit of the run counts, not the limit of the graph.
        let config = ExecutionConfig::new(&format!("t{run}")).with_recursion_limit(1_000);
        Ok((self.input.clone(), config))
    }

    async fn run(&self, start: Self::Input) -> Result<State, Failure> {
        let (input, config) = start;
        Ok(self.graph.invoke(input, config).await?)
    }

    fn found(output: &State) -> Found {
        Found::in_json(output.iter().map(|(key, value)| (key.as_str(), value)))
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.memory) else { return Ok(None) };
        Ok(Some(checkpointer.list(&format!("t{run}")).await?.len() as u64))
    }
}

fn main() -> Result<(), Failure> {
    peers_harness::main::<Adk>(Cell::from_args()?)
}
