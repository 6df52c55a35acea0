//! Failures of activities: one error with its cause, in the state, until the next success.

use super::{Place, close, does, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityContext, ActivityPayload, AgentRuntimeError, AgentRuntimeErrorKind as Kind,
    Hosting, InstanceEvent, InstanceEventKind, InstanceStatus,
};
use weftwork::graph::NodeError;
use weftwork::prelude::*;
use weftwork::types::BoxStream;
use weftwork::types::run::{CancelAction, RunRetry, Stops};

#[derive(Debug, State)]
struct Work {
    done: u64,
    error: Option<AgentRuntimeError>,
}

/// Logic that fails, in three calls of `run`.
async fn three_deep(hosting: &Hosting) -> Result<(), AgentRuntimeError> {
    let first = hosting.clone();
    hosting
        .run(async move |_| {
            let second = first.clone();
            let third = first.run(async move |_| {
                second.run(async |_| Err::<(), _>(std::io::Error::other("no disk"))).await
            });
            // A conversion in between is no further level.
            third.await.map_err(NodeError::from)
        })
        .await
}

async fn work(
    work: State<Work>,
    hosting: Hosting,
    payload: ActivityPayload<String>,
    tries: Deps<AtomicU32>,
) -> NodeResult<WorkUpdate> {
    let done = work.done().copied().unwrap_or_default();
    match payload.0.as_str() {
        "fail" => return Err(std::io::Error::other("no disk").into()),
        "deep" => three_deep(&hosting).await?,
        #[expect(clippy::panic, reason = "the test wants one")]
        "panic" => panic!("a node panics"),
        "wait" => std::future::pending().await,
        "flaky" if tries.fetch_add(1, Ordering::SeqCst) < 2 => {
            return Err(NodeError::message("busy").retriable());
        }
        "busy" => return Err(NodeError::message("busy").retriable()),
        _ => {}
    }
    Ok(WorkUpdate::new().done(done + 1))
}

pub(super) fn graph() -> CompiledGraph {
    let graph = Graph::<Work>::new("work").with(AtomicU32::new(0)).node("work", work);
    graph.edge(START, "work").build().expect("sound")
}

pub(super) fn state() -> serde_json::Value {
    json!({"done": 0})
}

/// Returns the error of the next end, and the last state before it.
async fn until_end(
    events: &mut BoxStream<'static, Result<InstanceEvent, AgentRuntimeError>>,
) -> (Option<AgentRuntimeError>, Value) {
    let mut last = Value::Null;
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        match event.expect("in time").expect("goes on").expect("no error").kind {
            InstanceEventKind::State { state } => last = state,
            InstanceEventKind::Ended { error, .. } => return (error, last),
            _ => {}
        }
    }
}

async fn a_failure_is_one_error_until_the_next_success(place: Place) {
    let cases = [
        ("fail", Kind::Failed, "W0635"),
        ("deep", Kind::Logic, "W0639"),
        ("panic", Kind::Panicked, "W0636"),
    ];
    let mut done = 0;
    for (payload, kind, code) in cases {
        let agents = open(&place).await;
        let options = || options().error_channel("error");
        let instance = agents.create_graph_agent(&graph(), state(), options()).await;
        let instance = instance.expect("created");
        let mut events = agents.subscribe(&instance).await.expect("exists");
        let error = does(&agents, &instance, json!(payload)).await.expect_err("fails");
        assert_eq!((error.kind, error.code()), (kind, code), "{error}");
        let causes: Vec<_> = error.fault.causes().map(|cause| &*cause.message).collect();
        assert_eq!(causes.len(), 1, "one level: {error:?}");
        assert_eq!(causes[0].contains("no disk"), payload != "panic");
        let (published, last) = until_end(&mut events).await;
        assert_eq!(published.as_ref(), Some(&error));
        assert_eq!(agents.get_state(&instance).await, Ok(last));
        close(agents).await;

        let agents = open(&place).await;
        let instance = agents.create_graph_agent(&graph(), state(), options()).await;
        let instance = instance.expect("the same");
        let after = agents.get_state(&instance).await.expect("reads");
        assert_eq!((&after["error"], &after["done"]), (&json!(error), &json!(done)));
        let failed = info(&agents).await;
        assert_eq!((failed.status, failed.error), (InstanceStatus::Error, Some(error)));
        let mut events = agents.subscribe(&instance).await.expect("exists");
        does(&agents, &instance, json!("work")).await.expect("the next one runs");
        done += 1;
        let (published, last) = until_end(&mut events).await;
        assert_eq!((published, agents.get_state(&instance).await), (None, Ok(last)));
        let after = agents.get_state(&instance).await.expect("reads");
        assert_eq!((&after["error"], &after["done"]), (&json!(null), &json!(done)));
        assert_eq!(info(&agents).await.status, InstanceStatus::Idle);
        close(agents).await;
    }
}

