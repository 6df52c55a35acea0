//! The keys that are sent along with what is done once: another one for each thing that is done, and
//! the same one when it is done again.

use crate::support::{empty, graph, kept};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{AsNode, StateUpdate};
use weftwork_graph::run_loop::{Checkpointer, Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{CompiledGraph, Ctx, Durability, DynUpdate, Input, NodeResult, Once, START};

/// The keys that were sent along.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("sound").clone()
    }

    /// Returns the number of keys sent since the first `before`, and checks that none was sent
    /// twice.
    fn since(&self, before: usize) -> usize {
        let all = self.all();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        all.len() - before
    }
}

/// A node that charges the same for everybody, and waits within for the gate.
fn charges(sent: &Sent, gate: &Arc<Semaphore>) -> CompiledGraph {
    let sent = sent.clone();
    let gate = Arc::clone(gate);
    let node = move |_: Input, ctx: Ctx| {
        let sent = sent.clone();
        let gate = Arc::clone(&gate);
        async move {
            let charge = Once::new("charge").with(json!({"cents": 4200})).idempotent();
            let work = async |key: weftwork_types::port::IdempotencyKey| {
                sent.0.lock().expect("sound").push(key.to_string());
                gate.acquire().await.expect("never closed").forget();
                Ok(())
            };
            ctx.once(charge, work).await?;
            NodeResult::Ok(DynUpdate::new())
        }
    };
    graph("charges").node("a", node).edge(START, "a").build().expect("sound")
}

async fn run(graph: &CompiledGraph, host: &Host, thread: &str, durability: Durability) {
    let run = graph.run(host, empty()).thread(thread).durability(durability);
    assert!(run.outcome().await.expect("runs").output().is_some());
}

const EACH: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

#[tokio::test]
async fn no_two_threads_send_the_same_key() {
    let sent = Sent::default();
    let gate = Arc::new(Semaphore::new(1_000));
    let graph = charges(&sent, &gate);
    for durability in EACH {
        let before = sent.all().len();
        let saver = InMemoryCheckpointer::new();
        let host = Host::new().with_checkpointer(saver.clone());
        let elsewhere = kept();
        run(&graph, &host, "a", durability).await;
        run(&graph, &host, "b", durability).await;
        // A thread of the same name in another store, and after it was deleted.
        run(&graph, &elsewhere, "a", durability).await;
        saver.delete("a").await.expect("deletes");
        run(&graph, &host, "a", durability).await;
        // The next turn of a thread.
        run(&graph, &host, "a", durability).await;
        // Threads that begin with a change from outside.
        for thread in ["c", "d"] {
            let values = Some(vec![("log".to_owned(), json!(["outside"]))]);
            let change = StateUpdate { values, as_node: AsNode::Node("__start__".to_owned()) };
            graph
                .update(&host, &StateQuery::thread(thread), vec![vec![change]])
                .await
                .expect("changes");
            run(&graph, &host, thread, durability).await;
        }
        assert_eq!(sent.since(before), 7, "{durability:?}");
    }
    let before = sent.all().len();
    for _ in 0..2 {
        graph.run(&Host::new(), empty()).outcome().await.expect("runs");
    }
    assert_eq!(sent.since(before), 2, "without a store");
}

#[tokio::test]
async fn what_is_done_again_sends_the_same_key() {
    let sent = Sent::default();
    let gate = Arc::new(Semaphore::new(0));
    let graph = charges(&sent, &gate);
    let host = kept();
    let mut first = Box::pin(graph.run(&host, empty()).thread("a").outcome());
    while sent.all().is_empty() {
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx)));
        assert!(polled.await.is_pending(), "it waits");
        tokio::task::yield_now().await;
    }
    drop(first);
    gate.add_permits(1);
    graph.run(&host, Start::Continue).thread("a").outcome().await.expect("runs");
    let sent = sent.all();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
}
