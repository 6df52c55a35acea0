//! Writes that are refused for a while, or slow: the run waits, and comes out as it would have.

use crate::faulty::{Faulty, Moment, name};
use crate::support::{Bench, check_stream, completed, on_each_store};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State};
use weftwork_store::StoreError;
use weftwork_testkit::ManualClock;
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::RunInput;
use weftwork_types::tool::Effect;

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

/// Makes a call for each run of a node, and counts those that were made.
async fn calls(state: State<Log>, ctx: Ctx, made: Deps<Count>) -> NodeResult<LogUpdate> {
    let name = format!("call {}", state.log().len());
    let intent = Intent {
        kind: CallKind::Once,
        name: name.clone(),
        input: hash(&json!(name)),
        call_id: None,
        effect: Effect::ExternalSideEffect,
        attempts: Attempts::Shared,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        made.fetch_add(1, Ordering::SeqCst);
        ctx.calls().journal.settle(key, CallResult { value: json!(1) }).await?;
    }
    Ok(LogUpdate::new().log([name]))
}

fn chain(made: &Count) -> CompiledGraph {
    let graph = Graph::<Log>::new("chain").with(Arc::clone(made));
    let graph = graph.node("a", calls).node("b", calls).node("c", calls);
    graph.edge(START, "a").edge("a", "b").edge("b", "c").build().expect("sound")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The store is full at every third of these writes.
    Refused,
    Slow,
}

/// Plays runs with a fault at a write until it was met often enough.
async fn play(point: &'static str, fault: Fault, moment: Moment) {
    let store = Faulty::new(crate::support::store());
    let met = Count::default();
    let made = Count::default();
    let times = Count::default();
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let bench = Bench::with_clock(store.clone(), chain(&made), clock).await;
    let count = Arc::clone(&met);
    store.interfere(move |at, when, commit| {
        if name(at, commit) != point || when != moment {
            return Ok(Duration::ZERO);
        }
        if fault == Fault::Slow {
            count.fetch_add(1, Ordering::SeqCst);
            return Ok(Duration::from_millis(1));
        }
        if times.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
            count.fetch_add(1, Ordering::SeqCst);
            let location = "faulty".to_owned();
            let reason = "no room".to_owned();
            return Err(StoreError::Full { location, reason });
        }
        Ok(Duration::ZERO)
    });
    let mut runs = 0;
    while met.load(Ordering::SeqCst) < 20 {
        let (events, outcome) =
            bench.run(Bench::request(RunInput::Start { input: json!({}) })).await;
        check_stream(&events);
        let log = completed(outcome)["log"].as_array().map(Vec::len);
        runs += 1;
        assert_eq!(log, Some(3 * runs), "{point}, {fault:?} {moment:?}");
        let made = made.load(Ordering::SeqCst);
        assert_eq!(made as usize, 3 * runs, "{point}, {fault:?} {moment:?}: each call once");
    }
}

#[tokio::test]
async fn writes_that_are_refused_or_slow_change_nothing() {
    for point in
        ["commit of an intent", "commit of a result", "commit of a step", "commit of the end"]
    {
        play(point, Fault::Refused, Moment::Before).await;
        play(point, Fault::Slow, Moment::Before).await;
        play(point, Fault::Slow, Moment::After).await;
    }
    play("claim", Fault::Slow, Moment::Before).await;
    play("claim", Fault::Slow, Moment::After).await;
}

/// A claim that the store has stored although it reported an error does not hold the run for ever.
/// The store cannot be read either for as many reads as `unread`.
async fn claim_whose_answer_is_lost(unread: u32, retriable: bool) {
    let store = Faulty::new(crate::support::store());
    let made = Count::default();
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let bench = Bench::with_clock(store.clone(), chain(&made), clock).await;
    let lost = Count::default();
    let unreadable = Arc::new(AtomicU32::new(unread));
    store.interfere(move |at, when, _| {
        let fails = match (at, when) {
            ("claim", Moment::After) => lost.fetch_add(1, Ordering::SeqCst) == 0,
            ("read of a run", Moment::Before) if lost.load(Ordering::SeqCst) == 1 => {
                let less_one = |left: u32| left.checked_sub(1);
                unreadable.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one).is_ok()
            }
            _ => false,
        };
        if fails {
            let location = "faulty".to_owned();
            let reason = "the connection was lost".to_owned();
            return Err(StoreError::Unavailable { location, reason, retriable });
        }
        Ok(Duration::ZERO)
    });
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let started = bench.runtime.execute(request.clone()).await;
    match unread {
        // The claim is found, and the run executed.
        0 => drop(completed(started.expect("found").outcome.await)),
        _ => {
            let error = started.expect_err("neither claimed nor read");
            assert_eq!(error.fault.code, "W0211");
        }
    }
    // The thread is free again, for a recovery and for further runs.
    let ended = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let handles = bench.runtime.recover().await.expect("read");
            for handle in handles {
                drop(completed(handle.outcome.await));
            }
            if made.load(Ordering::SeqCst) == 3 {
                break bench.run(request).await;
            }
            tokio::task::yield_now().await;
        }
    });
    let (_, outcome) = ended.await.expect("a run without a worker is taken over");
    assert_eq!(completed(outcome)["log"].as_array().map(Vec::len), Some(6));
    assert_eq!(made.load(Ordering::SeqCst), 6, "each call once");
}

#[tokio::test]
async fn claims_whose_answers_are_lost_are_found() {
    claim_whose_answer_is_lost(0, false).await;
    claim_whose_answer_is_lost(0, true).await;
    claim_whose_answer_is_lost(1, true).await;
    claim_whose_answer_is_lost(5, true).await;
}

on_each_store![; each_step: writes_that_are_refused_or_slow_change_nothing, claims_whose_answers_are_lost_are_found];
