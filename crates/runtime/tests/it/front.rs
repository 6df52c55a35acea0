//! Threads of hosted graphs: the same program over each store.

use crate::support::{on_each_store, store};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use weftwork_graph::run_loop::{HistoryFilter, Host, Modes, Start, StreamEvent};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Question, Routes, RuntimeError,
    START, State,
};
use weftwork_runtime::{RolledBack, Runtime, Thread};
use weftwork_store::{NewRun, Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::event::AiEvent;
use weftwork_types::message::Message;
use weftwork_types::port::{Clock, Dependencies, Limits};
use weftwork_types::run::{Multitask, RunCommand, RunInput, RunOptions, RunOutcome, Stops, Target};
use weftwork_types::{CheckpointId, OrgId, Principal};

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

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

#[tokio::test]
async fn messages_of_changes_and_commands_need_no_id() {
    let hears = async |_: State<Talk>| TalkUpdate::new();
    let talk = Graph::<Talk>::new("talk").node("hears", hears).edge(START, "hears");
    let graph = talk.build().expect("sound");
    let runtime = Runtime::in_memory().graph("talk", graph).open().await.expect("opens");
    let talk = runtime.thread("app:talk", "t").expect("valid names");
    talk.start(json!("one")).await.expect("accepted");
    for said in [json!({"role": "user", "content": "two"}), json!(["two"])] {
        talk.update_as("hears", json!({"messages": said})).await.expect("accepted");
    }
    let update = vec![("messages".to_owned(), json!({"role": "user", "content": "three"}))];
    let goto = vec![Target::Node("hears".to_owned())];
    let command = RunCommand { update, goto, ..RunCommand::default() };
    talk.start(RunInput::Command(command)).await.expect("accepted");
    let state = talk.read::<Talk>().await.expect("reads");
    let removed = state.messages().iter().next().expect("a message").id.clone();
    talk.update_as("hears", json!({"messages": {"remove": removed}})).await.expect("accepted");
    let state = talk.read::<Talk>().await.expect("reads");
    let text = |message: &Message| json!(message)["parts"][0]["text"].clone();
    let said: Vec<_> = state.messages().iter().map(text).collect();
    assert_eq!(said, ["two", "two", "three"]);
    let ids: BTreeSet<_> = state.messages().iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
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
    let (sender, mut items) = unbounded_channel();
    let run = run.report_to(Modes::VALUES | Modes::UPDATES, sender);
    let started = run.begin().await.expect("accepted");
    let mut values = 0;
    let mut updates = Vec::new();
    while let Some(item) = items.recv().await {
        match item.event {
            StreamEvent::Values { .. } => values += 1,
            StreamEvent::Updates { node, .. } => updates.push(node),
            other => panic!("not asked for: {other:?}"),
        }
    }
    assert_eq!((values, updates), (2, vec!["check".to_owned()]));
    assert_eq!(started.await.output().expect("completed")["amount"], 5);
}

#[tokio::test]
async fn the_mode_custom_has_the_values_of_nodes_and_tools_alone_in_every_environment() {
    let node = async |ctx: Ctx| {
        ctx.emit(json!("of the node"));
        let calls = ctx.calls();
        calls.emit.emit(AiEvent::CallReused { kind: "model".to_owned(), name: "m".to_owned() });
        calls.emit.emit(AiEvent::custom(json!("of a tool")));
        log("done")
    };
    let built = Graph::<Refund>::new("refund").node("say", node).edge(START, "say");
    let graph = built.build().expect("sound");
    let expected = [json!("of the node"), json!("of a tool")].map(StreamEvent::Custom);
    let input = json!({"amount": 5});
    let run = graph.run(&Host::new(), Start::from(input.clone())).modes(Modes::CUSTOM);
    let mut stream = run.stream();
    let mut local = Vec::new();
    while let Some(item) = stream.next().await {
        local.push(item.event);
    }
    assert_eq!(local, expected);
    let runtime = Runtime::builder(store()).graph("refund", graph).open().await.expect("opens");
    let order = runtime.thread("refund", "t").expect("valid names");
    let (sender, mut items) = unbounded_channel();
    let run = order.start(input).report_to(Modes::CUSTOM, sender);
    run.begin().await.expect("accepted").await;
    let mut hosted = Vec::new();
    while let Some(item) = items.recv().await {
        hosted.push(item.event);
    }
    assert_eq!(hosted, expected);
}

#[tokio::test]
async fn of_two_runs_of_a_thread_the_second_is_refused_or_waits() {
    let came = Arc::new(Notify::new());
    let open = Arc::new(Notify::new());
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
    let first = order.start(json!({})).begin().await.expect("accepted").into_handle();
    came.notified().await;
    let refused = order.start(json!({})).await.expect_err("the thread is busy");
    assert!(matches!(refused, RuntimeError::Store(StoreError::Busy { .. })), "{refused}");
    let queued = order.start(json!({})).multitask(Multitask::Enqueue).begin().await;
    let queued = queued.expect("accepted").into_handle();
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
    let run = order.proceed().begin().await.expect("accepted").into_handle();
    assert_eq!(order.cancel().await, Ok(1));
    assert_eq!(run.outcome.await, RunOutcome::cancelled());
    assert_eq!(order.cancel().await, Ok(0));
}

#[tokio::test]
async fn options_replace_a_deadline_only_by_their_own() {
    let clock = Arc::new(ManualClock::new());
    let built = Graph::<Refund>::new("refund")
        .node("forever", async |_: State<Refund>| -> RefundUpdate { std::future::pending().await })
        .edge(START, "forever");
    let builder = Runtime::builder(store()).graph("refund", built.build().expect("sound"));
    let runtime = builder.clock(clock.clone()).open().await.expect("opens");
    let order = runtime.thread("refund", "t").expect("valid names");
    let minute = Duration::from_secs(60);
    let own = clock.now().plus(Duration::from_secs(5));
    let with_own = RunOptions { deadline: Some(own), ..RunOptions::default() };
    let limits = Limits::tokens(7);
    for (options, expected) in [(RunOptions::default(), clock.now().plus(minute)), (with_own, own)]
    {
        let run = order.start(json!({})).deadline(minute).options(options).budget(limits);
        let run = run.begin().await.expect("accepted").into_handle();
        let runs = order.runs(RolledBack::Omitted).await.expect("reads");
        let stored = &runs.last().expect("a run").new.options;
        assert_eq!((stored.deadline, stored.budget), (Some(expected), Some(limits)));
        assert_eq!(order.cancel().await, Ok(1));
        assert_eq!(run.outcome.await, RunOutcome::cancelled());
    }
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
    let resumed = order.resume().await.expect("accepted").await;
    assert_eq!(resumed.output().expect("not cut off")["log"], json!(["\"low\""]));
}

#[tokio::test]
async fn an_input_that_was_not_applied_is_applied_at_its_checkpoint_also_after_its_deadline() {
    let clock = Arc::new(ManualClock::new());
    let made = AtomicU32::new(0);
    let dependencies = move |_: &Principal, _: &NewRun| match made.fetch_add(1, Ordering::SeqCst) {
        1 => Err("the second time".into()),
        _ => Ok(Dependencies::new()),
    };
    let node = async |_: State<Refund>| -> RefundUpdate {
        waits().await;
        log("ran")
    };
    let built = Graph::<Refund>::new("refund").node("log", node).edge(START, "log");
    let graph = built.build().expect("sound");
    let store = store();
    let builder = Runtime::builder(Arc::clone(&store)).clock(clock.clone());
    let runtime = builder.graph_with("refund", graph, dependencies).open().await.expect("opens");
    let order = runtime.thread("refund", "t").expect("valid names");
    order.start(json!({})).await.expect("accepted");
    let history = order.history(&HistoryFilter::default()).await.expect("reads");
    let oldest = history
        .last()
        .expect("checkpoints")
        .config
        .as_ref()
        .and_then(|config| config.id)
        .expect("stored");
    let run = order.clone().at(oldest).start(json!({})).deadline(Duration::from_secs(60));
    let failed = run.await.expect("accepted");
    assert!(matches!(failed.outcome(), RunOutcome::Failed { .. }), "{failed:?}");
    clock.advance(Duration::from_secs(120));
    let resumed = order.resume().await.expect("accepted").await;
    assert!(matches!(resumed.outcome(), RunOutcome::Completed { .. }), "{resumed:?}");
    let runs = store.runs(&Principal::local(), order.id()).await.expect("reads");
    let last = &runs.last().expect("a run").new;
    assert_eq!((last.options.at, last.options.deadline), (Some(oldest), None));
}

#[tokio::test]
async fn a_fork_continues_with_the_state_and_history_of_its_thread_and_leaves_it_alone() {
    let store = store();
    let order = order(&store).await;
    order.start(RefundUpdate::new().amount(250)).await.expect("accepted");
    let fork = order.fork("order-8").await.expect("forked");
    assert_eq!(fork.id().as_str(), "order-8");
    let states = (order.state().await.expect("reads"), fork.state().await.expect("reads"));
    assert_eq!((&states.1.values, &states.1.next), (&states.0.values, &states.0.next));
    let all = HistoryFilter::default();
    let histories = (order.history(&all).await.expect("reads"), fork.history(&all).await);
    assert_eq!(histories.1.expect("reads").len(), histories.0.len());
    assert!(store.runs(&Principal::local(), fork.id()).await.expect("reads").is_empty());

    // The question is asked anew, and answered for the fork only.
    assert!(fork.questions().await.expect("reads").is_empty());
    let refused = fork.resume().await.expect_err("no run to resume");
    assert_eq!(refused.code().0, "W0707");
    let asked = fork.proceed().await.expect("accepted");
    assert_eq!(asked.questions().len(), 1, "{asked:?}");
    let ended = fork.answer(json!("fork")).await.expect("accepted");
    assert_eq!(ended.output().expect("completed")["log"][1], "answered \"fork\"");
    assert_eq!(order.questions().await.expect("reads").len(), 1);
    let ended = order.answer(json!("order")).await.expect("accepted");
    assert_eq!(ended.output().expect("completed")["log"][1], "answered \"order\"");
    assert_eq!(entries(&fork.read().await.expect("reads"))[1], "answered \"fork\"");
}

#[tokio::test]
async fn a_thread_is_forked_at_a_checkpoint_or_refused() {
    let store = store();
    let order = order(&store).await;
    let unknown = order.fork("a").await.expect_err("no such thread");
    assert!(matches!(unknown, RuntimeError::Store(StoreError::NotFound { .. })), "{unknown}");
    order.start(RefundUpdate::new().amount(50)).await.expect("accepted");
    order.start(RefundUpdate::new().amount(60)).await.expect("accepted");
    let history = order.history(&HistoryFilter::default()).await.expect("reads");
    let first = history.iter().rev().find(|seen| seen.values["log"] == json!(["checked 50"]));
    let first = first.and_then(|seen| seen.checkpoint()).expect("a checkpoint");
    let fork = order.clone().at(first).fork("b").await.expect("forked");
    assert_eq!(entries(&fork.read().await.expect("reads")), ["checked 50"]);
    let ended = fork.start(RefundUpdate::new().amount(70)).await.expect("accepted");
    assert_eq!(ended.output().expect("completed")["log"], json!(["checked 50", "checked 70"]));
    let refund: State<Refund> = order.read().await.expect("reads");
    assert_eq!(entries(&refund), ["checked 50", "checked 60"]);

    let exists = order.fork("b").await.expect_err("it exists");
    assert!(matches!(exists, RuntimeError::Store(StoreError::Conflict { .. })), "{exists}");
    let unknown = order.clone().at(CheckpointId(7)).fork("c").await.expect_err("no checkpoint");
    assert!(matches!(unknown, RuntimeError::UnknownCheckpoint { .. }), "{unknown}");
    let other = Principal { org: OrgId::new("other").expect("an id"), ..Principal::local() };
    let unseen = order.clone().with_principal(other).fork("d").await.expect_err("not theirs");
    assert!(matches!(unseen, RuntimeError::Store(StoreError::NotFound { .. })), "{unseen}");
}

#[tokio::test]
async fn a_thread_with_an_unfinished_run_is_forked_at_a_checkpoint_only() {
    let gate = Arc::new(Notify::new());
    let waits = async |gate: Deps<Arc<Notify>>| {
        gate.notified().await;
        log("passed")
    };
    let built = Graph::<Refund>::new("refund").with(Arc::clone(&gate)).node("waits", waits);
    let graph = built.edge(START, "waits").build().expect("sound");
    let builder = Runtime::builder(store()).graph("refund", graph);
    let order = builder.open().await.expect("opens").thread("refund", "t").expect("valid names");
    gate.notify_one();
    order.start(json!({})).await.expect("accepted");
    let done = order.state().await.expect("reads").checkpoint().expect("an id");
    let run = order.start(json!({})).begin().await.expect("accepted").into_handle();
    let busy = order.fork("a").await.expect_err("a run has not ended");
    assert!(matches!(busy, RuntimeError::Store(StoreError::Busy { .. })), "{busy}");
    let fork = order.clone().at(done).fork("a").await.expect("forked");
    assert_eq!(entries(&fork.read().await.expect("reads")), ["passed"]);
    gate.notify_one();
    assert!(matches!(run.outcome.await, RunOutcome::Completed { .. }));
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
    let invalid = runtime.thread("refund", "no\nlines").expect_err("not an id");
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
    a_fork_continues_with_the_state_and_history_of_its_thread_and_leaves_it_alone,
    a_thread_is_forked_at_a_checkpoint_or_refused,
    a_thread_with_an_unfinished_run_is_forked_at_a_checkpoint_only,
    wrong_names_and_input_over_another_state_are_refused,
);
