//! Termination of instances.

use super::{Place, close, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityContext, ActivityEnd, ActivityPayload, AgentRuntime,
    AgentRuntimeErrorKind as Kind, DeadLetter, InstanceEventKind, InstanceOptions, InstanceStatus,
    OnQuestion, QueuedActivities, Sent, Statistics,
};
use weftwork::graph::NodeError;
use weftwork::prelude::*;
use weftwork::types::{Principal, ThreadId};

/// Waits as long as its payload says.
async fn wait(done: u64, activity: ActivityContext) -> Result<u64, NodeError> {
    tokio::time::sleep(Duration::from_millis(activity.payload_as()?)).await;
    Ok(done + 1)
}

/// An instance that executes one activity, with two that wait.
async fn busy(agents: &AgentRuntime, ms: u64) -> [Sent; 3] {
    agents.create("wait", 0, wait, options()).await.expect("created");
    let running = agents.send(id(), Activity::new(json!(ms))).await.expect("accepted");
    until(agents, |info| info.status == InstanceStatus::Processing).await;
    let send = async |activity| agents.send(id(), activity).await.expect("accepted");
    [running, send(low().idempotency_key("a key")).await, send(high()).await]
}

fn low() -> Activity {
    let entries = serde_json::Map::from_iter([("lamp".to_owned(), json!("on"))]);
    let activity = Activity::new(json!(1)).configurable(entries).timeout(Duration::from_secs(600));
    activity.input(json!({"state": 3}))
}

fn high() -> Activity {
    Activity::new(json!(2)).priority(1)
}

async fn queued_activities_are_kept(place: Place) {
    let agents = open(&place).await;
    let [running, low, high] = busy(&agents, 200).await;
    let events = agents.subscribe(id()).await.expect("exists");
    let deadline = Duration::from_secs(20);
    let report = agents.terminate(id(), deadline, QueuedActivities::Keep).await.expect("exists");
    assert_eq!(report.ended.as_ref(), Some(&running.activity().run));
    running.ended().await.expect("ended by itself");
    let kept: Vec<_> = report.kept.iter().map(|letter| &letter.activity).collect();
    assert_eq!(kept, [&high.activity().run, &low.activity().run]);
    assert_eq!((report.cut, report.dead_lettered), (None, Vec::new()));
    let events = tokio::time::timeout(deadline, events.collect::<Vec<_>>()).await;
    let events: Vec<_> = events.expect("it ends").into_iter().map(Result::unwrap).collect();
    let last = events.last().map(|event| (&event.activity, &event.kind));
    let ended = InstanceEventKind::Ended { error: None, questions: Vec::new() };
    assert_eq!(last, Some((&running.activity().run, &ended)));
    close(agents).await;

    let agents = open(&place).await;
    agents.host_handler("wait", wait).await.expect("hosted");
    agents.attend(id());
    agents.runtime().recover().await.expect("reads");
    let refused = agents.send(id(), Activity::new(json!(1))).await.expect_err("is terminated");
    assert_eq!((refused.kind, refused.code()), (Kind::Terminated, "W0641"));
    let after = info(&agents).await;
    assert_eq!((after.status, after.statistics.waiting), (InstanceStatus::Terminated, 2));
    assert_eq!(agents.get_state(id()).await, Ok(json!(1)), "no kept activity was executed");
    let refused = agents.create("wait", 0, wait, options()).await.expect_err("is terminated");
    assert_eq!((refused.kind, refused.code()), (Kind::Terminated, "W0641"));
    // Repeated, with the other choice.
    let report = agents.terminate(id(), deadline, QueuedActivities::DeadLetter).await;
    assert_eq!(report.expect("exists").dead_lettered.len(), 2);
    close(agents).await;
}

