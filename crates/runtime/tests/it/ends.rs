//! Ends of runs, whatever fails: a single `done`, a free thread, and only true events.

use crate::faulty::{Faulty, Moment, name};
use crate::support::{Bench, check_stream, completed, failed, interrupted, on_each_store, thread};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Failure, Graph, List, Next, NodeError, NodeResult, START, State,
};
use weftwork_store::{Commit, NewRun, Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Attempts, CallKind, CallResult, Clock, GraphExecutor, Intent, Opened};
use weftwork_types::run::{RunInput, RunOutcome, RunRef, RunStatus};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, ErrorCode, InterruptId, MessageId, Principal, RunId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

type Count = Arc<AtomicU32>;

fn say(text: impl Into<String>) -> LogUpdate {
    LogUpdate::new().log([text.into()])
}

fn chain() -> CompiledGraph {
    Graph::<Log>::new("chain")
        .node("a", async |_: State<Log>| say("a"))
        .edge(START, "a")
        .build()
        .expect("sound")
}

fn asking() -> CompiledGraph {
    Graph::<Log>::new("asking")
        .node("ask", async |ctx: Ctx| -> NodeResult<LogUpdate> {
            Ok(say(ctx.interrupt(json!("go on?"))?.to_string()))
        })
        .edge(START, "ask")
        .build()
        .expect("sound")
}

fn start() -> RunInput {
    RunInput::Start { input: json!({}) }
}

/// Lets a store refuse commits as a full disk does.
fn refuse(store: &Faulty, refuses: impl Fn(&Commit) -> bool + Send + Sync + 'static) {
    store.interfere(move |_, moment, commit| {
        if moment == Moment::Before && commit.is_some_and(&refuses) {
            let location = "faulty".to_owned();
            let reason = "no room".to_owned();
            return Err(StoreError::Full { location, reason });
        }
        Ok(Duration::ZERO)
    });
}

#[tokio::test]
async fn a_run_from_a_checkpoint_that_is_not_there_ends_and_frees_the_thread() {
    let bench = Bench::new(chain()).await;
    completed(bench.start(json!({})).await);
    let mut request = Bench::request(RunInput::Continue);
    request.options.at = Some(CheckpointId(7));
    // A request with a key may be a repetition, and is accepted.
    request.options.idempotency_key = Some("once".to_owned());
    let (events, outcome) = bench.run(request).await;
    check_stream(&events);
    assert_eq!(failed(outcome).0, "W0126");
    assert_eq!(completed(bench.start(json!({})).await)["log"], json!(["a", "a"]));
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Mine;

impl Serialize for Mine {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("cannot be written")
    }
}

#[derive(State)]
struct Minefield {
    mine: Mine,
}

#[tokio::test]
async fn a_value_that_panics_when_it_is_stored_ends_its_run_and_frees_the_thread() {
    let graph = Graph::<Minefield>::new("mine")
        .node("lay", async |_: State<Minefield>| MinefieldUpdate::new().mine(Mine))
        .edge(START, "lay")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    for _ in 0..2 {
        let (events, outcome) = bench.run(Bench::request(start())).await;
        check_stream(&events);
        let (code, message) = failed(outcome);
        assert_eq!(code, "W0110");
        assert!(message.contains("cannot be written"), "{message}");
        let told = events.iter().any(|e| e.event.is_step());
        assert!(!told, "no step was committed");
    }
}

#[tokio::test]
async fn input_that_is_refused_leaves_open_questions_open() {
    let bench = Bench::new(asking()).await;
    let open = interrupted(bench.start(json!({})).await);
    assert_eq!(failed(bench.start(json!({"lag": 1})).await).0, "W0105");
    let output = completed(bench.resume([(open[0], json!("yes"))].into()).await);
    assert_eq!(output["log"], json!(["\"yes\""]));
}

