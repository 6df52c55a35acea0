//! Runs on the threads of instances: continuations of activities, and others.

use super::{Place, close, does, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityPayload, AgentRuntime, AgentRuntimeError, AgentRuntimeErrorKind as Kind,
    Hosting, InstanceEventKind, InstanceStatus, QueuedActivities,
};
use weftwork::graph::{Ctx, NodeError, NotResumable, RuntimeError};
use weftwork::prelude::*;
use weftwork::runtime::{FollowFrom, Thread};
use weftwork::store::StoreError;
use weftwork::types::RefusedByInstance;
use weftwork::types::run::RunRetry;
use weftwork::types::{Principal, ThreadId};

/// A timeout that has ended when the activity could begin: times are in milliseconds.
const WITHIN_A_MILLISECOND: Duration = Duration::from_nanos(1);

#[derive(Debug, State)]
struct Orders {
    done: u64,
    #[channel(error)]
    error: Option<AgentRuntimeError>,
}

/// Asks a question, or waits for a time, and then does as the answer and the payload say.
async fn order(
    orders: State<Orders>,
    _: Hosting,
    payload: ActivityPayload<String>,
    ctx: Ctx,
    tries: Deps<AtomicU32>,
) -> NodeResult<OrdersUpdate> {
    let answer = match payload.0.as_str() {
        "sleep" => {
            ctx.sleep(Duration::from_millis(200)).await?;
            json!("flaky")
        }
        _ => ctx.interrupt(json!("yes?"))?,
    };
    match answer.as_str() {
        Some("fail") => return Err(std::io::Error::other("no disk").into()),
        Some("flaky") if tries.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
            return Err(NodeError::message("busy").retriable());
        }
        _ => {}
    }
    Ok(OrdersUpdate::new().done(orders.done().copied().unwrap_or_default() + 1))
}

fn graph() -> CompiledGraph {
    let graph = Graph::<Orders>::new("orders").with(AtomicU32::new(0)).node("order", order);
    graph.edge(START, "order").build().expect("sound")
}

async fn create(agents: &AgentRuntime) -> Thread {
    let retry = RunRetry { retries: 1, backoff_ms: 1, backoff_max_ms: 1 };
    let options = options().retry(retry);
    agents.create_graph_agent(&graph(), json!({"done": 0}), options).await.expect("created");
    agents.runtime().thread("app:orders", "i-1").expect("hosted")
}

async fn a_continuation_has_the_error_channel_and_retries_of_its_activity(place: Place) {
    let agents = open(&place).await;
    let thread = create(&agents).await;
    let instance = agents.handle(&id());
    does(&agents, &instance, json!("ask")).await.expect("ends at its question");
    let failed = thread.answer(json!("fail")).await.expect("accepted");
    assert!(failed.output().is_err());
    let error = info(&agents).await.error.expect("is in the state");
    assert_eq!((error.kind, error.code()), (Kind::Failed, "W0635"));
    assert_eq!(info(&agents).await.status, InstanceStatus::Error);
    assert_eq!(agents.get_state(id()).await.expect("reads")["error"], json!(error));
    close(agents).await;

    let agents = open(&place).await;
    let thread = create(&agents).await;
    let instance = agents.handle(&id());
    let mut events = agents.subscribe(&instance).await.expect("exists");
    does(&agents, &instance, json!("ask")).await.expect("ends at its question");
    let questions = info(&agents).await.questions;
    assert_eq!(questions.len(), 1, "{questions:?}");
    thread.answer(json!("flaky")).await.expect("accepted").output().expect("at the second try");
    assert_eq!(info(&agents).await.questions, Vec::new());
    let mut told = Vec::new();
    while told.iter().filter(|word| *word == "ended").count() < 2 {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.expect("in time").expect("goes on").expect("no error");
        if let InstanceEventKind::Ended { questions: asked, .. } = &event.kind {
            let expected = if told.contains(&json!("ended")) { &[][..] } else { &questions };
            assert_eq!(asked, expected);
        }
        told.push(json!(event)["event"].take());
    }
    // The error of an earlier activity stays until the question is answered and the run succeeds.
    assert_eq!(told, ["started", "state", "ended", "started", "state", "state", "ended"]);
    let after = json!({"done": 1, "error": null});
    assert_eq!(agents.get_state(id()).await, Ok(after));
    // A continuation by itself.
    does(&agents, &instance, json!("sleep")).await.expect("ends at its timer");
    let woken = async {
        while agents.runtime().wake().await.expect("reads").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), woken).await.expect("wakes");
    until(&agents, |info| info.statistics.succeeded == 2).await;
    let after = json!({"done": 2, "error": null});
    assert_eq!(agents.get_state(id()).await, Ok(after));
    assert_eq!(info(&agents).await.statistics.failed, 1);
    close(agents).await;
}

