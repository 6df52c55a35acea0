//! The cases as typed graphs.

use peers_harness::{Failure, Found, message};
use serde::{Deserialize, Serialize};
use weftwork_graph::{
    Arg, CompiledGraph, Graph, Handler, List, Next, Routes, START, SendTo, State, StateSpec,
};

/// A message of the agent loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Message {
    role: String,
    content: String,
}

#[derive(State)]
pub(crate) struct Bench {
    #[channel(default)]
    n: u64,
    #[channel(append)]
    items: List<u64>,
    #[channel(append)]
    messages: List<Message>,
}

#[derive(Routes)]
enum Turn {
    Tool,
    End,
}

/// Returns the content of the state at the end.
pub(crate) fn found(state: &State<Bench>) -> Found {
    Found { n: *state.n(), items: state.items().len(), messages: state.messages().len(), keys: 0 }
}

pub(crate) fn chain() -> Result<CompiledGraph, Failure> {
    chain_over::<Bench, _>(async |state: State<Bench>| BenchUpdate::new().n(state.n() + 1))
}

/// The same node ten times in a chain.
pub(crate) fn chain_over<S: StateSpec, M: 'static>(
    node: impl Handler<M> + Clone,
) -> Result<CompiledGraph, Failure> {
    let mut graph = Graph::<S>::new("chain").edge(START, "n0");
    for i in 0..10 {
        graph = graph.node(format!("n{i}"), node.clone());
        if i > 0 {
            graph = graph.edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    Ok(graph.build()?)
}

pub(crate) fn fan() -> Result<CompiledGraph, Failure> {
    let graph = Graph::<Bench>::new("fan")
        .node("start", async |_: State<Bench>| BenchUpdate::new().n(1))
        .node("work", async |Arg(i): Arg<u64>| BenchUpdate::new().items([i]))
        .node("join", async |state: State<Bench>| BenchUpdate::new().n(state.items().len() as u64))
        .edge(START, "start")
        .route_to("start", ["work"], |_: State<Bench>| {
            (0..100u64).map(|i| Next::from(SendTo::to("work", i))).collect::<Vec<_>>()
        })
        .edge("work", "join");
    Ok(graph.build()?)
}

/// The agent or the tool, both of which append the next message.
async fn speak(state: State<Bench>) -> BenchUpdate {
    let (role, content) = message(state.messages().len());
    BenchUpdate::new().messages([Message { role: role.to_owned(), content }])
}

pub(crate) fn react() -> Result<CompiledGraph, Failure> {
    let graph = Graph::<Bench>::new("react")
        .node("agent", speak)
        .node("tool", speak)
        .edge(START, "agent")
        .route("agent", |state: State<Bench>| {
            let last = state.messages().last().map(|message| message.content.as_str());
            if last == Some(peers_harness::DONE) { Turn::End } else { Turn::Tool }
        })
        .edge("tool", "agent");
    Ok(graph.build()?)
}
