//! Recovery of runs behind many that cannot begin here.

use super::{Place, on_three_stores};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use weftwork::prelude::*;
use weftwork::runtime::{LeaseConfig, Recovery, Runtime};
use weftwork::store::mailbox::INSTANCE;
use weftwork::store::{IfExists, NewRun, NewThread, Store};
use weftwork::types::caller::Caller;
use weftwork::types::run::{Mailbox, RunInput, RunOptions, RunOutcome, RunRef};
use weftwork::types::{Principal, RunId, ThreadId, Timestamp};

/// More runs than one check of recovery considers.
const WAITING: i64 = 1_100;
/// A time that does not come.
const NEVER: Timestamp = Timestamp(i64::MAX / 2);

#[derive(Debug, State)]
struct Ran {
    ran: bool,
}

async fn run(_: State<Ran>) -> NodeResult<RanUpdate> {
    Ok(RanUpdate::new().ran(true))
}

fn new(graph: &str, name: &str, at: i64) -> NewRun {
    NewRun {
        at: RunRef {
            thread: ThreadId::new(name).expect("an id"),
            run: RunId::new(name).expect("an id"),
        },
        graph: graph.to_owned(),
        caller: Caller::local("request-1").expect("an id"),
        input: RunInput::Start { input: json!({"ran": false}) },
        options: RunOptions::default(),
        created_at: Timestamp(at),
    }
}

/// Accepts the activity of an instance of its own.
async fn send(store: &dyn Store, mut activity: NewRun) {
    let who = Principal::local();
    let metadata = Map::from_iter([(INSTANCE.to_owned(), Value::Bool(true))]);
    let thread = NewThread {
        id: activity.at.thread.clone(),
        graph: Some(activity.graph.clone()),
        metadata,
        created_at: activity.created_at,
        if_exists: IfExists::Refuse,
    };
    store.create_thread(&who, thread).await.expect("an instance");
    activity.options.mailbox = Some(Mailbox::of_capacity(1));
    store.create_run(&who, activity, BTreeMap::new()).await.expect("accepted");
}

async fn runs_that_wait_do_not_prevent_the_recovery_of_others(place: Place) {
    let store = place.open();
    let who = Principal::local();
    for number in 0..WAITING {
        // No process hosts the graph of these.
        send(&*store, new("app:unknown", &format!("a-{number}"), number)).await;
        // The time of these does not come.
        let mut later = new("app:run", &format!("b-{number}"), number);
        later.options.not_before = Some(NEVER);
        store.create_run(&who, later, BTreeMap::new()).await.expect("accepted");
    }
    let orphan = new("app:run", "orphan", WAITING);
    let at = orphan.at.clone();
    store.create_run(&who, orphan, BTreeMap::new()).await.expect("accepted");
    drop(store);

    let beat = Duration::from_millis(100);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 20, look_every: beat };
    let graph = || {
        let graph = Graph::<Ran>::new("run").node("run", run).edge(START, "run");
        graph.build().expect("sound")
    };
    let runtime = Runtime::builder(place.open()).lease(lease).recovery(Recovery::Automatic);
    let runtime = runtime.graph("app:run", graph()).open().await.expect("opens");
    let ended = tokio::time::timeout(Duration::from_secs(60), runtime.ended(&who, &at)).await;
    let ended = ended.expect("is recovered").expect("reads");
    assert!(matches!(ended, RunOutcome::Completed { .. }), "{ended:?}");
    let orphan = new("app:run", "another", WAITING);
    let store = runtime.store();
    let left = runtime.shutdown(Duration::from_secs(5)).await.expect("stops");
    assert!(left.is_empty(), "{left:?}");

    // On request, in one call.
    store.create_run(&who, orphan, BTreeMap::new()).await.expect("accepted");
    let runtime = Runtime::builder(place.open()).graph("app:run", graph());
    let runtime = runtime.open().await.expect("opens");
    let taken = runtime.recover().await.expect("reads");
    let taken: Vec<_> = taken.iter().map(|handle| handle.run.run.as_str()).collect();
    assert_eq!(taken, ["another"]);
    runtime.shutdown(Duration::from_secs(5)).await.expect("stops");
}

on_three_stores![runs_that_wait_do_not_prevent_the_recovery_of_others];
