//! Following runs and threads: live as soon as a run is executed here, and never at its expense.

use crate::support::{
    Bench, check_stream, completed, moving, on_each_store, options, store, thread,
};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use weftwork_graph::{CompiledGraph, Ctx, Deps, Graph, List, NodeResult, START, State};
use weftwork_runtime::{FollowFrom, Output, OutputStream, Selection, Thread};
use weftwork_store::Store;
use weftwork_testkit::ManualClock;
use weftwork_types::Principal;
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunRef};

#[derive(State)]
struct Talk {
    #[channel(append)]
    log: List<String>,
}

/// Instruction for the node of a run.
#[derive(Debug)]
enum Line {
    Say(&'static str),
    /// Emits an event with a value of this size.
    Emit(usize),
    End,
}

#[derive(Debug)]
struct Script(Mutex<mpsc::UnboundedReceiver<Line>>);

type Prompter = mpsc::UnboundedSender<Line>;

async fn speaks(ctx: Ctx, script: Deps<Arc<Script>>) -> NodeResult<TalkUpdate> {
    let mut lines = script.0.0.lock().await;
    let id = ctx.message_id();
    while let Some(line) = lines.recv().await {
        match line {
            Line::Say(text) => ctx.token(&id, text),
            Line::Emit(size) => ctx.emit(json!("x".repeat(size))),
            Line::End => break,
        }
    }
    Ok(TalkUpdate::new().log(["spoke".to_owned()]))
}

fn graph() -> (CompiledGraph, Prompter) {
    let (prompter, lines) = mpsc::unbounded_channel();
    let script = Arc::new(Script(Mutex::new(lines)));
    let graph = Graph::<Talk>::new("talk").with(script).node("a", speaks).edge(START, "a");
    (graph.build().expect("sound"), prompter)
}

/// A process with a clock that stands still, and the prompter of its runs.
async fn process(store: &Arc<dyn Store>, clock: &ManualClock) -> (Bench, Prompter) {
    let (graph, prompter) = graph();
    let clock = Arc::new(clock.clone());
    (Bench::with_clock(Arc::clone(store), graph, clock).await, prompter)
}

fn tell<const N: usize>(prompter: &Prompter, lines: [Line; N]) {
    lines.into_iter().for_each(|line| prompter.send(line).expect("somebody listens"));
}

async fn started(bench: &Bench) -> RunHandle {
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options = RunOptions { multitask: Multitask::Enqueue, ..options() };
    bench.runtime.execute(request).await.expect("accepted")
}

async fn watched(bench: &Bench, at: &RunRef, after: Position) -> RunHandle {
    bench
        .runtime
        .follow_run(&Principal::local(), at)
        .await
        .expect("there is such a run")
        .after(after.into())
        .into_handle()
}

/// Receives events until one of them is this text.
async fn heard(handle: &mut RunHandle, text: &str) -> Vec<RunEvent> {
    let mut all = Vec::new();
    loop {
        let event = handle.events.next().await.expect("goes on");
        let found = matches!(&event.event, AiEvent::TextDelta { delta } if delta == text);
        all.push(event);
        if found {
            return all;
        }
    }
}

fn seqs(events: &[RunEvent]) -> Vec<u64> {
    events.iter().filter_map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_follower_of_a_queued_run_is_live_when_it_begins() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    let first = started(&here).await;
    let second = started(&here).await;
    let mut follower = watched(&here, &second.run, Position::START).await;
    assert!(follower.events.next().now_or_never().is_none(), "it has not begun");
    tell(&prompter, [Line::End, Line::Say("now")]);
    completed(first.outcome.await);
    // No time passes, so the text is not stored, and no store is read again.
    let events = heard(&mut follower, "now").await;
    assert_eq!(seqs(&events).first(), Some(&1));
    tell(&prompter, [Line::End]);
    let rest: Vec<_> = follower.events.collect().await;
    check_stream(&[events, rest].concat());
    assert!(!clock.sleeps().contains(&Duration::from_millis(200)), "{:?}", clock.sleeps());
    completed(follower.outcome.await);
}

#[tokio::test]
async fn a_follower_of_a_released_run_is_live_when_it_is_taken_over() {
    let store = store();
    let clock = ManualClock::new();
    let (one, leaves) = process(&store, &clock).await;
    let (two, stays) = process(&store, &clock).await;
    let mut handle = started(&one).await;
    tell(&leaves, [Line::Say("before")]);
    heard(&mut handle, "before").await;
    let mut follower = watched(&two, &handle.run, Position::START).await;
    moving(&clock, follower.events.next()).await.expect("it has started");
    let left = one.runtime.shutdown(Duration::ZERO).await.expect("the lease ends");
    assert_eq!(left, []);
    let own: Vec<_> = handle.events.collect().await;
    assert!(matches!(own.last().map(|e| &e.event), Some(AiEvent::Released { claim: 1 })));
    let taken = two.runtime.recover().await.expect("reads").pop().expect("it is left");
    tell(&stays, [Line::Say("after")]);
    let events = moving(&clock, heard(&mut follower, "after")).await;
    let released = |event: &RunEvent| matches!(event.event, AiEvent::Released { .. });
    assert_eq!(events.iter().filter(|event| released(event)).count(), 1);
    // It is attached by now, so no time needs to pass.
    tell(&stays, [Line::Say("live")]);
    let live = heard(&mut follower, "live").await;
    assert_eq!(live.len(), 1);
    tell(&stays, [Line::End]);
    let rest: Vec<_> = follower.events.collect().await;
    let all = seqs(&[events, live, rest].concat());
    assert_eq!(all, (2..2 + all.len() as u64).collect::<Vec<_>>(), "each event once");
    completed(taken.outcome.await);
    completed(follower.outcome.await);
}

#[tokio::test]
async fn waiting_for_the_end_of_a_run_of_this_process_polls_nothing() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    let (elsewhere, _) = process(&store, &clock).await;
    let handle = started(&here).await;
    let waits = watched(&here, &handle.run, Position::START).await;
    let waits = tokio::spawn(async move {
        drop(waits.events);
        waits.outcome.await
    });
    let before = clock.sleeps().len();
    for _ in 0..100 {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.sleeps().len(), before);
    let polls = watched(&elsewhere, &handle.run, Position::START).await;
    tell(&prompter, [Line::End]);
    completed(handle.outcome.await);
    completed(waits.await.expect("no panic"));
    let polled = moving(&clock, polls.outcome).await;
    completed(polled);
}

