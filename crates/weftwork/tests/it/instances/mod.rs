//! Instances of agents over the three stores, each with a restart in the middle.

mod aside;
mod asking;
mod commits;
mod continuations;
mod creation;
mod failures;
mod graphs;
mod hidden;
mod hosting;
mod kills;
mod letters;
mod logs;
mod mailbox;
mod principals;
mod recovery;
mod termination;

pub(super) use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{
    Activity, AgentRuntime, AgentRuntimeError, Instance, InstanceInfo, InstanceOptions,
};
use weftwork::graph::SystemClock;
use weftwork::runtime::{LeaseConfig, Runtime};
use weftwork::tools::ToolBox;
use weftwork::types::InstanceId;
use weftwork::types::port::Clock;

/// Opens an agent runtime over a place, with tools.
pub(super) async fn open_with(place: &Place, tools: ToolBox) -> AgentRuntime {
    open_on(place, tools, Arc::new(SystemClock::new())).await
}

/// Opens an agent runtime over a place, by a clock.
pub(super) async fn open_on(place: &Place, tools: ToolBox, clock: Arc<dyn Clock>) -> AgentRuntime {
    let beat = Duration::from_millis(100);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 20, look_every: beat };
    let runtime = Runtime::builder(place.open()).lease(lease).clock(clock);
    let runtime = runtime.open().await.expect("opens");
    AgentRuntime::over(runtime).tools(tools).build().expect("sound")
}

/// Opens an agent runtime over a place.
pub(super) async fn open(place: &Place) -> AgentRuntime {
    open_with(place, ToolBox::new()).await
}

/// Ends an agent runtime, as a process that stops.
pub(super) async fn close(agents: AgentRuntime) {
    let left = agents.runtime().shutdown(Duration::from_secs(5)).await.expect("stops");
    assert!(left.is_empty(), "{left:?}");
}

/// The id of the instance of a test.
pub(super) fn id() -> InstanceId {
    InstanceId::new("i-1").expect("an id")
}

pub(super) fn options() -> InstanceOptions {
    InstanceOptions::new().id(id())
}

/// Sends a payload, and waits for the end of the activity.
pub(super) async fn does(
    agents: &AgentRuntime,
    instance: &Instance,
    payload: Value,
) -> Result<(), AgentRuntimeError> {
    agents.send(instance, Activity::new(payload)).await?.ended().await.map(drop)
}

pub(super) async fn info(agents: &AgentRuntime) -> InstanceInfo {
    agents.info(id()).await.expect("exists")
}

/// Waits until a condition of the instance holds.
pub(super) async fn until(agents: &AgentRuntime, holds: impl Fn(&InstanceInfo) -> bool) {
    let reached = async {
        while !holds(&info(agents).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
    assert!(reached.is_ok(), "{:?}", info(agents).await);
}

async fn a_state_and_its_mailbox_survive_a_restart(place: Place) {
    use weftwork::agents::ActivityContext;
    use weftwork::graph::NodeError;
    async fn count(total: u64, activity: ActivityContext) -> Result<u64, NodeError> {
        Ok(total + activity.payload_as::<u64>()?)
    }
    let agents = open(&place).await;
    let counter = agents.create("counter", 1_u64, count, options()).await.expect("created");
    assert_eq!(agents.get_state(&counter).await, Ok(json!(1)), "before the first activity");
    assert_eq!(info(&agents).await.status.word(), "idle");
    does(&agents, &counter, json!(2)).await.expect("succeeds");
    assert_eq!(agents.get_state(&counter).await, Ok(json!(3)));
    close(agents).await;

    // Another process, which does not know the handler yet.
    let agents = open(&place).await;
    let counter = agents.handle(&id());
    let waiting = agents.send(&counter, Activity::new(json!(4))).await.expect("accepted");
    assert_eq!(info(&agents).await.status.word(), "error");
    agents.host_handler("counter", count).await.expect("hosted");
    waiting.ended().await.expect("succeeds");
    assert_eq!(agents.get_state_as::<u64>(&counter).await, Ok(7));
    let statistics = info(&agents).await.statistics;
    assert_eq!((statistics.succeeded, statistics.waiting, statistics.failed), (2, 0, 0));
    assert_eq!(agents.list(10).await, Ok(vec![id()]));
    // A repeated creation returns the instance, and ignores the state.
    agents.create("counter", 50_u64, count, options()).await.expect("the same");
    assert_eq!(agents.get_state_as::<u64>(&counter).await, Ok(7));
    let other = agents.create("counter", 1_u64, count, options().mailbox_capacity(3)).await;
    let other = other.expect_err("another one");
    assert_eq!(other.code(), "W0644");
    assert!(other.to_string().contains("another `mailbox.capacity`;"), "{other}");
    close(agents).await;
}

on_three_stores![a_state_and_its_mailbox_survive_a_restart];