/// A state without a channel for errors.
#[derive(Debug, State)]
struct Sum {
    sum: u32,
}

async fn add(sum: State<Sum>, payload: ActivityPayload<u32>) -> NodeResult<SumUpdate> {
    Ok(SumUpdate::new().sum(sum.sum().copied().unwrap_or_default() + payload.0))
}

async fn an_activity_that_was_too_late_is_executed_when_it_is_resumed(place: Place) {
    let graph = || Graph::<Sum>::new("sum").node("add", add).edge(START, "add").build();
    let agents = open(&place).await;
    let created = agents.create_graph_agent(&graph().expect("sound"), json!({}), options()).await;
    created.expect("created");
    let late = Activity::new(json!(7)).timeout(WITHIN_A_MILLISECOND);
    let late = agents.send(id(), late).await.expect("accepted");
    assert_eq!(late.ended().await.expect_err("too late").kind, Kind::TimedOut);
    close(agents).await;

    let agents = open(&place).await;
    let created = agents.create_graph_agent(&graph().expect("sound"), json!({}), options()).await;
    created.expect("the same");
    let thread = ThreadId::from(&id());
    let resumed = agents.runtime().resume(&Principal::local(), &thread).await;
    resumed.expect("accepted").await;
    assert_eq!(agents.get_state(id()).await, Ok(json!({"sum": 7})));
    let counts = info(&agents).await.statistics;
    assert_eq!((counts.failed, counts.succeeded, counts.waiting), (0, 1, 0), "one activity");
    close(agents).await;
}

/// Fails at the first two attempts, after a superstep.
async fn fail_twice(sum: State<Sum>, tries: Deps<AtomicU32>) -> NodeResult<SumUpdate> {
    match tries.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Err(std::io::Error::other("no disk").into()),
        _ => Ok(SumUpdate::new().sum(sum.sum().copied().unwrap_or_default() + 1)),
    }
}

async fn an_activity_that_fails_again_when_it_is_resumed_counts_once(place: Place) {
    let agents = open(&place).await;
    let graph = Graph::<Sum>::new("sum").with(AtomicU32::new(0)).node("add", add);
    let graph = graph.node("fail", fail_twice).edge(START, "add").edge("add", "fail");
    let graph = graph.build().expect("sound");
    let instance = agents.create_graph_agent(&graph, json!({}), options()).await;
    let instance = instance.expect("created");
    let sent = agents.send(&instance, Activity::new(json!(7))).await.expect("accepted");
    assert_eq!(sent.ended().await.expect_err("fails").kind, Kind::Failed);
    let thread = ThreadId::from(&id());
    for (failed, succeeded) in [(1, 0), (0, 1)] {
        let resumed = agents.runtime().resume(&Principal::local(), &thread).await;
        resumed.expect("accepted").await;
        let counts = info(&agents).await.statistics;
        assert_eq!((counts.failed, counts.succeeded), (failed, succeeded));
    }
    assert_eq!(agents.get_state(id()).await, Ok(json!({"sum": 8})));
    close(agents).await;
}

async fn a_run_without_input_is_refused_by_an_idle_instance(place: Place) {
    let agents = open(&place).await;
    let thread = create(&agents).await;
    let refused = || Err(RuntimeError::NothingToContinue { thread: "i-1".to_owned() });
    assert_eq!(thread.proceed().await.map(drop), refused(), "before the first activity");
    let sent = agents.send(id(), Activity::new(json!("ask"))).await.expect("accepted");
    sent.ended().await.expect("asks");
    thread.answer(json!("yes")).await.expect("accepted");
    let before = info(&agents).await;
    assert_eq!((before.status, before.statistics.succeeded), (InstanceStatus::Idle, 1));
    assert_eq!(thread.proceed().await.map(drop), refused(), "after an activity");
    assert_eq!(info(&agents).await, before, "nothing was stored");
    close(agents).await;
}