#[tokio::test]
async fn a_follower_elsewhere_polls_more_and_more_seldom() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    let (elsewhere, _) = process(&store, &clock).await;
    let handle = started(&here).await;
    let mut follower = watched(&elsewhere, &handle.run, Position::START).await;
    moving(&clock, follower.events.next()).await.expect("it has started");
    let idle = async {
        loop {
            // Events that were emitted at the start.
            drop(follower.events.next().now_or_never());
            if clock.sleeps().ends_with(&[100, 200, 400, 500, 500].map(Duration::from_millis)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    moving(&clock, idle).await;
    tell(&prompter, [Line::End]);
    let rest: Vec<_> = moving(&clock, follower.events.collect()).await;
    let done = rest.last().map(|event| &event.event);
    assert!(matches!(done, Some(AiEvent::Done { .. })), "{done:?}");
    completed(handle.outcome.await);
}

#[tokio::test]
async fn followers_that_lag_get_the_rest_from_the_store() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    let mut handle = started(&here).await;
    let mut follower = watched(&here, &handle.run, Position::START).await;
    tell(&prompter, [Line::Say("begin")]);
    let own = heard(&mut handle, "begin").await;
    let others = heard(&mut follower, "begin").await;
    // Several times as much as may wait for them.
    for _ in 0..100 {
        tell(&prompter, [Line::Emit(4 << 10), Line::Say("said"), Line::Emit(1)]);
    }
    tell(&prompter, [Line::End]);
    let outcome = watched(&here, &handle.run, Position::START).await.outcome;
    completed(outcome.await);
    let rest: Vec<_> = handle.events.collect().await;
    check_stream(&[own, rest].concat());
    let rest: Vec<_> = follower.events.collect().await;
    check_stream(&[others, rest].concat());
}

#[tokio::test]
async fn a_client_that_reconnects_after_the_end_is_told_so() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    tell(&prompter, [Line::End]);
    let handle = started(&here).await;
    let events: Vec<_> = handle.events.collect().await;
    let last = events.last().and_then(RunEvent::position).expect("it is stored");
    let again = watched(&here, &handle.run, last).await;
    assert_eq!(again.events.collect::<Vec<_>>().await, []);
    completed(again.outcome.await);
}

