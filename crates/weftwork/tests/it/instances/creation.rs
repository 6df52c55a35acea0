//! Creation of instances: states that do not fit, interruptions, and keys.

use super::{Place, close, id, on_three_stores, open, options};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;
use weftwork::agents::{
    Activity, AgentRuntime, AgentRuntimeError, AgentRuntimeErrorKind as Kind, InstanceOptions,
    InstanceStatus, QueuedActivities,
};
use weftwork::prelude::*;
use weftwork::store::StoreError;
use weftwork::types::InstanceId;
use weftwork::types::caller::Caller;
use weftwork::types::port::GraphExecutor;
use weftwork::types::run::{RunInput, RunOptions, RunRequest};

#[derive(Debug, State)]
struct Notes {
    #[channel(append)]
    notes: List<String>,
}

async fn note(_: State<Notes>) -> NotesUpdate {
    NotesUpdate::new().notes(["noted".to_owned()])
}

fn notes() -> CompiledGraph {
    let graph = Graph::<Notes>::new("notes").node("note", note).edge(START, "note");
    graph.build().expect("sound")
}

async fn create(agents: &AgentRuntime, state: Value) -> Result<(), AgentRuntimeError> {
    agents.create_graph_agent(&notes(), state, options()).await.map(drop)
}

/// Number of runs of the thread of the instance; `None` if there is no thread.
async fn runs(agents: &AgentRuntime) -> Option<usize> {
    let who = agents.principal();
    let thread = (&id()).into();
    match agents.store().thread(who, &thread).await {
        Err(StoreError::NotFound { .. }) => None,
        found => {
            found.expect("reads");
            Some(agents.store().runs(who, &thread).await.expect("reads").len())
        }
    }
}

async fn a_refused_state_leaves_nothing(place: Place) {
    let agents = open(&place).await;
    for state in [json!([1]), json!("a"), json!({"notes": [1]}), json!({"nots": []})] {
        let refused = create(&agents, state.clone()).await.expect_err("does not fit");
        assert_eq!((refused.kind, refused.code()), (Kind::InvalidState, "W0648"), "{state}");
        assert_eq!(refused.fault.causes().count(), 1, "{refused}");
        assert_eq!(runs(&agents).await, None, "{state}");
    }
    create(&agents, json!({"notes": ["begun"]})).await.expect("created");
    assert_eq!(runs(&agents).await, Some(1));
    close(agents).await;
    let agents = open(&place).await;
    create(&agents, json!([1])).await.expect("exists, and the state has no effect");
    assert_eq!(agents.get_state(id()).await, Ok(json!({"notes": ["begun"]})));
    close(agents).await;
}

async fn an_instance_has_an_id_and_a_handle_for_each_operation(place: Place) {
    let agents = open(&place).await;
    let options = InstanceOptions::new;
    let first = agents.create_graph_agent(&notes(), json!({}), options()).await.expect("created");
    let second = agents.create_graph_agent(&notes(), json!({}), options()).await.expect("created");
    assert_ne!(first.id(), second.id(), "each has an id of its own");
    let mut ids = agents.list(10).await.expect("reads");
    let mut expected = [first.id().clone(), second.id().clone()];
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);

    assert!(first.agents().is_same(&agents));
    let mut events = agents.subscribe(&first).await.expect("exists");
    let sent = agents.send(&first, Activity::new(json!(null))).await.expect("accepted");
    sent.ended().await.expect("succeeds");
    let state = json!({"notes": ["noted"]});
    assert_eq!(agents.get_state(&first).await, Ok(state));
    let begun = events.next().await.expect("goes on").expect("no error");
    assert_eq!(begun.activity, sent.activity().run);
    let report = agents.terminate(&first, Duration::ZERO, QueuedActivities::Keep).await;
    assert_eq!(report.expect("exists").kept, []);
    for (instance, status) in
        [(&first, InstanceStatus::Terminated), (&second, InstanceStatus::Idle)]
    {
        assert_eq!(agents.info(instance).await.expect("exists").status, status);
    }
    assert_eq!(agents.get_state(&second).await, Ok(json!({"notes": []})));
    close(agents).await;
}

async fn an_interrupted_creation_is_finished(place: Place) {
    let agents = open(&place).await;
    agents.host("app:notes", notes()).await.expect("hosted");
    // The second key is that of stores of earlier versions.
    for (name, key) in [("i-1", "weft:create:i-1"), ("i-2", "create:i-2")] {
        let instance = InstanceId::new(name).expect("an id");
        let writes = json!({"notes": ["begun"]});
        let request = RunRequest {
            principal: agents.principal().clone(),
            caller: Caller::local("request-1").expect("an id"),
            graph: "app:notes".to_owned(),
            thread: (&instance).into(),
            input: RunInput::Update { writes, as_node: Some("__state__".to_owned()) },
            options: RunOptions { idempotency_key: Some(key.to_owned()), ..RunOptions::default() },
        };
        agents.runtime().execute(request).await.expect("accepted").outcome.await;
        let state = json!({"notes": ["begun"]});
        let options = options().id(instance.clone());
        agents.create_graph_agent(&notes(), &state, options).await.expect("created");
        assert_eq!(agents.get_state(&instance).await, Ok(state), "is written once");
    }
    assert_eq!((runs(&agents).await, agents.list(10).await.expect("reads").len()), (Some(1), 2));
    close(agents).await;
}

async fn keys_of_the_runtime_are_refused(place: Place) {
    let agents = open(&place).await;
    let unknown = agents.create_of("app:notes", json!({}), options()).await.expect_err("unknown");
    assert!(unknown.to_string().contains("no graph `app:notes` here; this process hosts none"));
    create(&agents, json!({})).await.expect("created");
    let thread = agents.runtime().thread("app:notes", "t").expect("hosted");
    for key in ["weft:create:i-2", ""] {
        let activity = Activity::new(json!(1)).idempotency_key(key);
        let refused = agents.send(id(), activity).await.expect_err("is no key of a client");
        assert_eq!(refused.code(), "W0137", "{refused}");
        let refused = thread.start(json!({})).idempotency_key(key).await;
        assert_eq!(refused.expect_err("is no key of a client").code().0, "W0137");
    }
    // A key of a client does not prevent a creation, and its run is none.
    let activity = Activity::new(json!(1)).idempotency_key("create:i-2");
    agents.send(id(), activity).await.expect("accepted").ended().await.expect("succeeds");
    let other = options().id(InstanceId::new("i-2").expect("an id"));
    agents.create_graph_agent(&notes(), json!({}), other).await.expect("created");
    let thread = agents.runtime().thread("app:notes", "i-3").expect("hosted");
    thread.start(json!({})).idempotency_key("create:i-3").await.expect("accepted");
    let other = options().id(InstanceId::new("i-3").expect("an id"));
    let refused = agents.create_graph_agent(&notes(), json!({}), other).await;
    assert_eq!(refused.expect_err("is no instance").code(), "W0644");
    close(agents).await;
}

on_three_stores![
    an_instance_has_an_id_and_a_handle_for_each_operation,
    a_refused_state_leaves_nothing,
    an_interrupted_creation_is_finished,
    keys_of_the_runtime_are_refused,
];
