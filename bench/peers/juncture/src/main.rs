//! The benchmark cases on juncture: a typed state for each case, built with its derive macro.
//!
//! `invoke` of 0.4.0 never passes the checkpointer to its loop: it stores only a return value at
//! the end, on a checkpoint that does not exist. Therefore the cells with a checkpointer drive the
//! loop by hand, as the documentation shows. That is cheaper than `execute_with_emitter`, which
//! stores each superstep too. With the additional argument `invoke`, the cells run through `invoke`
//! anyway.

mod state;

use juncture_checkpoint::{MemorySaver, SqliteSaver};
use juncture_core::checkpoint::CheckpointSaver;
use juncture_core::edge::PathMap;
use juncture_core::node::{NodeFnCommand, NodeFnUpdate};
use juncture_core::pregel::{Durability, PregelLoop};
use juncture_core::{Command, CompiledGraph, RunnableConfig, SendTarget, State, StateGraph};
use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, message, wide};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use state::{Chain, ChainUpdate, Fan, FanUpdate, Message, React, ReactUpdate, Wide, WideUpdate};
use std::collections::HashMap;
use std::sync::Arc;

/// The value that `invoke` and similar functions pass to their loop.
const FIELDS_MAX: usize = 64;

/// The state of a case.
trait Work: State + Default + Serialize + DeserializeOwned {
    fn graph() -> Result<StateGraph<Self, Self, Self>, Failure>;
    fn input() -> Self {
        Self::default()
    }
    fn found(&self) -> Found;
}

impl Work for Chain {
    fn graph() -> Result<StateGraph<Self, Self, Self>, Failure> {
        let mut graph = StateGraph::new();
        for i in 0..10 {
            let node = NodeFnUpdate(|state: &Self| {
                let n = state.n + 1;
                async move { Ok(ChainUpdate { n: Some(n) }) }
            });
            graph.add_node_simple(format!("n{i}"), node)?;
        }
        in_a_row(&mut graph);
        Ok(graph)
    }

    fn found(&self) -> Found {
        Found { n: self.n, ..Found::default() }
    }
}

impl Work for Wide {
    fn graph() -> Result<StateGraph<Self, Self, Self>, Failure> {
        let mut graph = StateGraph::new();
        for i in 0..10 {
            let node = NodeFnUpdate(|state: &Self| {
                let n = state.n + 1;
                async move { Ok(WideUpdate { n: Some(n), keys: None }) }
            });
            graph.add_node_simple(format!("n{i}"), node)?;
        }
        in_a_row(&mut graph);
        Ok(graph)
    }

    fn input() -> Self {
        let text = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Self { n: 0, keys: wide().map(|(key, value)| (key, text(value))).collect() }
    }

    fn found(&self) -> Found {
        Found { n: self.n, keys: self.keys.len(), ..Found::default() }
    }
}

/// Connects `n0` to `n9` in a chain.
fn in_a_row<S: State>(graph: &mut StateGraph<S, S, S>) {
    graph.set_entry_point("n0");
    for i in 1..10 {
        graph.add_edge(format!("n{}", i - 1), format!("n{i}"));
    }
    graph.set_finish_point("n9");
}

impl Work for Fan {
    fn graph() -> Result<StateGraph<Self, Self, Self>, Failure> {
        let mut graph = StateGraph::new();
        let start = NodeFnCommand(|_: &Self| async {
            let targets = (0..100u64).map(|i| SendTarget {
                node: "work".to_owned(),
                state: json!({ "n": i, "items": [] }),
                timeout: None,
            });
            let update = FanUpdate { n: Some(1), items: None };
            Ok(Command::update_and_send(update, targets.collect()))
        });
        graph.add_node_simple("start", start)?;
        let work = NodeFnUpdate(|state: &Self| {
            let i = state.n;
            async move { Ok(FanUpdate { n: None, items: Some(vec![i]) }) }
        });
        graph.add_node_simple("work", work)?;
        let join = NodeFnUpdate(|state: &Self| {
            let n = state.items.len() as u64;
            async move { Ok(FanUpdate { n: Some(n), items: None }) }
        });
        graph.add_node_simple("join", join)?;
        graph.set_entry_point("start");
        // The sends replace this edge, which only declares that `work` is reachable.
        graph.add_edge("start", "work");
        graph.add_edge("work", "join");
        graph.set_finish_point("join");
        Ok(graph)
    }

