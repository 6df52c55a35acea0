//! Checkpoints that are written while the next superstep runs.

use crate::gated::{Gated, When};
use crate::gated_runs::{ended, ends, history, host, idle, let_through};
use crate::support::{chain, empty, graph, log, logged};
use serde_json::json;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::StreamItem;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    CompiledGraph, Ctx, Durability, DynUpdate, Finish, Graph, Input, Modes, NodeResult, START,
    StreamEvent, SubgraphState, TaskDef,
};

fn gated() -> Arc<Gated> {
    Gated::over(InMemoryCheckpointer::new(), When::LetThrough, None)
}

/// Fails one of the writes.
fn failing(at: usize) -> Arc<Gated> {
    Gated::over(InMemoryCheckpointer::new(), When::LetThrough, Some(at))
}

/// The actions of nodes, in order.
#[derive(Debug, Clone, Default)]
struct World(Arc<Mutex<Vec<&'static str>>>);

impl World {
    fn ran(&self) -> Vec<&'static str> {
        self.0.lock().expect("not poisoned").clone()
    }

    fn node(&self, name: &'static str) -> impl Fn(Input) -> std::future::Ready<DynUpdate> + use<> {
        let world = self.0.clone();
        move |_| {
            world.lock().expect("not poisoned").push(name);
            std::future::ready(log(name))
        }
    }

    fn chain(&self) -> CompiledGraph {
        let graph = graph("chain").node("a", self.node("a")).node("b", self.node("b"));
        let graph = graph.node("c", self.node("c")).edge(START, "a");
        graph.edge("a", "b").edge("b", "c").build().expect("sound")
    }
}