/// The end of an activity of another process is noticed 300 and 700 ms after the call, and this one
/// ends in between, as does the deadline.
async fn an_activity_that_ends_before_it_is_cut_off_is_reported_as_ended(place: Place) {
    let executing = open(&place).await;
    executing.create("wait", 0, wait, options()).await.expect("created");
    let running = executing.send(id(), Activity::new(json!(450))).await.expect("accepted");
    until(&executing, |info| info.status == InstanceStatus::Processing).await;
    let agents = open(&place).await;
    let deadline = Duration::from_millis(650);
    let report = agents.terminate(id(), deadline, QueuedActivities::Keep).await.expect("exists");
    assert_eq!((report.ended, report.cut), (Some(running.activity().run.clone()), None));
    assert_eq!(running.ended().await, Ok(ActivityEnd::Succeeded));
    close(agents).await;
    close(executing).await;
}

async fn queued_activities_are_dead_lettered(place: Place) {
    let agents = open(&place).await;
    let [running, low_sent, high_sent] = busy(&agents, 60_000).await;
    let events = agents.subscribe(id()).await.expect("exists");
    let deadline = Duration::from_millis(20);
    let report = agents.terminate(id(), deadline, QueuedActivities::DeadLetter).await;
    let report = report.expect("exists");
    assert_eq!((report.ended, report.cut.as_ref()), (None, Some(&running.activity().run)));
    assert_eq!(running.ended().await.expect_err("cut off").kind, Kind::Cancelled);
    let letters = report.dead_lettered;
    for (letter, sent, expected) in
        [(&letters[0], &high_sent, high()), (&letters[1], &low_sent, low())]
    {
        assert_eq!(letter.activity, sent.activity().run);
        let [mut again, mut expected] = [&letter.again, &expected].map(|one| json!(one));
        // It counts from the acceptance, which is a moment later.
        let limits = [&mut again, &mut expected].map(|one| one["timeout"].take());
        let [is, sent] = limits.map(|limit| limit.as_u64().unwrap_or_default());
        assert!(is <= sent && is + 10_000 >= sent, "{is} of {sent}");
        assert_eq!(again, expected);
    }
    assert_eq!(letters.len(), 2);
    let events = tokio::time::timeout(Duration::from_secs(20), events.collect::<Vec<_>>()).await;
    let events = events.expect("it ends").into_iter().map(Result::unwrap);
    let ends = events.filter(|event| matches!(event.kind, InstanceEventKind::Ended { .. }));
    let ends: BTreeSet<_> = ends.map(|event| event.activity).collect();
    assert_eq!(ends.len(), 3, "the end of each is reported: {ends:?}");
    for sent in [running, low_sent, high_sent] {
        assert_eq!(sent.ended().await.expect_err("is cancelled").kind, Kind::Cancelled);
        assert!(ends.contains(&sent.activity().run));
    }
    close(agents).await;
    let agents = open(&place).await;
    let refused = agents.send(id(), Activity::new(json!(1))).await.expect_err("is terminated");
    assert_eq!(refused.kind, Kind::Terminated);
    assert_eq!(info(&agents).await.statistics.cancelled, 3);

    // Another instance executes them as they were sent.
    let other = agents.create("wait", 0, wait, InstanceOptions::new()).await.expect("created");
    for DeadLetter { again, .. } in letters {
        agents.send(&other, again).await.expect("accepted").ended().await.expect("succeeds");
    }
    assert_eq!(agents.get_state(&other).await, Ok(json!(4)), "one began with the state 3");
    close(agents).await;
}

#[derive(Debug, State)]
struct Steps {
    #[channel(append)]
    lines: List<String>,
}

/// Asks as many questions after one another as its payload says; sleeps for a long time if none.
async fn ask(payload: ActivityPayload<u32>, ctx: Ctx) -> NodeResult<StepsUpdate> {
    if payload.0 == 0 {
        ctx.sleep(Duration::from_secs(3_600)).await?;
    }
    for number in 0..payload.0 {
        ctx.interrupt(json!(number))?;
    }
    Ok(StepsUpdate::new().lines(["done".to_owned()]))
}