/// Fails at the first attempt.
async fn fail_once(payload: ActivityPayload<u32>, tries: Deps<AtomicU32>) -> NodeResult<SumUpdate> {
    match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Err(std::io::Error::other("no disk").into()),
        _ => Ok(SumUpdate::new().sum(payload.0)),
    }
}

async fn a_requeued_activity_reports_both_of_its_ends(place: Place) {
    let agents = open(&place).await;
    let graph = Graph::<Sum>::new("sum").with(AtomicU32::new(0)).node("add", fail_once);
    let graph = graph.edge(START, "add").build().expect("sound");
    let instance = agents.create_graph_agent(&graph, json!({}), options()).await;
    let instance = instance.expect("created");
    let sent = agents.send(&instance, Activity::new(json!(7))).await.expect("accepted");
    sent.ended().await.expect_err("fails");
    let again = agents.runtime().requeue(&Principal::local(), sent.activity()).await;
    again.expect("is requeued").await;
    assert_eq!(agents.get_state(id()).await, Ok(json!({"sum": 7})));
    let mut events = agents.subscribe_from(&instance, FollowFrom::Start).await.expect("exists");
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.expect("in time").expect("goes on").expect("no error");
        if let InstanceEventKind::Ended { error, .. } = event.kind
            && event.activity == sent.activity().run
        {
            ends.push(error.map(|error| error.kind));
        }
    }
    assert_eq!(ends, [Some(Kind::Failed), None]);
    close(agents).await;
}

async fn a_failure_that_the_state_records_is_not_resumed(place: Place) {
    let agents = open(&place).await;
    let thread = create(&agents).await;
    let late = Activity::new(json!("ask")).timeout(WITHIN_A_MILLISECOND);
    let late = agents.send(id(), late).await.expect("accepted");
    assert_eq!(late.ended().await.expect_err("too late").kind, Kind::TimedOut);
    let resumed = agents.runtime().resume(&Principal::local(), thread.id()).await.map(drop);
    let reason = NotResumable::Recorded;
    assert_eq!(resumed, Err(RuntimeError::NothingToResume { thread: "i-1".to_owned(), reason }));
    let after = info(&agents).await;
    assert_eq!(after.error.expect("is shown").kind, Kind::TimedOut);
    assert_eq!(after.statistics.succeeded, 0);
    close(agents).await;
}

async fn a_terminated_instance_takes_no_run_at_all(place: Place) {
    let agents = open(&place).await;
    let thread = create(&agents).await;
    let instance = agents.handle(&id());
    let change = thread.update_as("order", json!({"done": 5})).await.map(drop);
    let refused = RefusedByInstance::Input;
    let refused = StoreError::BelongsToInstance { thread: "i-1".to_owned(), refused };
    assert_eq!(change, Err(RuntimeError::Store(refused)), "also of a living instance");
    does(&agents, &instance, json!("ask")).await.expect("ends at its question");
    let limit = Duration::from_secs(20);
    let kept = QueuedActivities::Keep;
    agents.terminate(id(), limit, kept).await.expect("exists");
    close(agents).await;

    let agents = open(&place).await;
    agents.host("app:orders", graph()).await.expect("hosted");
    let thread = agents.runtime().thread("app:orders", "i-1").expect("hosted");
    let runs = [
        thread.answer(json!("yes")).await.map(drop),
        thread.start(json!({})).await.map(drop),
        thread.update_as("order", json!({"done": 7})).await.map(drop),
        thread.proceed().await.map(drop),
    ];
    for refused in runs {
        let closed = RuntimeError::Store(StoreError::MailboxClosed { thread: "i-1".to_owned() });
        assert_eq!(refused, Err(closed));
    }
    let refused = agents.send(id(), Activity::new(json!("ask"))).await.expect_err("terminated");
    assert_eq!(refused.kind, Kind::Terminated);
    assert_eq!(agents.get_state(id()).await.expect("reads")["done"], json!(0));
    close(agents).await;
}

on_three_stores![
    a_requeued_activity_reports_both_of_its_ends,
    a_failure_that_the_state_records_is_not_resumed,
    a_run_without_input_is_refused_by_an_idle_instance,
    an_activity_that_fails_again_when_it_is_resumed_counts_once,
    an_activity_that_was_too_late_is_executed_when_it_is_resumed,
    a_continuation_has_the_error_channel_and_retries_of_its_activity,
    a_terminated_instance_takes_no_run_at_all,
];
