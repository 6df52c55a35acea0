//! Threads of hosted graphs: the same program over each store.

use crate::support::{on_each_store, store};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_graph::exec::{HistoryFilter, Modes, StreamEvent};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Question, Routes, RuntimeError,
    START, State,
};
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::{Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::run::{Multitask, RunCommand, RunInput, RunOutcome, Stops, Target};

#[derive(State)]
struct Refund {
    #[channel(default)]
    amount: u32,
    #[channel(append)]
    log: List<String>,
}

#[derive(Routes)]
enum AfterCheck {
    Approve,
    End,
}

fn log(text: impl Into<String>) -> RefundUpdate {
    RefundUpdate::new().log([text.into()])
}

async fn approve(ctx: Ctx, refund: State<Refund>) -> NodeResult<RefundUpdate> {
    let amount = *refund.amount();
    let question = Question::value(json!({"may be paid": amount})).key(format!("order-{amount}"));
    let answer = ctx.ask_question(question)?;
    Ok(log(format!("answered {}", answer.value)))
}

/// Waits long enough for a deadline that has passed to cut the run off: a task is polled a few
/// times before its run is.
async fn waits() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn graph() -> CompiledGraph {
    let route = |refund: State<Refund>| match *refund.amount() {
        101.. => AfterCheck::Approve,
        _ => AfterCheck::End,
    };
    let built = Graph::<Refund>::new("refund")
        .node("check", async |refund: State<Refund>| log(format!("checked {}", refund.amount())))
        .node("approve", approve)
        .edge(START, "check")
        .route("check", route);
    built.build().expect("sound")
}

async fn runtime(store: &Arc<dyn Store>) -> Runtime {
    let builder = Runtime::builder(Arc::clone(store)).graph("refund", graph());
    builder.open().await.expect("opens")
}

async fn order(store: &Arc<dyn Store>) -> Thread {
    runtime(store).await.thread("refund", "order-7").expect("valid names")
}

fn entries(refund: &State<Refund>) -> Vec<String> {
    refund.log().iter().cloned().collect()
}

#[tokio::test]
async fn a_question_is_answered_by_another_process() {
    let store = store();
    let asked = order(&store).await.start(RefundUpdate::new().amount(250)).await.expect("accepted");
    assert_eq!(asked.questions().len(), 1);
    let error = asked.output().expect_err("it has not completed");
    assert_eq!(error.code().0, "W0135");

    let other = order(&store).await;
    assert_eq!(other.questions().await.expect("reads"), asked.questions());
    let ended = other.answer(json!(true)).await.expect("accepted");
    let refund = ended.state::<Refund>().expect("completed");
    assert_eq!((*refund.amount(), entries(&refund).len()), (250, 2));
    assert_eq!(entries(&other.read().await.expect("reads")), ["checked 250", "answered true"]);
    let again = other.resume().await.expect_err("it is complete");
    assert_eq!(again.code().0, "W0707");
}

#[tokio::test]
async fn a_question_is_answered_by_its_key_and_an_unknown_key_is_refused() {
    let order = order(&store()).await;
    order.start(RefundUpdate::new().amount(250)).await.expect("accepted");
    let by_key = |key: &str| BTreeMap::from([(key.to_owned(), json!("by key"))]);
    let refused = order.answer(by_key("order-1")).await.expect_err("no such key");
    assert!(matches!(refused, RuntimeError::UnknownKey { .. }), "{refused}");
    let ended = order.answer(by_key("order-250")).await.expect("accepted");
    assert_eq!(ended.output().expect("completed")["log"][1], "answered \"by key\"");
    let refused = order.answer(json!(1)).await.expect_err("nothing is open");
    assert!(matches!(refused, RuntimeError::ManyQuestions { open: 0 }), "{refused}");
}

#[tokio::test]
async fn a_command_answers_writes_and_sends() {
    let order = order(&store()).await;
    order.start(json!({"amount": 250})).await.expect("accepted");
    let command = RunCommand {
        answers: Some(json!("no").into()),
        update: vec![("log".to_owned(), json!(["by command"]))],
        goto: vec![Target::Node("check".to_owned())],
    };
    // The node it goes to asks once more, for the amount is as before.
    let asked = order.start(RunInput::Command(command)).await.expect("accepted");
    assert_eq!(asked.questions().len(), 1, "{asked:?}");
    let state = order.read::<Refund>().await.expect("reads");
    assert!(entries(&state).contains(&"by command".to_owned()), "{:?}", entries(&state));
    assert!(entries(&state).contains(&"answered \"no\"".to_owned()), "{:?}", entries(&state));
}

#[tokio::test]
async fn a_thread_is_updated_and_continued_at_an_older_checkpoint() {
    let order = order(&store()).await;
    order.start(RefundUpdate::new().amount(50)).await.expect("accepted");
    let history = order.history(&HistoryFilter::default()).await.expect("reads");
    let before = history.iter().find(|at| at.next == ["check"]).expect("before the check");
    let then = order.clone().at(before.config.as_ref().and_then(|at| at.id).expect("has an id"));
    assert_eq!(then.state().await.expect("reads").next, ["check"]);
    let updated = then.update_as("check", RefundUpdate::new().amount(300)).await;
    assert_eq!(updated.expect("accepted").output().expect("is applied")["amount"], 300);
    let asked = order.proceed().await.expect("accepted");
    assert_eq!(asked.questions().len(), 1, "300 needs an approval: {asked:?}");
    assert_eq!(*order.read::<Refund>().await.expect("reads").amount(), 300);
}

#[tokio::test]
async fn stops_context_and_settings_are_stored_with_the_run() {
    let node = async |ctx: Ctx| log(format!("{} {}", ctx.context(), ctx.configurable()["voice"]));
    let built = Graph::<Refund>::new("refund").node("say", node).edge(START, "say");
    let graph = built.build().expect("sound");
    let runtime = Runtime::in_memory().graph("refund", graph).open().await.expect("opens");
    let order = runtime.thread("app:refund", "t").expect("valid names");
    let configurable = json!({"voice": "low"}).as_object().cloned().expect("an object");
    let run = order.start(json!({})).context(json!({"a": 1})).configurable(configurable);
    let ended = run.tags(["test"]).await.expect("accepted");
    assert_eq!(ended.output().expect("completed")["log"], json!(["{\"a\":1} \"low\""]));
    let stop = order.start(json!({})).interrupt_before(Stops::All).await.expect("accepted");
    assert_eq!(*stop.outcome(), RunOutcome::interrupted(Vec::new()));
    assert_eq!(order.state().await.expect("reads").next, ["say"]);
}

#[tokio::test]
async fn a_run_is_streamed_in_modes_while_it_is_hosted() {
    let order = order(&store()).await;
    let run = order.start(RefundUpdate::new().amount(5));
    let mut stream = run.stream(Modes::VALUES | Modes::UPDATES).await.expect("accepted");
    let (mut values, mut updates) = (0, Vec::new());
    while let Some(item) = stream.next().await {
        match item.event {
            StreamEvent::Values { .. } => values += 1,
            StreamEvent::Updates { node, .. } => updates.push(node),
            other => panic!("not asked for: {other:?}"),
        }
    }
    assert_eq!((values, updates), (2, vec!["check".to_owned()]));
    assert_eq!(stream.end().await.output().expect("completed")["amount"], 5);
}

#[tokio::test]
async fn of_two_runs_of_a_thread_the_second_is_refused_or_waits() {
    let (came, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let node = async |gate: Deps<(Arc<Notify>, Arc<Notify>)>| {
        let (came, open) = &*gate;
        came.notify_one();
        open.notified().await;
        log("passed")
    };
    let built = Graph::<Refund>::new("refund").with((Arc::clone(&came), Arc::clone(&open)));
    let graph = built.node("gate", node).edge(START, "gate").build().expect("sound");
    let builder = Runtime::builder(store()).graph("refund", graph);
    let order = builder.open().await.expect("opens").thread("refund", "t").expect("valid");
    let first = order.start(json!({})).begin().await.expect("accepted");
    came.notified().await;
    let refused = order.start(json!({})).await.expect_err("the thread is busy");
    assert!(matches!(refused, RuntimeError::Store(StoreError::Busy { .. })), "{refused}");
    let queued = order.start(json!({})).multitask(Multitask::Enqueue).begin().await;
    let queued = queued.expect("accepted");
    open.notify_one();
    assert!(matches!(first.outcome.await, RunOutcome::Completed { .. }));
    came.notified().await;
    open.notify_one();
    let RunOutcome::Completed { output } = queued.outcome.await else { panic!("completes") };
    assert_eq!(output["log"], json!(["passed", "passed"]));
}

#[tokio::test]
async fn a_deadline_cuts_a_hosted_run_off_and_a_cancelled_one_ends() {
    let built = Graph::<Refund>::new("refund")
        .node("forever", async |_: State<Refund>| -> RefundUpdate { std::future::pending().await })
        .edge(START, "forever");
    let graph = built.build().expect("sound");
    let order = Runtime::builder(store()).graph("refund", graph).open().await.expect("opens");
    let order = order.thread("refund", "t").expect("valid names");
    let ended = order.start(json!({})).deadline(Duration::from_millis(5)).await.expect("accepted");
    let RunOutcome::Failed { fault } = ended.outcome() else { panic!("{ended:?}") };
    assert_eq!(fault.code, "W0124");
    let run = order.proceed().begin().await.expect("accepted");
    assert_eq!(order.cancel().await, Ok(1));
    assert_eq!(run.outcome.await, RunOutcome::cancelled());
    assert_eq!(order.cancel().await, Ok(0));
}

#[tokio::test]
async fn a_deadline_holds_for_its_own_run_alone() {
    let clock = Arc::new(ManualClock::new());
    let graph = {
        let nap = async |ctx: Ctx| -> NodeResult<RefundUpdate> {
            ctx.sleep(Duration::from_secs(3_600)).await?;
            waits().await;
            Ok(log("slept"))
        };
        let built = Graph::<Refund>::new("refund").node("nap", nap).edge(START, "nap");
        built.build().expect("sound")
    };
    let builder = Runtime::builder(store()).graph("refund", graph).clock(clock.clone());
    let runtime = builder.open().await.expect("opens");
    let order = runtime.thread("refund", "t").expect("valid names");
    let limit = Duration::from_secs(60);
    let asleep = order.start(json!({})).deadline(limit).await.expect("accepted");
    assert!(matches!(asleep.outcome(), RunOutcome::Interrupted { .. }), "{asleep:?}");
    clock.advance(Duration::from_secs(3_601));
    let mut woken = runtime.wake().await.expect("reads");
    assert_eq!(woken.len(), 1);
    let outcome = woken.remove(0).outcome.await;
    let RunOutcome::Completed { output } = outcome else { panic!("not cut off: {outcome:?}") };
    assert_eq!(output["log"], json!(["slept"]));
}

#[tokio::test]
async fn the_options_of_a_resumed_run_are_those_of_the_last_one_without_its_deadline() {
    let clock = Arc::new(ManualClock::new());
    let failed = Arc::new(AtomicBool::new(false));
    let fails_once = async |ctx: Ctx, failed: Deps<Arc<AtomicBool>>| -> NodeResult<RefundUpdate> {
        if failed.swap(true, Ordering::SeqCst) {
            waits().await;
            return Ok(log(ctx.configurable()["voice"].to_string()));
        }
        Err(NodeError::message("once"))
    };
    let built = Graph::<Refund>::new("refund").with(failed).node("fails", fails_once);
    let graph = built.edge(START, "fails").build().expect("sound");
    let builder = Runtime::builder(store()).graph("refund", graph).clock(clock.clone());
    let order = builder.open().await.expect("opens").thread("refund", "t").expect("valid names");
    let voice = json!({"voice": "low"}).as_object().cloned().expect("an object");
    let run = order.start(json!({})).configurable(voice).deadline(Duration::from_secs(60));
    assert!(matches!(run.await.expect("accepted").outcome(), RunOutcome::Failed { .. }));
    clock.advance(Duration::from_secs(120));
    let resumed = order.resume().await.expect("accepted");
    assert_eq!(resumed.output().expect("not cut off")["log"], json!(["\"low\""]));
}

#[tokio::test]
async fn wrong_names_and_input_over_another_state_are_refused() {
    #[derive(State)]
    struct Other {
        #[channel(default)]
        n: u32,
    }
    let runtime = runtime(&store()).await;
    let unknown = runtime.thread("refunds", "t").expect_err("no such graph");
    assert_eq!(unknown.code().0, "W0111");
    let invalid = runtime.thread("refund", "no spaces").expect_err("not an id");
    assert_eq!(invalid.code().0, "W0706");
    let order = runtime.thread("refund", "t").expect("valid names");
    let error = order.start(OtherUpdate::new().n(1)).await.expect_err("another state");
    assert!(matches!(error, RuntimeError::OtherState { .. }), "{error}");
    assert!(order.state().await.is_err(), "nothing was created");
}

on_each_store!(
    a_question_is_answered_by_another_process,
    a_question_is_answered_by_its_key_and_an_unknown_key_is_refused,
    a_command_answers_writes_and_sends,
    a_thread_is_updated_and_continued_at_an_older_checkpoint,
    a_run_is_streamed_in_modes_while_it_is_hosted,
    of_two_runs_of_a_thread_the_second_is_refused_or_waits,
    a_deadline_holds_for_its_own_run_alone,
    the_options_of_a_resumed_run_are_those_of_the_last_one_without_its_deadline,
    a_deadline_cuts_a_hosted_run_off_and_a_cancelled_one_ends,
    wrong_names_and_input_over_another_state_are_refused,
);