fn of(bench: &Bench) -> Thread {
    bench.runtime.thread("test:graph", thread().as_str()).expect("hosted")
}

fn logged() -> Selection {
    Selection::default().with_logged_texts()
}

async fn follow(thread: &Thread, from: FollowFrom, select: Selection) -> OutputStream {
    thread.follow(from, select).await.expect("follows")
}

async fn collected(thread: &Thread, from: FollowFrom) -> Vec<Output> {
    let events = follow(thread, from, logged().until_rest()).await;
    events.map(|event| event.expect("reads")).collect().await
}

async fn next(clock: &ManualClock, events: &mut OutputStream) -> Output {
    moving(clock, events.next()).await.expect("goes on").expect("reads")
}

fn of_log(output: &Output) -> &RunEvent {
    output.event().expect("no frames are selected")
}

#[tokio::test]
async fn all_runs_of_a_thread_are_one_stream() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompter) = process(&store, &clock).await;
    let (elsewhere, _) = process(&store, &clock).await;
    // Before there is a thread.
    let mut live = follow(&of(&here), FollowFrom::Start, logged()).await;
    let mut far = follow(&of(&elsewhere), FollowFrom::Start, logged()).await;
    assert!(live.next().now_or_never().is_none());
    let mut told = Vec::new();
    let mut far_told = Vec::new();
    for text in ["one", "two", "three"] {
        let handle = started(&here).await;
        tell(&prompter, [Line::Emit(3), Line::Say(text), Line::End]);
        for (events, all) in [(&mut live, &mut told), (&mut far, &mut far_told)] {
            loop {
                let event = next(&clock, events).await;
                assert_eq!(event.run, handle.run);
                let done = matches!(of_log(&event).event, AiEvent::Done { .. });
                all.push(event);
                if done {
                    break;
                }
            }
        }
        completed(handle.outcome.await);
        assert!(live.next().now_or_never().is_none(), "the thread is at rest");
    }
    let durable = |all: &[Output]| {
        all.iter().filter(|event| of_log(event).seq.is_some()).cloned().collect::<Vec<_>>()
    };
    let all = durable(&told);
    assert_eq!(durable(&far_told), all, "in another process too");
    assert_eq!(collected(&of(&elsewhere), FollowFrom::Start).await, all, "and later");
    assert_eq!(collected(&of(&here), FollowFrom::Now).await, []);
    for (n, event) in all.iter().enumerate() {
        let after = event.start_after();
        assert_eq!(collected(&of(&here), after).await, all[n + 1..], "after {n}");
    }
}

on_each_store![
    waiting_for_the_end_of_a_run_of_this_process_polls_nothing,
    a_client_that_reconnects_after_the_end_is_told_so,
    all_runs_of_a_thread_are_one_stream;
    each_step:
    a_follower_of_a_queued_run_is_live_when_it_begins,
    a_follower_of_a_released_run_is_live_when_it_is_taken_over,
    a_follower_elsewhere_polls_more_and_more_seldom,
    followers_that_lag_get_the_rest_from_the_store,
];
