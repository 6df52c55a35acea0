//! The benchmark cases on rusty-agent-runtime: channels of JSON values.
//!
//! The library has no SQLite checkpointer, only memory, JSON files and Postgres.

use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, is_done, message_json, wide};
use rusty_agent_runtime::checkpoint::{Checkpointer, InMemoryCheckpointer};
use rusty_agent_runtime::executor::{ExecutionOutcome, Executor, RunConfig};
use rusty_agent_runtime::graph::{Graph, GraphBuilder, Route, Send};
use rusty_agent_runtime::node::{NodeContext, NodeOutput};
use rusty_agent_runtime::state::{Reducer, State, StateSpec};
use serde_json::{Value, json};
use std::sync::Arc;

fn n_of(state: &State) -> u64 {
    state.get("n").and_then(Value::as_u64).unwrap_or_default()
}

fn count(state: &State, key: &str) -> usize {
    state.get(key).and_then(Value::as_array).map_or(0, Vec::len)
}

fn chain() -> Result<Graph, Failure> {
    let mut builder = GraphBuilder::new();
    for i in 0..10 {
        builder.add_node(format!("n{i}"), |ctx: NodeContext| async move {
            Ok(NodeOutput::update("n", json!(n_of(ctx.state()) + 1)))
        });
        if i > 0 {
            builder.add_edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    builder.set_entry_point("n0");
    Ok(builder.compile()?)
}

fn fan() -> Result<Graph, Failure> {
    let mut builder = GraphBuilder::new();
    builder.add_node("start", |_: NodeContext| async { Ok(NodeOutput::update("n", json!(1))) });
    builder.add_node("work", |ctx: NodeContext| async move {
        Ok(NodeOutput::update("items", json!(n_of(ctx.state()))))
    });
    builder.add_node("join", |ctx: NodeContext| async move {
        Ok(NodeOutput::update("n", json!(count(ctx.state(), "items"))))
    });
    builder.add_conditional_edges("start", |_| async {
        Ok(Route::Send((0..100).map(|i| Send::new("work", json!({ "n": i }))).collect()))
    });
    builder.add_edge("work", "join");
    builder.set_entry_point("start");
    Ok(builder.compile()?)
}

fn react() -> Result<Graph, Failure> {
    let mut builder = GraphBuilder::new();
    for name in ["agent", "tool"] {
        // The agent or the tool, both of which append the next message.
        builder.add_node(name, |ctx: NodeContext| async move {
            Ok(NodeOutput::update("messages", message_json(count(ctx.state(), "messages"))))
        });
    }
    builder.add_conditional_edges("agent", |state| async move {
        let list = state.get("messages").and_then(Value::as_array);
        let last = list.and_then(|list| list.last());
        Ok(if last.is_some_and(is_done) { Route::End } else { Route::Node("tool".to_owned()) })
    });
    builder.add_edge("tool", "agent");
    builder.set_entry_point("agent");
    Ok(builder.compile()?)
}

struct Rusty {
    graph: Graph,
    spec: StateSpec,
    executor: Executor,
    checkpointer: Option<Arc<InMemoryCheckpointer>>,
    input: State,
}

impl Engine for Rusty {
    type Input = (State, RunConfig);
    type Output = State;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let mut spec = StateSpec::new()
            .channel("n", Reducer::Overwrite)
            .channel("items", Reducer::Append)
            .channel("messages", Reducer::Append);
        let mut input = State::new();
        let graph = match cell.case {
            Case::Seq10 => chain()?,
            Case::Fan100 => fan()?,
            Case::React50 => react()?,
            Case::Wide100 => {
                for (key, value) in wide() {
                    spec.add_channel(key.clone(), Reducer::Overwrite);
                    input.insert(key, value);
                }
                chain()?
            }
        };
        let checkpointer = match cell.checkpointer {
            Saver::None => None,
            Saver::Memory => Some(Arc::new(InMemoryCheckpointer::new())),
            Saver::Sqlite => return Err(cell.no_such_saver()),
        };
        let executor = match &checkpointer {
            Some(checkpointer) => Executor::with_checkpointer(Arc::clone(checkpointer) as Arc<dyn Checkpointer>),
            None => Executor::new(),
        };
        Ok(Self { graph, spec, executor, checkpointer, input })
    }

    fn input(&self, run: u64) -> Result<Self::Input, Failure> {
        Ok((self.input.clone(), RunConfig::new(format!("t{run}"))))
    }

    async fn run(&self, start: Self::Input) -> Result<State, Failure> {
        let (input, config) = start;
        let (ExecutionOutcome::Done(state) | ExecutionOutcome::Interrupted { state, .. }) =
            self.executor.run(&self.graph, &self.spec, input, config).await?;
        Ok(state)
    }

    fn found(output: &State) -> Found {
        Found::in_json(output.iter())
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        let Some(checkpointer) = &self.checkpointer else { return Ok(None) };
        Ok(Some(checkpointer.list(&format!("t{run}")).await?.len() as u64))
    }
}

fn main() -> Result<(), Failure> {
    peers_harness::main::<Rusty>(Cell::from_args()?)
}
