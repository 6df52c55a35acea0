//! Ids of checkpoints, in processes whose clocks do not agree.

use super::support::{answer, chain, empty, graph, note};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::CheckpointRef;
use weftwork_graph::run_loop::{
    AsNode, Checkpointer, Host, InMemoryCheckpointer, Start, StateQuery, StateUpdate,
};
use weftwork_graph::{CompiledGraph, Ctx, Input, NodeResult, START, SubgraphState};
use weftwork_runtime::StoreCheckpointer;
use weftwork_store::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, CheckpointId, Principal, Timestamp};

/// A clock whose ids begin with these numbers in turn, and end in this one.
#[derive(Debug)]
struct Ids {
    after: u128,
    end: u128,
    clock: ManualClock,
}

impl Clock for Ids {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }

    fn unique(&self) -> u128 {
        ((self.after + self.clock.unique()) << 32) + self.end
    }
}

const AHEAD: u128 = 1 << 60;

/// A process that begins.
fn process(saver: &Arc<dyn Checkpointer>, after: u128, end: u128) -> Host {
    let clock = Ids { after, end, clock: ManualClock::moved_by_sleeps() };
    Host::new().with_checkpointer(Arc::clone(saver)).with_clock(Arc::new(clock))
}

/// A graph whose superstep stays open at a question, with two graphs within that got further than
/// the one around them.
fn asking() -> CompiledGraph {
    let ask = async |_: Input, ctx: Ctx| {
        ctx.interrupt(json!("?"))?;
        NodeResult::Ok(super::support::log("answered"))
    };
    let steps = ["x", "y", "z"];
    let asks = chain(&steps).node("ask", ask).edge("z", "ask").build().expect("sound");
    let ends = chain(&steps).build().expect("sound");
    let outer = graph("outer").subgraph("p", asks, SubgraphState::PerTask).subgraph(
        "q",
        ends,
        SubgraphState::PerThread,
    );
    let outer = outer.node("a", note("a")).edge(START, "a").edge("a", "p").edge("a", "q");
    outer.build().expect("sound")
}

/// The ids of all graphs of a thread: none of them twice.
async fn ids(graph: &CompiledGraph, host: &Host, thread: &str) -> BTreeSet<CheckpointId> {
    let mut all = BTreeSet::new();
    let saver = host.checkpointer().expect("is kept");
    for ns in saver.graphs(thread).await.expect("reads") {
        let at = StateQuery::thread(thread).within(&*ns);
        for snapshot in graph.history(host, &at).await.expect("reads") {
            let id = snapshot.checkpoint().expect("has one");
            assert!(all.insert(id), "{id} is one of `{ns}` and of another graph");
        }
    }
    all
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Update,
    UpdateWithin,
    Copy,
    Input,
    Answer,
    Replay,
}

async fn act(act: Act, graph: &CompiledGraph, host: &Host, thread: &str) {
    let update = |as_node: AsNode, values| vec![vec![StateUpdate { values, as_node }]];
    let values = || Some(vec![("log".to_owned(), json!(["u"]))]);
    let at = StateQuery::thread(thread);
    let run = |start: Start| graph.run(host, start).thread(thread);
    match act {
        Act::Update => {
            graph.update(host, &at, update(AsNode::Node("a".into()), values())).await.expect("is");
        }
        Act::UpdateWithin => {
            let within = at.within("q");
            let as_node = AsNode::Node("x".into());
            graph.update(host, &within, update(as_node, values())).await.expect("is made");
        }
        Act::Copy => {
            graph.update(host, &at, update(AsNode::Copy, None)).await.expect("is made");
        }
        Act::Input => drop(run(empty()).outcome().await.expect("asks")),
        Act::Answer => drop(run(answer(json!(1))).outcome().await.expect("ends")),
        Act::Replay => {
            let first = graph.history(host, &at).await.expect("reads").pop().expect("there");
            let from: CheckpointRef = first.config.expect("has one");
            run(Start::Continue).from(&from).outcome().await.expect("asks");
        }
    }
}

const ACTS: [Act; 6] =
    [Act::Update, Act::UpdateWithin, Act::Copy, Act::Input, Act::Answer, Act::Replay];

fn savers() -> [Arc<dyn Checkpointer>; 2] {
    let store = Arc::new(MemoryStore::new());
    [InMemoryCheckpointer::new(), StoreCheckpointer::new(store, Principal::local())]
}

#[tokio::test]
async fn they_follow_those_of_all_graphs_of_the_thread() {
    let graph = asking();
    for saver in savers() {
        let ahead = process(&saver, AHEAD, 0);
        graph.run(&ahead, empty()).thread("t").outcome().await.expect("asks");
        let old = ids(&graph, &ahead, "t").await;
        for what in ACTS {
            saver.copy("t", "copy").await.expect("copies");
            let late = process(&saver, 0, 0);
            act(what, &graph, &late, "copy").await;
            let all = ids(&graph, &late, "copy").await;
            let new: BTreeSet<_> = all.difference(&old).collect();
            assert!(new.first() > old.last().as_ref(), "{what:?}: {new:?} after {old:?}");
        }
    }
}

#[tokio::test]
async fn two_late_processes_give_different_ones() {
    let graph = asking();
    for saver in savers() {
        let ahead = process(&saver, AHEAD, 0);
        graph.run(&ahead, empty()).thread("t").outcome().await.expect("asks");
        let old = ids(&graph, &ahead, "t").await;
        let mut new: Vec<CheckpointId> = Vec::new();
        for end in [1, 2] {
            saver.copy("t", "copy").await.expect("copies");
            let late = process(&saver, 0, end);
            act(Act::Answer, &graph, &late, "copy").await;
            new.extend(ids(&graph, &late, "copy").await.difference(&old).copied());
        }
        let different: BTreeSet<_> = new.iter().collect();
        assert_eq!(different.len(), new.len(), "{new:?}");
    }
}