/// Tries a failure of each read of the questions by a failing run: none closes the question.
#[tokio::test(start_paused = true)]
async fn questions_that_cannot_be_read_for_a_while_stay_open() {
    let mut reads = 0;
    for failing in 0.. {
        let faulty = Faulty::new(crate::support::store());
        let clock = Arc::new(ManualClock::moved_by_sleeps());
        let bench = Bench::with_clock(faulty.clone(), asking(), clock).await;
        let open = interrupted(bench.start(json!({})).await);
        let read = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&read);
        faulty.interfere(move |point, moment, _| {
            let is_read = point == "interrupts" && moment == Moment::Before;
            if is_read && counter.fetch_add(1, Ordering::SeqCst) == failing {
                let location = "faulty".to_owned();
                let reason = "no connection".to_owned();
                return Err(StoreError::Unavailable { location, reason, retriable: true });
            }
            Ok(Duration::ZERO)
        });
        let refused = Bench::request(RunInput::Start { input: json!({"lag": 1}) });
        if let Ok(handle) = bench.runtime.execute(refused).await {
            assert_eq!(failed(handle.outcome.await).0, "W0105", "read {failing}");
        }
        let status = async || {
            let row = bench.store.thread(&Principal::local(), &thread()).await.expect("reads");
            row.status
        };
        while !status().await.is_some_and(RunStatus::is_final) {
            tokio::task::yield_now().await;
        }
        reads = read.load(Ordering::SeqCst);
        refuse(&faulty, |_| false);
        assert_eq!(open_questions(&bench).await, open, "read {failing}");
        completed(bench.resume([(open[0], json!("yes"))].into()).await);
        if failing >= reads {
            break;
        }
    }
    assert!(reads > 0, "the end reads the questions");
}

#[tokio::test]
async fn a_limit_of_no_steps_leaves_open_questions_open() {
    let bench = Bench::new(asking()).await;
    let open = interrupted(bench.start(json!({})).await);
    let mut request = Bench::request(RunInput::Continue);
    request.options.step_limit = Some(0);
    assert_eq!(bench.run(request).await.1, RunOutcome::LimitReached { step_limit: 0 });
    completed(bench.resume([(open[0], json!("yes"))].into()).await);
}