fn asker() -> CompiledGraph {
    let graph = Graph::<Steps>::new("asker").node("ask", ask).edge(START, "ask");
    graph.build().expect("sound")
}

/// Terminates an instance whose activity waits after a number of answers, in a process that does not
/// host the graph.
async fn ends_what_waits(place: &Place, payload: u32, answers: u32, on: OnQuestion) {
    let agents = open(place).await;
    let options = options().on_question(on);
    agents.create_graph_agent(&asker(), json!({}), options).await.expect("created");
    let sent = Activity::new(json!(payload)).priority(7).input(json!({"lines": ["begun"]}));
    let asks = agents.send(id(), sent.clone()).await.expect("accepted");
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    for _ in 0..answers {
        let thread = agents.runtime().thread("app:asker", "i-1").expect("hosted");
        thread.answer(json!("yes")).await.expect("accepted");
    }
    let behind = agents.send(id(), Activity::new(json!(1))).await.expect("accepted");
    until(&agents, |info| info.statistics.asking == 1 && info.statistics.waiting == 1).await;
    close(agents).await;

    let agents = open(place).await;
    let report = agents.terminate(id(), Duration::ZERO, QueuedActivities::Keep).await;
    let report = report.expect("exists");
    let letter = report.asking.expect("is reported");
    assert_eq!((&letter.activity, &letter.again), (&asks.activity().run, &sent), "{answers}");
    assert_eq!(letter.failure.as_ref().map(|failure| failure.kind), Some(Kind::Cancelled));
    assert_eq!(agents.letter(id(), &letter.activity).await, Ok(letter.clone()));
    assert_eq!(report.kept.len(), 1);
    assert_eq!(
        (report.kept[0].activity.clone(), report.cut),
        (behind.activity().run.clone(), None)
    );
    let after = info(&agents).await;
    let Statistics { waiting, asking, succeeded, failed, cancelled, .. } = after.statistics;
    assert_eq!((waiting, asking, succeeded, failed, cancelled), (1, 0, 0, 0, 1));
    let rows = agents.store().interrupts(&Principal::local(), &ThreadId::from(&id())).await;
    assert!(rows.expect("reads").iter().all(|row| !row.is_open()), "closed");
    let repeated = agents.terminate(id(), Duration::ZERO, QueuedActivities::Keep).await;
    assert_eq!(repeated.expect("exists").asking, Some(letter.clone()));
    assert_eq!(info(&agents).await.statistics, after.statistics);
    // Another instance executes it as it was sent.
    agents.host("app:asker", asker()).await.expect("hosted");
    let other = InstanceOptions::new().on_question(on);
    let other = agents.create_of("app:asker", json!({}), other).await.expect("created");
    let again = agents.send(&other, letter.again).await.expect("accepted");
    assert_eq!(again.ended().await, Ok(ActivityEnd::Asks));
    close(agents).await;
}

async fn an_activity_that_asks_is_cancelled_and_reported(place: Place) {
    ends_what_waits(&place, 2, 0, OnQuestion::Hold).await;
}

async fn an_activity_that_asks_again_after_an_answer_is_reported_as_it_was_sent(place: Place) {
    ends_what_waits(&place, 2, 1, OnQuestion::Hold).await;
}

async fn an_activity_that_sleeps_is_cancelled_and_reported(place: Place) {
    ends_what_waits(&place, 0, 0, OnQuestion::SetAside).await;
}

on_three_stores![
    queued_activities_are_kept,
    an_activity_that_ends_before_it_is_cut_off_is_reported_as_ended,
    queued_activities_are_dead_lettered,
    an_activity_that_asks_is_cancelled_and_reported,
    an_activity_that_asks_again_after_an_answer_is_reported_as_it_was_sent,
    an_activity_that_sleeps_is_cancelled_and_reported,
];
