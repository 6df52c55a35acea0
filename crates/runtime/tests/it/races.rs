//! Races of two tasks of one process for a thread in memory.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, RuntimeError, START, State};
use weftwork_runtime::{EndedRun, Runtime, Thread};
use weftwork_types::run::RunOutcome;

/// Number of races.
const RACES: u32 = 200;

#[derive(State)]
struct Order {
    #[channel(append)]
    log: List<String>,
}

/// Counts of what nodes did.
#[derive(Debug, Default)]
struct Seen {
    /// Nodes that are in progress.
    now: AtomicU32,
    overlaps: AtomicU32,
    started: AtomicU32,
    paid: AtomicU32,
}

/// Time in a node.
struct Stay(Arc<Seen>);

impl Stay {
    async fn new(seen: &Arc<Seen>) -> Self {
        let stay = Self(Arc::clone(seen));
        if seen.now.fetch_add(1, Ordering::SeqCst) > 0 {
            seen.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        stay
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn work(seen: Arc<Seen>) -> OrderUpdate {
    let _stay = Stay::new(&seen).await;
    seen.started.fetch_add(1, Ordering::SeqCst);
    OrderUpdate::new().log(["worked".to_owned()])
}

async fn pay(seen: Arc<Seen>, ctx: Ctx) -> NodeResult<OrderUpdate> {
    let answer = ctx.interrupt(json!("may this be paid?"))?;
    let _stay = Stay::new(&seen).await;
    seen.paid.fetch_add(1, Ordering::SeqCst);
    Ok(OrderUpdate::new().log([format!("paid: {answer}")]))
}

fn graph(seen: &Arc<Seen>) -> CompiledGraph {
    let works = Arc::clone(seen);
    let pays = Arc::clone(seen);
    let built = Graph::<Order>::new("order")
        .node("work", move |_: Ctx| work(Arc::clone(&works)))
        .node("pay", move |ctx: Ctx| pay(Arc::clone(&pays), ctx))
        .edge(START, "work")
        .edge("work", "pay");
    built.build().expect("sound")
}

/// Acts on a thread, by number.
async fn act(thread: Thread, act: u32) -> Result<Option<EndedRun>, RuntimeError> {
    let input = || json!({"log": ["from a task"]});
    match act {
        0 => thread.start(input()).await.map(Some),
        1 => thread.answer(json!("yes")).await.map(Some),
        2 => thread.update_as("work", input()).await.map(Some),
        _ => thread.cancel().await.map(|_| None),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tasks_race_for_a_thread_in_memory() {
    let mut won = 0;
    let mut lost = 0;
    for race in 0..RACES {
        let seen = Arc::new(Seen::default());
        let runtime = Runtime::in_memory().graph("order", graph(&seen)).open().await;
        let runtime = runtime.expect("opens");
        let thread = runtime.thread("order", "order-7").expect("valid names");
        let mut starts = 0;
        let mut answers = 0;
        if race % 3 > 0 {
            thread.start(json!({"log": []})).await.expect("accepted");
            starts += 1;
        }
        let acts = [race % 4, race / 4 % 4];
        let tasks = acts.map(|number| tokio::spawn(act(thread.clone(), number)));
        for (number, task) in acts.into_iter().zip(tasks) {
            match task.await.expect("no panic") {
                Ok(end) => {
                    won += 1;
                    starts += u32::from(number == 0);
                    answers += u32::from(number == 1);
                    let failed =
                        |end: &EndedRun| matches!(end.outcome(), RunOutcome::Failed { .. });
                    assert!(!end.as_ref().is_some_and(failed), "{acts:?}: {end:?}");
                }
                Err(error) => {
                    lost += 1;
                    let code = error.fault().code;
                    let expected = ["W0114", "W0120", "W0138", "W0201", "W0202", "W0204"];
                    assert!(expected.contains(&code.as_str()), "{acts:?}: {error}");
                }
            }
        }
        let count = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
        assert_eq!(count(&seen.overlaps), 0, "race {race}: {acts:?}");
        assert!(count(&seen.started) <= starts, "race {race}: {acts:?}");
        assert!(count(&seen.paid) <= answers, "race {race}: {acts:?}");
    }
    assert!(won > 0 && lost > 0, "{won} won, {lost} lost");
}
