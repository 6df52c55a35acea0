//! Scenarios of the kit written with the typed builder. They give the recorded traces as well:
//! what types add changes nothing that can be seen.

/// A test for each scenario: the graph that this function makes gives the recorded trace.
macro_rules! same_traces {
    ($($scenario:ident: $graph:path;)*) => {$(
        #[tokio::test]
        async fn $scenario() {
            crate::typed::same_trace(stringify!($scenario), $graph).await;
        }
    )*};
}

mod branch;
mod chain;
mod failure;
mod pause;
mod send;
mod travel;
mod within;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Counts, Profile, Spec, play_on};
use weftwork_graph::{
    CompiledGraph, Deps, Graph, List, NodeError, NodeResult, START, Semantics, State, StateSpec,
};

/// The state that most scenarios have.
#[derive(State)]
struct Log {
    #[channel(reduce = |sum, n| sum + n)]
    n: i64,
    #[channel(append)]
    log: List<String>,
    s: String,
}

fn say(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

async fn a(_: State<Log>) -> LogUpdate {
    say("a")
}

async fn b(_: State<Log>) -> LogUpdate {
    say("b")
}

async fn c(_: State<Log>) -> LogUpdate {
    say("c")
}

async fn counted_a(counts: Deps<Counts>) -> LogUpdate {
    counts.add("a");
    say("a")
}

async fn counted_b(counts: Deps<Counts>) -> LogUpdate {
    counts.add("b");
    say("b")
}

async fn counted_c(counts: Deps<Counts>) -> LogUpdate {
    counts.add("c");
    say("c")
}

/// Edges from the start through nodes, one after the other.
fn chain<S: StateSpec>(graph: Graph<S>, nodes: &[&str]) -> Graph<S> {
    let from = std::iter::once(&START).chain(nodes);
    from.zip(nodes).fold(graph, |graph, (from, to)| graph.edge(*from, *to))
}

/// State shared by the graphs of one scenario.
#[derive(Default)]
struct Kit {
    counts: Counts,
    tries: Tries,
}

impl Kit {
    fn graph<S: StateSpec>(&self) -> Graph<S> {
        Graph::new("typed")
            .semantics(Semantics::langgraph())
            .with(self.counts.clone())
            .with(self.tries.clone())
    }
}

/// Number of tries of each node that fails.
#[derive(Clone, Default)]
struct Tries(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tries {
    /// Fails the first so many times.
    fn fail(&self, node: &'static str, times: u64, kind: &str) -> NodeResult<()> {
        let mut tries = self.0.lock().unwrap();
        let count = tries.entry(node).or_default();
        *count += 1;
        if *count > times { Ok(()) } else { Err(NodeError::of_kind(kind, format!("boom {count}"))) }
    }
}

/// Plays the script of a scenario on another graph than the spec's own, and compares the trace
/// with the recorded one.
async fn same_trace<S: StateSpec>(name: &str, graph: fn(&Kit) -> Graph<S>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/scenarios");
    let scenario = Scenario::read(&folder.join(format!("{name}.json"))).unwrap();
    let spec = Spec::from_json(&scenario.spec).unwrap();
    let kit = Kit::default();
    let trace = play_on(built(graph(&kit)), &spec, &Profile::LangGraph.into(), &kit.counts).await;
    if let Some(difference) = scenario.difference(&trace) {
        panic!("{difference}");
    }
}

fn built<S: StateSpec>(graph: Graph<S>) -> CompiledGraph {
    graph.build().unwrap()
}