#[tokio::test]
async fn the_next_superstep_runs_while_one_is_written_and_the_one_after_it_waits() {
    let cases: [(Durability, &[usize]); 3] = [
        (Durability::Sync, &[0, 1, 2, 3]),
        (Durability::Async, &[1, 2, 3, 3]),
        (Durability::Exit, &[3]),
    ];
    for (durability, ran) in cases {
        let world = World::default();
        let gated = gated();
        let graph = world.chain();
        let host = host(&gated);
        let run = graph.run(&host, empty()).thread("t").durability(durability).outcome();
        let mut run = std::pin::pin!(run);
        for (write, ran) in ran.iter().enumerate() {
            assert!(idle(&mut run).await.is_none(), "{durability:?}: the end waits too");
            let begun = (world.ran().len(), gated.count("begins"), gated.count("stored"));
            assert_eq!(begun, (*ran, write + 1, write), "{durability:?}: ran, begun, stored");
            gated.release();
        }
        let ended = idle(&mut run).await.expect("nothing is left to write").expect("runs");
        assert_eq!(logged(ended), ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn a_write_goes_on_while_the_next_tasks_wait() {
    let gated = gated();
    let held = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&held);
    let waits = move |_: Input| {
        let waits = Arc::clone(&waits);
        async move {
            waits.acquire().await.expect("is never closed").forget();
            log("waits")
        }
    };
    let graph = graph("waits").node("a", waits).edge(START, "a").build().expect("sound");
    let host = host(&gated);
    let run = graph.run(&host, empty()).thread("t").durability(Durability::Async).outcome();
    let mut run = std::pin::pin!(run);
    assert!(idle(&mut run).await.is_none());
    assert!(gated.is_behind());
    gated.release();
    assert!(idle(&mut run).await.is_none());
    assert_eq!(*gated.seen(), ["begins 0", "stored 0"], "the task has not ended");
    held.add_permits(1);
    assert_eq!(logged(let_through(&gated, run).await.expect("runs")), ["waits"]);
}

/// Graphs whose second superstep stores something by itself, or tells a question.
fn standing_on_a_checkpoint() -> Vec<(&'static str, CompiledGraph)> {
    let pends = async |_: Input| std::future::pending::<DynUpdate>().await;
    let asks = async |_: Input, ctx: Ctx| {
        ctx.interrupt(json!("?"))?;
        NodeResult::Ok(log("answered"))
    };
    let late = async |_: Input, ctx: Ctx| {
        tokio::task::yield_now().await;
        ctx.interrupt(json!("?"))?;
        NodeResult::Ok(log("answered"))
    };
    let inner = chain(&["x", "y"]).build().expect("sound");
    let asking = graph("asking").node("z", asks).edge(START, "z").build().expect("sound");
    let calls = async |_: Input, ctx: Ctx| -> NodeResult<DynUpdate> {
        let double = TaskDef::new("double", |Input(n): Input| {
            std::future::ready(NodeResult::Ok(Finish::value(n)))
        });
        ctx.task(&double, json!(1)).await?;
        std::future::pending().await
    };
    let first = |name: &str| graph(name).node("a", crate::support::note("a")).edge(START, "a");
    let second = |graph: Graph<weftwork_graph::Dynamic>, names: &[&str]| {
        let graph = names.iter().fold(graph, |graph, name| graph.edge("a", *name));
        graph.build().expect("sound")
    };
    vec![
        ("a question", second(first("g").node("b", asks), &["b"])),
        (
            "a question beside a task that waits",
            second(first("g").node("b", asks).node("c", pends), &["b", "c"]),
        ),
        ("a late one", second(first("g").node("b", late).node("c", pends), &["b", "c"])),
        (
            "what finished beside a task that waits",
            second(first("g").node("b", crate::support::note("b")).node("c", pends), &["b", "c"]),
        ),
        (
            "a graph within",
            second(first("g").subgraph("b", inner, SubgraphState::PerThread), &["b"]),
        ),
        (
            "a question of a graph within that keeps nothing",
            second(first("g").subgraph("b", asking, SubgraphState::Stateless), &["b"]),
        ),
        ("a task that a task calls", second(first("g").node("b", calls), &["b"])),
    ]
}

#[tokio::test]
async fn what_stands_on_a_checkpoint_waits_for_it() {
    for (what, graph) in standing_on_a_checkpoint() {
        let gated = gated();
        let host = host(&gated);
        let run = graph.run(&host, empty()).thread("t").durability(Durability::Async);
        let mut stream = run.modes(Modes::UPDATES).stream();
        let told: RefCell<Vec<StreamItem>> = RefCell::default();
        let mut reads = std::pin::pin!(async {
            while let Some(item) = stream.next().await {
                told.borrow_mut().push(item);
            }
        });
        assert!(idle(&mut reads).await.is_none(), "{what}");
        gated.release();
        let ended = idle(&mut reads).await.is_some();
        assert!(!ended, "{what}: it waits for the second checkpoint");
        assert_eq!(*gated.seen(), ["begins 0", "stored 0", "begins 1"], "{what}");
        gated.release();
        let ended = idle(&mut reads).await.is_some();
        let asked = |item: &StreamItem| matches!(item.event, StreamEvent::Interrupts(_));
        let asks = what.contains("question") || what.contains("late");
        assert_eq!(told.borrow().iter().any(asked), asks, "{what}");
        let seen = gated.seen().clone();
        assert_eq!(seen[..4], ["begins 0", "stored 0", "begins 1", "stored 1"], "{what}");
        assert!(ended || seen.len() > 4, "{what}: it was stored after that: {seen:?}");
    }
}

#[tokio::test]
async fn a_question_is_told_only_when_its_checkpoint_is_stored() {
    for (what, graph) in standing_on_a_checkpoint() {
        let gated = gated();
        let host = host(&gated);
        let run = graph.run(&host, empty()).thread("t").durability(Durability::Async);
        let modes = Modes::UPDATES | Modes::VALUES | Modes::TASKS;
        let mut stream = run.modes(modes).stream();
        gated.release();
        loop {
            let mut next = std::pin::pin!(stream.next());
            let Some(item) = idle(&mut next).await else { break };
            let Some(StreamItem { event, .. }) = item else { panic!("{what}: it cannot end") };
            let asked = match &event {
                StreamEvent::Interrupts(_) => true,
                StreamEvent::Values { interrupts, .. } => interrupts.is_some(),
                StreamEvent::TaskEnded(ended) => !ended.interrupts.is_empty(),
                _ => false,
            };
            assert!(!asked, "{what}: told while its checkpoint is written: {event:?}");
        }
        assert!(gated.is_behind(), "{what}");
    }
}

#[tokio::test]
async fn a_write_that_fails_ends_the_run_and_nothing_comes_after_it() {
    for at in 0..4 {
        let mut ends = Vec::new();
        for durability in [Durability::Sync, Durability::Async] {
            let world = World::default();
            let gated = failing(at);
            let graph = world.chain();
            let host = host(&gated);
            let run = graph.run(&host, empty()).thread("t").durability(durability);
            let error = let_through(&gated, std::pin::pin!(run.outcome())).await;
            let seen = gated.seen().clone();
            assert_eq!(seen.last(), Some(&format!("begins {at}")), "{durability:?}: {seen:?}");
            let more = usize::from(durability == Durability::Async && at < 3);
            assert_eq!(world.ran().len(), at + more, "{durability:?}, write {at}");
            ends.push((error.expect_err("it fails"), seen));
            // What is stored is a prefix to go on from.
            let kept = Host::new().with_checkpointer(Arc::clone(&gated.checkpointer));
            let start = if at == 0 { empty() } else { Start::Continue };
            let ended = graph.run(&kept, start).thread("t").outcome().await.expect("goes on");
            assert_eq!(logged(ended), ["a", "b", "c"], "{durability:?}, write {at}");
        }
        assert_eq!(ends[0], ends[1], "write {at}");
    }
}

#[tokio::test]
async fn a_write_that_fails_cuts_off_the_tasks_beside_it() {
    let gated = failing(0);
    let pends = async |_: Input| std::future::pending::<DynUpdate>().await;
    let graph = graph("g").node("a", pends).edge(START, "a").build().expect("sound");
    let host = host(&gated);
    let run = graph.run(&host, empty()).thread("t").durability(Durability::Async).outcome();
    let error = let_through(&gated, std::pin::pin!(run)).await.expect_err("it fails");
    assert_eq!(error.code().0, "W0211");
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_what_was_stored() {
    for writes in 0..4 {
        let world = World::default();
        let gated = gated();
        let graph = world.chain();
        let host = host(&gated);
        {
            let run = graph.run(&host, empty()).thread("t").durability(Durability::Async);
            let mut run = std::pin::pin!(run.outcome());
            for _ in 0..writes {
                assert!(idle(&mut run).await.is_none());
                gated.release();
            }
            assert!(idle(&mut run).await.is_none());
        }
        assert_eq!(gated.count("stored"), writes);
        let kept = Host::new().with_checkpointer(Arc::clone(&gated.checkpointer));
        let history = graph.history(&kept, &StateQuery::thread("t")).await.expect("reads");
        let expected = if writes == 0 { 0 } else { writes + 1 };
        assert_eq!(history.len(), expected, "the input is written with the first superstep");
        let start = if writes == 0 { empty() } else { Start::Continue };
        let ended = graph.run(&kept, start).thread("t").outcome().await.expect("goes on");
        assert_eq!(logged(ended), ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn every_end_waits_for_what_is_written_and_the_history_is_the_same() {
    for (what, graph) in ends() {
        for when in [When::Asked, When::LetThrough] {
            let mut found = Vec::new();
            for durability in [Durability::Sync, Durability::Async] {
                let gated = Gated::over(InMemoryCheckpointer::new(), when, None);
                let done = ended(what, &graph, &gated, durability).await;
                found.push((done, history(&graph, &gated.checkpointer).await));
            }
            assert_eq!(found[0], found[1], "{what}, {when:?}");
        }
    }
}
