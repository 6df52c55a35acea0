//! Termination of instances.

use super::{Place, close, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityContext, AgentRuntime, AgentRuntimeErrorKind as Kind, DeadLetter,
    InstanceEventKind, InstanceOptions, InstanceStatus, QueuedActivities, Sent,
};
use weftwork::graph::NodeError;

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

on_three_stores![queued_activities_are_kept, queued_activities_are_dead_lettered];