async fn a_cancelled_activity_is_an_error_and_the_next_one_runs(place: Place) {
    let agents = open(&place).await;
    let options = || options().error_channel("error");
    let instance = agents.create_graph_agent(&graph(), state(), options()).await;
    let instance = instance.expect("created");
    let sent = agents.send(&instance, Activity::new(json!("wait"))).await.expect("accepted");
    until(&agents, |info| info.status == InstanceStatus::Processing).await;
    let next = agents.send(&instance, Activity::new(json!("work"))).await.expect("accepted");
    let who = agents.principal();
    let interrupt = CancelAction::Interrupt;
    agents.runtime().cancel_run(who, sent.activity(), interrupt).await.expect("runs");
    let error = sent.ended().await.expect_err("is cancelled");
    assert_eq!((error.kind, error.code()), (Kind::Cancelled, "W0637"));
    next.ended().await.expect("the next one runs");
    close(agents).await;
    let agents = open(&place).await;
    agents.host("app:work", graph()).await.expect("hosted");
    let counts = info(&agents).await.statistics;
    assert_eq!((counts.cancelled, counts.succeeded), (1, 1));
    assert_eq!(agents.get_state(id()).await.expect("reads")["error"], json!(null));
    close(agents).await;
}

async fn transient_errors_are_retried_in_place(place: Place) {
    let agents = open(&place).await;
    let retry = RunRetry { retries: 2, backoff_ms: 1, backoff_max_ms: 2 };
    let options = options().error_channel("error").retry(retry);
    let instance = agents.create_graph_agent(&graph(), state(), options).await.expect("created");
    does(&agents, &instance, json!("flaky")).await.expect("succeeds at the third attempt");
    let error = does(&agents, &instance, json!("busy")).await.expect_err("has no retries left");
    assert!(error.fault.retriable, "{error:?}");
    does(&agents, &instance, json!("work")).await.expect("the mailbox goes on");
    let counts = info(&agents).await.statistics;
    assert_eq!((counts.succeeded, counts.failed), (2, 1));
    close(agents).await;
}

#[tokio::test]
async fn an_instance_without_the_error_channel_is_refused() {
    let agents = open(&Place::memory("")).await;
    let options = options().error_channel("problem");
    let refused = agents.create_graph_agent(&graph(), state(), options).await;
    let refused = refused.expect_err("the graph has no such channel");
    assert_eq!(refused.code(), "W0648");
    let handler = async |total: u64, _: ActivityContext| NodeResult::Ok(total);
    let refused = agents.create("sum", 0, handler, self::options().error_channel("state")).await;
    assert_eq!(refused.expect_err("is the state of the handler").code(), "W0648");
    async fn nothing(_: State<Work>) -> NodeResult<WorkUpdate> {
        Ok(WorkUpdate::new())
    }
    let stops = Graph::<Work>::new("stops").node("a", nothing).edge(START, "a");
    let stops = stops.interrupt_before(Stops::All).build().expect("sound");
    let refused = agents.create_graph_agent(&stops, json!({}), self::options()).await;
    let refused = refused.expect_err("the next activity would begin at the stop");
    assert_eq!(refused.code(), "W0648", "{refused}");
    let unknown = agents.get_state(id()).await.expect_err("was not created");
    assert_eq!((unknown.kind, unknown.code()), (Kind::UnknownInstance, "W0642"));
    let hosted = agents.runtime().host("app:work", graph()).expect("hosted");
    let thread = agents.runtime().thread(&hosted, "t").expect("hosted");
    let ended = thread.start(json!({})).await.expect("accepted");
    let error = AgentRuntimeError::of_outcome("r", ended.outcome()).expect("is no activity");
    assert_eq!((error.kind, error.code()), (Kind::NotHosted, "W0647"));
}

on_three_stores![
    a_failure_is_one_error_until_the_next_success,
    a_cancelled_activity_is_an_error_and_the_next_one_runs,
    transient_errors_are_retried_in_place,
];
