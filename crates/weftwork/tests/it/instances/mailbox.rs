//! The mailbox: bound, order, times, repetitions, and one activity at a time.

use super::{Place, close, does, id, info, on_three_stores, open, open_on, options, until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork::agents::{
    Activity, ActivityContext, AgentRuntime, AgentRuntimeErrorKind as Kind, InstanceOptions,
    InstanceStatus, MAILBOX_CAPACITY_MAX, PAYLOAD_BYTES_MAX,
};
use weftwork::graph::NodeError;
use weftwork::runtime::{Recovery, Runtime};
use weftwork::tools::ToolBox;
use weftwork::types::InstanceId;
use weftwork_testkit::ManualClock;

/// Records the payloads in their order. The payload `gate` waits until the gate is opened.
async fn record(agents: &AgentRuntime, gate: &Arc<Semaphore>) {
    let gate = Arc::clone(gate);
    let handler = move |mut all: Vec<String>, activity: ActivityContext| {
        let gate = Arc::clone(&gate);
        async move {
            let payload = activity.payload_as::<String>()?;
            if payload == "gate" {
                gate.acquire().await.map_err(NodeError::from)?.forget();
            }
            all.push(payload);
            Ok::<_, NodeError>(all)
        }
    };
    let options = options().mailbox_capacity(4);
    agents.create("record", Vec::new(), handler, options).await.expect("created");
}

async fn the_order_is_that_of_priority_then_arrival(place: Place) {
    let agents = open(&place).await;
    let gate = Arc::new(Semaphore::new(0));
    record(&agents, &gate).await;
    agents.send(id(), Activity::new(json!("gate"))).await.expect("accepted");
    until(&agents, |info| info.status == InstanceStatus::Processing).await;
    for (payload, priority) in [("a", 0), ("b", 5), ("c", 0)] {
        let activity = Activity::new(json!(payload)).priority(priority);
        agents.send(id(), activity).await.expect("accepted");
    }
    // Four activities are unfinished.
    let full = agents.send(id(), Activity::new(json!("d"))).await.expect_err("is full");
    assert_eq!((full.kind, full.code(), full.fault.retriable), (Kind::MailboxFull, "W0640", true));
    gate.add_permits(1);
    until(&agents, |info| info.statistics.succeeded == 4).await;
    assert_eq!(agents.get_state(id()).await, Ok(json!(["gate", "b", "a", "c"])));
    close(agents).await;

    // The same while no process executes it.
    let agents = open(&place).await;
    for (payload, priority) in [("e", -1), ("f", 0), ("g", 2)] {
        let activity = Activity::new(json!(payload)).priority(priority);
        agents.send(id(), activity).await.expect("accepted");
    }
    record(&agents, &gate).await;
    until(&agents, |info| info.statistics.succeeded == 7).await;
    let all = json!(["gate", "b", "a", "c", "g", "f", "e"]);
    assert_eq!(agents.get_state(id()).await, Ok(all));
    close(agents).await;
}

async fn a_repeated_activity_is_accepted_once(place: Place) {
    let agents = open(&place).await;
    let gate = Arc::new(Semaphore::new(0));
    record(&agents, &gate).await;
    let activity = || {
        let limit = Duration::from_secs(60);
        Activity::new(json!("a")).idempotency_key("k-1").timeout(limit)
    };
    let first = agents.send(id(), activity()).await.expect("accepted");
    first.ended().await.expect("succeeds");
    close(agents).await;
    let agents = open(&place).await;
    record(&agents, &gate).await;
    let again = agents.send(id(), activity()).await.expect("accepted");
    assert_eq!(again.activity(), first.activity());
    let other = Activity::new(json!("b")).idempotency_key("k-1");
    assert_eq!(agents.send(id(), other).await.expect_err("another one").code(), "W0205");
    assert_eq!(agents.get_state(id()).await, Ok(json!(["a"])));
    close(agents).await;
}

async fn never_two_activities_at_once(place: Place) {
    let agents = open(&place).await;
    let active = Arc::new(AtomicBool::new(false));
    let handler = {
        let active = Arc::clone(&active);
        move |count: u64, _: ActivityContext| {
            let active = Arc::clone(&active);
            async move {
                assert!(!active.swap(true, Ordering::SeqCst), "two at once");
                tokio::task::yield_now().await;
                active.store(false, Ordering::SeqCst);
                Ok::<_, NodeError>(count + 1)
            }
        }
    };
    agents.create("alone", 0_u64, handler.clone(), options()).await.expect("created");
    let sends = (0..100).map(|number| {
        let agents = agents.clone();
        tokio::spawn(async move {
            let sent = agents.send(id(), Activity::new(json!(number))).await.expect("accepted");
            sent.ended().await
        })
    });
    let sends: Vec<_> = sends.collect();
    for send in sends {
        send.await.expect("no panic").expect("succeeds");
    }
    assert_eq!(agents.get_state(id()).await, Ok(json!(100)));
    assert_eq!(info(&agents).await.statistics.succeeded, 100);
    close(agents).await;
}

#[tokio::test]
async fn activities_begin_and_expire_at_their_times() {
    let place = Place::memory("");
    let gate = Arc::new(Semaphore::new(0));
    let clock = Arc::new(ManualClock::new());
    let agents = open_on(&place, ToolBox::new(), Arc::clone(&clock) as _).await;
    record(&agents, &gate).await;
    let hour = Duration::from_secs(3_600);
    let now = agents.runtime().clock().now();
    let later = Activity::new(json!("later")).not_before(now.plus(hour));
    let later = agents.send(id(), later).await.expect("accepted");
    let instance = agents.handle(&id());
    // Others do not wait for it.
    does(&agents, &instance, json!("now")).await.expect("succeeds");
    assert_eq!(agents.get_state(id()).await, Ok(json!(["now"])));
    assert_eq!(info(&agents).await.statistics.waiting, 1);
    clock.advance(hour);
    later.ended().await.expect("begins at its time");

    let limited = Activity::new(json!("gate")).timeout(hour);
    let limited = agents.send(id(), limited).await.expect("accepted");
    let waiting = agents.send(id(), Activity::new(json!("late")).timeout(hour)).await;
    until(&agents, |info| info.status == InstanceStatus::Processing).await;
    clock.advance(2 * hour);
    for sent in [limited, waiting.expect("accepted")] {
        let error = sent.ended().await.expect_err("its time is over");
        assert_eq!((error.kind, error.code()), (Kind::TimedOut, "W0638"), "{error}");
    }
    does(&agents, &instance, json!("next")).await.expect("the mailbox goes on");
    assert_eq!(agents.get_state(id()).await, Ok(json!(["now", "later", "next"])));
    close(agents).await;
}

#[tokio::test]
async fn activities_that_cannot_be_executed_are_refused() {
    let place = Place::memory("");
    let gate = Arc::new(Semaphore::new(0));
    let agents = open_on(&place, ToolBox::new(), Arc::new(ManualClock::new())).await;
    record(&agents, &gate).await;
    let minute = Duration::from_secs(60);
    let begin = agents.runtime().clock().now().plus(minute);
    let late = Activity::new(json!("a")).not_before(begin);
    let error = agents.send(id(), late.clone().timeout(minute)).await.expect_err("is too late");
    let times = format!("`not_before` is {0}, and its timeout ends at {0}", begin.0);
    assert_eq!(error.code(), "W0648");
    assert!(error.to_string().contains(&times), "{error}");
    agents.leave(id(), late.timeout(2 * minute)).await.expect("accepted");
    let never = Activity::new(json!("a")).timeout(Duration::ZERO);
    let error = agents.send(id(), never).await.expect_err("would never begin");
    assert_eq!(error.code(), "W0648");
    assert!(error.to_string().contains("a timeout of 0 seconds"), "{error}");

    // The quotes are two bytes.
    let text = |bytes: usize| Activity::new(json!("a".repeat(bytes - 2)));
    let limit = PAYLOAD_BYTES_MAX;
    let error = agents.send(id(), text(limit + 1)).await.expect_err("is too large");
    let sizes = format!("has {} bytes of JSON; expected at most {limit}", limit + 1);
    assert_eq!(error.code(), "W0648");
    assert!(error.to_string().contains(&sizes), "{error}");
    agents.leave(id(), text(limit)).await.expect("accepted");
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let error = agents.send(id(), Activity::new(deep)).await.expect_err("is too deep");
    assert_eq!(error.code(), "W0648");
    assert_eq!(info(&agents).await.statistics.waiting, 2);

    for capacity in [0, MAILBOX_CAPACITY_MAX + 1] {
        let handler = |count: u64, _: ActivityContext| async move { Ok::<_, NodeError>(count) };
        let options = InstanceOptions::new().mailbox_capacity(capacity);
        let refused = agents.create("other", 0_u64, handler, options).await;
        let refused = refused.expect_err("is out of range");
        assert_eq!(refused.code(), "W0648");
        assert!(refused.to_string().contains("expected 1 to 100000"), "{refused}");
    }
    close(agents).await;
}

/// Resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test measures wall time")]
async fn idle_instances_have_no_task() {
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let instances = if full { 100_000 } else { 200 };
    let place = Place::sqlite("");
    let agents = open(&place).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let began = std::time::Instant::now();
    let mut resident = 0;
    for number in 0..instances {
        let id = InstanceId::new(format!("i-{number}")).expect("an id");
        let options = InstanceOptions::new().id(id.clone());
        let handler = |count: u64, _: ActivityContext| async move { Ok::<_, NodeError>(count + 1) };
        agents.create("idle", 0_u64, handler, options).await.expect("created");
        let sent = agents.send(&id, Activity::new(json!(null))).await.expect("accepted");
        sent.ended().await.expect("succeeds");
        if number == instances / 10 {
            resident = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(resident);
    let seconds = began.elapsed().as_secs();
    println!("{instances} idle instances in {seconds} s; the last nine tenths took {grown} bytes");
    let none_left = async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), none_left).await.expect("no task is left");
    close(agents).await;
}

async fn an_activity_whose_timeout_has_passed_makes_room(place: Place) {
    async fn add(sum: u64, activity: ActivityContext) -> Result<u64, NodeError> {
        Ok(sum + activity.payload_as::<u64>()?)
    }
    let runtime = Runtime::builder(place.open()).recovery(Recovery::Manual).open().await;
    let agents = AgentRuntime::over(runtime.expect("opens")).build().expect("sound");
    let small = options().mailbox_capacity(1);
    agents.create("add", 0_u64, add, small).await.expect("created");
    let late = Activity::new(json!(1)).timeout(Duration::from_millis(1));
    let late = agents.leave(id(), late).await.expect("accepted");
    tokio::time::sleep(Duration::from_millis(5)).await;
    let next = agents.send(id(), Activity::new(json!(2))).await.expect("there is room");
    next.ended().await.expect("succeeds");
    assert_eq!(late.ended().await.expect_err("too late").kind, Kind::TimedOut);
    let waits = Activity::new(json!(1)).timeout(Duration::from_secs(60));
    let options = InstanceOptions::new().mailbox_capacity(1);
    let other = agents.create("add", 0_u64, add, options).await.expect("created");
    agents.leave(&other, waits).await.expect("accepted");
    let full = agents.send(&other, Activity::new(json!(1))).await.expect_err("no room");
    assert_eq!(full.kind, Kind::MailboxFull);
    close(agents).await;
}

on_three_stores![
    an_activity_whose_timeout_has_passed_makes_room,
    the_order_is_that_of_priority_then_arrival,
    a_repeated_activity_is_accepted_once,
    never_two_activities_at_once,
];