/// Lets everything go on until the clock was asked to wait this often.
async fn asked_to_wait(clock: &ManualClock, times: usize) {
    while clock.sleeps().len() < times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_full_store_pauses_a_run_and_nothing_is_told_until_it_is_committed() {
    let refused: [fn(&Commit) -> bool; 2] =
        [|commit| commit.finish.is_some(), |commit| !commit.batch.checkpoints.is_empty()];
    for refused in refused {
        let store = Faulty::new(crate::support::store());
        let clock = Arc::new(ManualClock::new());
        let bench = Bench::with_clock(store.clone(), chain(), clock.clone()).await;
        refuse(&store, refused);
        let mut handle = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
        asked_to_wait(&clock, 1).await;
        clock.advance(Duration::from_secs(1));
        asked_to_wait(&clock, 2).await;
        assert_eq!(clock.sleeps(), [1, 2].map(Duration::from_secs));
        let mut events = Vec::new();
        while let Some(Some(event)) = futures_util::FutureExt::now_or_never(handle.events.next()) {
            events.push(event);
        }
        let steps = |events: &[RunEvent]| events.iter().filter(|e| e.event.is_step()).count();
        assert_eq!(steps(&events), 0, "the last superstep is committed with the end");
        let paused = |event: &RunEvent| match &event.event {
            AiEvent::StoreUnavailable { fault } => Some(fault.code.clone()),
            AiEvent::StoreAvailable => Some(String::new()),
            _ => None,
        };
        let pauses = |events: &[RunEvent]| events.iter().filter_map(paused).collect::<Vec<_>>();
        assert_eq!(pauses(&events), ["W0207"], "reported at once, and once");
        let row = bench.store.thread(&Principal::local(), &thread()).await.expect("reads");
        assert_eq!(row.status, Some(RunStatus::Running));
        refuse(&store, |_| false);
        clock.advance(Duration::from_secs(2));
        assert_eq!(completed(handle.outcome.await)["log"], json!(["a"]));
        events.extend(handle.events.collect::<Vec<_>>().await);
        check_stream(&events);
        assert_eq!(steps(&events), 1);
        assert_eq!(pauses(&events), ["W0207", ""]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_deadline_while_its_events_are_committed_reports_each_once() {
    let graph = Graph::<Log>::new("hanging")
        .node("a", async |ctx: Ctx| -> NodeResult<LogUpdate> {
            ctx.calls().emit.emit(AiEvent::custom(json!("said")));
            std::future::pending().await
        })
        .edge(START, "a")
        .build()
        .expect("sound");
    let store = Faulty::new(crate::support::store());
    let clock = Arc::new(ManualClock::new());
    let committing = Arc::new(tokio::sync::Notify::new());
    let begun = Arc::clone(&committing);
    store.interfere(move |point, moment, commit| {
        let is_slow = name(point, commit) == "commit of events" && moment == Moment::After;
        if is_slow {
            begun.notify_one();
        }
        Ok(Duration::from_millis(if is_slow { 100 } else { 0 }))
    });
    let bench = Bench::with_clock(store, graph, clock.clone()).await;
    let mut request = Bench::request(start());
    request.options.deadline = Some(clock.now().plus(Duration::from_secs(1)));
    let handle = bench.runtime.execute(request).await.expect("accepted");
    let run = handle.run.clone();
    committing.notified().await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(failed(handle.outcome.await).0, "W0124");
    let stored = bench.store.events(&Principal::local(), &run, 0, 100).await.expect("reads");
    let said = stored.iter().filter(|told| matches!(told.event, AiEvent::Custom { .. }));
    assert_eq!(said.count(), 1, "{stored:?}");
}

/// A node that asks, beside one that never ends.
fn asking_beside(begun: &Arc<tokio::sync::Notify>) -> CompiledGraph {
    Graph::<Log>::new("beside")
        .with(Arc::clone(begun))
        .node("ask", async |ctx: Ctx| -> NodeResult<LogUpdate> {
            Ok(say(ctx.interrupt(json!("go on?"))?.to_string()))
        })
        .node("hang", async |begun: Deps<Arc<tokio::sync::Notify>>| -> NodeResult<LogUpdate> {
            begun.notify_one();
            std::future::pending().await
        })
        .edge(START, "ask")
        .edge(START, "hang")
        .build()
        .expect("sound")
}

/// The ids of the open questions: of the state, which are those of the inbox.
async fn open_questions(bench: &Bench) -> Vec<InterruptId> {
    let rows = bench.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
    let inbox: Vec<_> =
        rows.iter().filter(|row| row.is_open()).map(|row| row.interrupt.id).collect();
    let opened = bench.runtime.thread("test:graph", thread().as_str()).expect("hosted");
    let state = opened.view().state().await.expect("reads");
    assert_eq!(state.interrupts.iter().map(|asked| asked.id).collect::<Vec<_>>(), inbox);
    inbox
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_deadline_has_the_time_from_the_acceptance_of_the_run() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let clock = Arc::new(ManualClock::new());
    let store = Faulty::new(crate::support::store());
    let late = clock.clone();
    store.interfere(move |point, moment, commit| {
        if name(point, commit) == "claim" && moment == Moment::Before {
            late.advance(Duration::from_millis(400));
        }
        Ok(Duration::ZERO)
    });
    let bench = Bench::with_clock(store, asking_beside(&begun), clock.clone()).await;
    let mut request = Bench::request(start());
    request.options.deadline = Some(clock.now().plus(Duration::from_secs(1)));
    let handle = bench.runtime.execute(request).await.expect("accepted");
    begun.notified().await;
    assert_eq!(clock.elapsed(), Duration::from_millis(400));
    clock.advance(Duration::from_millis(600));
    let RunOutcome::Failed { fault } = handle.outcome.await else { panic!("failed") };
    let details = fault.details.expect("the circumstances");
    assert_eq!(details.phase, Some(Phase::Node));
    assert_eq!(details.limit.map(|reached| (reached.used, reached.limit)), Some((1_000, 1_000)));
}

/// A part of a run, such as a model call, may notice the deadline first, and may have its own.
#[tokio::test]
async fn a_node_that_notices_the_deadline_of_its_run_has_its_limit() {
    let late =
        async |clock: Deps<Arc<ManualClock>>, takes: Deps<Duration>| -> NodeResult<LogUpdate> {
            clock.advance(*takes);
            Err(Fault::new(ErrorCode("W0124"), "no time is left").into())
        };
    for (takes, expected) in [(1_000, Some(1_000)), (999, None)] {
        let clock = Arc::new(ManualClock::new());
        let graph = Graph::<Log>::new("late").with(Arc::clone(&clock));
        let graph = graph.with(Duration::from_millis(takes)).node("a", late).edge(START, "a");
        let graph = graph.build().expect("sound");
        let bench = Bench::with_clock(crate::support::store(), graph, clock.clone()).await;
        let mut request = Bench::request(start());
        request.options.deadline = Some(clock.now().plus(Duration::from_secs(1)));
        let RunOutcome::Failed { fault } = bench.run(request).await.1 else { panic!("failed") };
        let limit = fault.details.and_then(|details| details.limit);
        assert_eq!((&*fault.code, limit.map(|reached| reached.limit)), ("W0124", expected));
    }
}

#[tokio::test(start_paused = true)]
async fn questions_of_a_run_that_is_cut_at_its_deadline_stay_open() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let clock = Arc::new(ManualClock::new());
    let store = crate::support::store();
    let bench = Bench::with_clock(store, asking_beside(&begun), clock.clone()).await;
    let mut request = Bench::request(start());
    request.options.deadline = Some(clock.now().plus(Duration::from_secs(1)));
    let handle = bench.runtime.execute(request).await.expect("accepted");
    begun.notified().await;
    // The question is on record before the deadline.
    tokio::time::sleep(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(failed(handle.outcome.await).0, "W0124");
    assert_eq!(open_questions(&bench).await.len(), 1);
}

#[tokio::test]
async fn a_question_that_was_answered_before_its_run_is_cancelled_is_not_open() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let graph = Graph::<Log>::new("asks")
        .with(Arc::clone(&begun))
        .node(
            "ask",
            async |ctx: Ctx, begun: Deps<Arc<tokio::sync::Notify>>| -> NodeResult<LogUpdate> {
                ctx.interrupt(json!("go on?"))?;
                begun.notify_one();
                std::future::pending().await
            },
        )
        .edge(START, "ask")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let asked = interrupted(bench.start(json!({})).await);
    assert_eq!(open_questions(&bench).await, asked);
    let answers: BTreeMap<_, _> = asked.into_iter().map(|id| (id, json!("yes"))).collect();
    let handle = bench.runtime.execute(Bench::request(RunInput::answers(answers))).await;
    let handle = handle.expect("accepted");
    begun.notified().await;
    bench.runtime.cancel(&Principal::local(), &handle.run).await.expect("runs");
    assert_eq!(handle.outcome.await.status(), RunStatus::Cancelled);
    assert_eq!(open_questions(&bench).await, []);
}

#[tokio::test]
async fn a_store_that_is_full_for_long_is_asked_again_once_a_minute() {
    let store = Faulty::new(crate::support::store());
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let bench = Bench::with_clock(store.clone(), chain(), clock.clone()).await;
    let refused = Count::default();
    let count = Arc::clone(&refused);
    refuse(&store, move |_| count.fetch_add(1, Ordering::SeqCst) < 8);
    let (events, outcome) = bench.run(Bench::request(start())).await;
    check_stream(&events);
    assert_eq!(completed(outcome)["log"], json!(["a"]));
    assert_eq!(clock.sleeps(), [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs));
}

#[tokio::test]
async fn a_run_that_waits_for_a_full_store_can_be_cancelled_and_its_end_is_recorded_later() {
    let store = Faulty::new(crate::support::store());
    let clock = Arc::new(ManualClock::new());
    let bench = Bench::with_clock(store.clone(), chain(), clock.clone()).await;
    refuse(&store, |_| true);
    let handle = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    asked_to_wait(&clock, 1).await;
    bench.runtime.cancel(&Principal::local(), &handle.run).await.expect("it goes");
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
    let told: Vec<_> = handle.events.collect().await;
    assert_eq!(told.len(), 2, "the pause and the end: {told:?}");
    let status = async || {
        let row = bench.store.thread(&Principal::local(), &thread()).await.expect("reads");
        row.status
    };
    assert_eq!(status().await, Some(RunStatus::Running), "nobody can know yet");
    asked_to_wait(&clock, 2).await;
    refuse(&store, |_| false);
    while status().await != Some(RunStatus::Cancelled) {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(completed(bench.start(json!({})).await)["log"], json!(["a"]));
}

#[tokio::test]
async fn the_stream_ends_with_done_even_when_somebody_keeps_the_context() {
    let kept: Arc<Mutex<Option<Ctx>>> = Arc::default();
    let graph = Graph::<Log>::new("keeps")
        .with(Arc::clone(&kept))
        .node("keep", async |ctx: Ctx, kept: Deps<Arc<Mutex<Option<Ctx>>>>| {
            *kept.lock().expect("not poisoned") = Some(ctx);
        })
        .edge(START, "keep")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let mut handle = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    completed(handle.outcome.await);
    kept.lock().expect("not poisoned").as_ref().expect("kept").emit(json!("late"));
    let mut events = Vec::new();
    while let Some(Some(event)) = futures_util::FutureExt::now_or_never(handle.events.next()) {
        events.push(event);
    }
    check_stream(&events);
    let end = futures_util::FutureExt::now_or_never(handle.events.next());
    assert!(matches!(end, Some(None)), "the stream is over");
}

#[tokio::test]
async fn a_handlers_question_is_its_own_and_not_answered_by_the_answer_its_node_got() {
    async fn fails(ctx: Ctx) -> NodeResult<LogUpdate> {
        ctx.interrupt(json!("send the letter?"))?;
        Err(NodeError::message("no paper"))
    }
    async fn rescue(Failure(_): Failure, ctx: Ctx) -> NodeResult<LogUpdate> {
        Ok(say(format!("burn the house: {}", ctx.interrupt(json!("burn the house?"))?)))
    }
    let graph = Graph::<Log>::new("handler")
        .node("fails", fails)
        .on_error("fails", rescue)
        .edge(START, "fails")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let first = interrupted(bench.start(json!({})).await);
    let second = interrupted(bench.resume([(first[0], json!("yes"))].into()).await);
    assert_ne!(first, second);
    let output = completed(bench.resume([(second[0], json!("no"))].into()).await);
    assert_eq!(output["log"], json!(["burn the house: \"no\""]));
}

fn endless(runs: &Count) -> CompiledGraph {
    Graph::<Log>::new("endless")
        .with(Arc::clone(runs))
        .node("again", async |runs: Deps<Count>| {
            runs.fetch_add(1, Ordering::SeqCst);
        })
        .edge(START, "again")
        .edge("again", "again")
        .step_limit(20_000)
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_loop_of_nodes_that_never_wait_lets_others_work_and_can_be_cancelled() {
    let bench = Bench::new(endless(&Count::default())).await;
    let handle = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    tokio::task::yield_now().await;
    bench.runtime.cancel(&Principal::local(), &handle.run).await.expect("it goes");
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
}

#[tokio::test]
async fn a_run_that_another_process_cancels_stops_at_its_next_commit() {
    let store: Arc<dyn Store> = crate::support::store();
    let runs = Count::default();
    let other = Count::default();
    let bench = Bench::on(Arc::clone(&store), endless(&runs)).await;
    let elsewhere = Bench::on(store, endless(&other)).await;
    let handle = bench.runtime.execute(Bench::request(start())).await.expect("accepted");
    elsewhere.runtime.cancel(&Principal::local(), &handle.run).await.expect("it goes");
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_a_worker_had_it_runs_no_node() {
    let runs = Count::default();
    let bench = Bench::new(endless(&runs)).await;
    let who = Principal::local();
    let at = RunRef { thread: thread(), run: RunId::new("r").expect("valid id") };
    let run = NewRun {
        at: at.clone(),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request").expect("valid id"),
        input: start(),
        options: crate::support::options(),
        created_at: weftwork_types::Timestamp(1),
    };
    bench.store.create_run(&who, run, [].into()).await.expect("a run");
    bench.runtime.cancel(&who, &at).await.expect("it is there");
    let handle = bench.runtime.take_over(&who, &at).await.expect("nobody has it");
    assert_eq!(handle.outcome.await, RunOutcome::cancelled());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

async fn call(ctx: Ctx) -> NodeResult<LogUpdate> {
    ctx.emit(json!("before"));
    let intent = Intent {
        kind: CallKind::Once,
        name: "call".to_owned(),
        input: hash(&json!(1)),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
        ctx.calls().journal.settle(key, CallResult { value: json!(1) }).await?;
    }
    Ok(say("called"))
}

/// Time stands still while anything can go on: a deadlock ends at the limit, at once.
#[tokio::test(start_paused = true)]
async fn calls_of_tasks_and_commits_of_the_run_can_share_one_connection() {
    let graph = Graph::<Log>::new("calls")
        .node("a", call)
        .node("b", call)
        .node("c", call)
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c")
        .build()
        .expect("sound");
    let bench = Bench::on(Faulty::new(crate::support::store()), graph).await;
    let limit = std::time::Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, bench.start(json!({}))).await;
    completed(outcome.expect("no deadlock"));
}

#[tokio::test]
async fn a_route_that_cannot_see_its_state_keeps_what_siblings_finished() {
    let runs = Count::default();
    let graph = Graph::<Log>::new("preview")
        .with(Arc::clone(&runs))
        .node("good", async |runs: Deps<Count>| {
            runs.fetch_add(1, Ordering::SeqCst);
            say("good")
        })
        .node("odd", async |_: State<Log>| Odd)
        .edge(START, "good")
        .edge(START, "odd")
        .route_to("odd", ["good"], |_: State<Log>| Next::End)
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    assert_eq!(failed(bench.start(json!({})).await).0, "W0103");
    assert_eq!(failed(bench.proceed().await).0, "W0103");
    assert_eq!(runs.load(Ordering::SeqCst), 1, "the finished sibling is not run again");
}

/// A write that the channel `log` cannot take.
struct Odd;

impl weftwork_graph::IntoOutput for Odd {
    fn into_output(self) -> NodeResult<weftwork_engine::TaskOutput> {
        let write = weftwork_engine::Write::json(json!({"odd": true}));
        let mut output = weftwork_engine::TaskOutput::default();
        output.write(weftwork_engine::ChannelIdx(0), write);
        Ok(output)
    }
}

fn message(id: &str) -> Message {
    Message::text(MessageId::new(id).expect("valid id"), Role::Assistant, id)
}

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

#[tokio::test]
async fn a_message_of_a_task_that_finished_before_the_pause_is_told_when_its_step_closes() {
    let graph = Graph::<Talk>::new("talk")
        .node("ask", async |ctx: Ctx| -> NodeResult<TalkUpdate> {
            ctx.interrupt(json!("go on?"))?;
            Ok(TalkUpdate::new().messages([message("asked")]))
        })
        .node("beside", async |_: State<Talk>| TalkUpdate::new().messages([message("beside")]))
        .edge(START, "ask")
        .edge(START, "beside")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let open = interrupted(bench.start(json!({})).await);
    let answers = std::collections::BTreeMap::from([(open[0], json!("yes"))]);
    let (events, outcome) = bench.run(Bench::request(RunInput::answers(answers))).await;
    completed(outcome);
    let told: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.event {
            AiEvent::MessageFinal { message } => Some(message.id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["asked", "beside"]);
}

#[tokio::test]
async fn a_repeated_request_gets_the_events_and_the_end_of_the_first_ones_run() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let graph = Graph::<Log>::new("gate")
        .with(Arc::clone(&gate))
        .node("wait", async |gate: Deps<Arc<tokio::sync::Notify>>| {
            gate.notified().await;
            say("waited")
        })
        .edge(START, "wait")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let mut request = Bench::request(start());
    request.options.idempotency_key = Some("once".to_owned());
    let first = bench.runtime.execute(request.clone()).await.expect("accepted");
    let during = bench.runtime.execute(request.clone()).await.expect("the same request");
    gate.notify_one();
    let outcome = first.outcome.await;
    assert_eq!(completed(outcome.clone())["log"], json!(["waited"]));
    let after = bench.runtime.execute(request).await.expect("the same request");
    let durable: Vec<_> =
        first.events.filter(|e| std::future::ready(e.seq.is_some())).collect().await;
    for again in [during, after] {
        assert_eq!(again.run, first.run);
        assert_eq!(again.events.collect::<Vec<_>>().await, durable);
        assert_eq!(again.outcome.await, outcome);
    }
}

on_each_store![
    a_repeated_request_gets_the_events_and_the_end_of_the_first_ones_run,
    a_run_from_a_checkpoint_that_is_not_there_ends_and_frees_the_thread,
    a_value_that_panics_when_it_is_stored_ends_its_run_and_frees_the_thread,
    input_that_is_refused_leaves_open_questions_open,
    a_limit_of_no_steps_leaves_open_questions_open,
    a_full_store_pauses_a_run_and_nothing_is_told_until_it_is_committed,
    a_run_that_waits_for_a_full_store_can_be_cancelled_and_its_end_is_recorded_later,
    the_stream_ends_with_done_even_when_somebody_keeps_the_context,
    a_handlers_question_is_its_own_and_not_answered_by_the_answer_its_node_got,
    a_run_that_was_cancelled_before_a_worker_had_it_runs_no_node,
    a_route_that_cannot_see_its_state_keeps_what_siblings_finished,
    a_message_of_a_task_that_finished_before_the_pause_is_told_when_its_step_closes,
];