    fn found(&self) -> Found {
        Found { n: self.n, items: self.items.len(), ..Found::default() }
    }
}

impl Work for React {
    fn graph() -> Result<StateGraph<Self, Self, Self>, Failure> {
        let mut graph = StateGraph::new();
        for name in ["agent", "tool"] {
            // The agent or the tool, both of which append the next message.
            let node = NodeFnUpdate(|state: &Self| {
                let (role, content) = message(state.messages.len());
                let role = role.to_owned();
                async move { Ok(ReactUpdate { messages: Some(vec![Message { role, content }]) }) }
            });
            graph.add_node_simple(name, node)?;
        }
        graph.set_entry_point("agent");
        let paths = PathMap::from(&[("tool", "tool"), ("__end__", "__end__")]);
        graph.add_conditional_edges("agent", Arc::new(after_agent), paths);
        graph.add_edge("tool", "agent");
        Ok(graph)
    }

    fn found(&self) -> Found {
        Found { messages: self.messages.len(), ..Found::default() }
    }
}

fn after_agent(state: &React) -> &str {
    let last = state.messages.last().map(|message| message.content.as_str());
    if last == Some(peers_harness::DONE) { "__end__" } else { "tool" }
}

struct Juncture<S: Work> {
    graph: CompiledGraph<S, S, S>,
    checkpointer: Option<Arc<dyn CheckpointSaver>>,
    memory: bool,
    invoke: bool,
}

impl<S: Work> Engine for Juncture<S>
where
    S::Update: Serialize,
{
    type Input = (S, RunnableConfig);
    type Output = S;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let checkpointer: Option<Arc<dyn CheckpointSaver>> = match cell.checkpointer {
            Saver::None => None,
            Saver::Memory => Some(Arc::new(MemorySaver::new())),
            Saver::Sqlite => Some(Arc::new(SqliteSaver::new(&cell.file).await?)),
        };
        let graph = S::graph()?.compile_with_checkpointer(checkpointer.clone())?;
        let invoke = checkpointer.is_none() || std::env::args().any(|word| word == "invoke");
        Ok(Self { graph, checkpointer, memory: cell.checkpointer == Saver::Memory, invoke })
    }

    fn input(&self, run: u64) -> Result<Self::Input, Failure> {
        let config = RunnableConfig {
            thread_id: Some(format!("t{run}")),
            // Without a checkpoint to refer to, the writes of the first step are rejected.
            checkpoint_id: self.checkpointer.is_some().then(|| "start".to_owned()),
            recursion_limit: 1_000,
            durability: Some(Durability::Sync),
            ..RunnableConfig::new()
        };
        Ok((S::input(), config))
    }

    async fn run(&self, start: Self::Input) -> Result<S, Failure> {
        let (input, config) = start;
        let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| !self.invoke) else {
            return Ok(self.graph.invoke_async(input, &config).await?.value);
        };
        let nodes = self.graph.nodes().clone();
        let table = self.graph.trigger_table().clone();
        let mut steps = PregelLoop::with_error_handlers(
            input,
            nodes,
            table,
            config,
            FIELDS_MAX,
            HashMap::new(),
        )?;
        steps.set_checkpointer(Arc::clone(checkpointer));
        while steps.tick()? {
            let result = steps.execute_superstep().await?;
            steps.after_tick(result).await?;
        }
        Ok(steps.into_state())
    }

    fn found(output: &S) -> Found {
        output.found()
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        let Some(checkpointer) = self.checkpointer.as_ref().filter(|_| self.memory) else { return Ok(None) };
        let config = RunnableConfig { thread_id: Some(format!("t{run}")), ..RunnableConfig::new() };
        Ok(Some(checkpointer.list(&config, None).await?.len() as u64))
    }
}

fn main() -> Result<(), Failure> {
    let cell = Cell::from_args()?;
    match cell.case {
        Case::Seq10 => peers_harness::main::<Juncture<Chain>>(cell),
        Case::Fan100 => peers_harness::main::<Juncture<Fan>>(cell),
        Case::React50 => peers_harness::main::<Juncture<React>>(cell),
        Case::Wide100 => peers_harness::main::<Juncture<Wide>>(cell),
    }
}
