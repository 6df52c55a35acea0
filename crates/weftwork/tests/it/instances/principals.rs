//! Instances of two organisations: for each, those of the other one do not exist.

use super::{Place, close, does, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityContext, ActivityEnd, ActivityPayload, AgentRuntime, AgentRuntimeError,
    AgentRuntimeErrorKind as Kind, Hosting, InstanceEventKind, InstanceOptions, InstanceStatus,
    OnQuestion, QueuedActivities,
};
use weftwork::graph::HistoryFilter;
use weftwork::graph::{Ctx, NodeError, RuntimeError};
use weftwork::prelude::*;
use weftwork::runtime::{FollowFrom, RolledBack, Selection};
use weftwork::store::{StoreError, ThreadQuery};
use weftwork::types::run::CancelAction;
use weftwork::types::{InstanceId, OrgId, Principal, ThreadId};

#[derive(Debug, State)]
struct Notes {
    #[channel(append)]
    notes: List<String>,
}

/// Writes the payload with the organisation for which it is executed; asks before it if it says so.
async fn note(
    payload: ActivityPayload<String>,
    hosting: Hosting,
    ctx: Ctx,
) -> NodeResult<NotesUpdate> {
    let text = match payload.0.as_str() {
        "ask" => ctx.interrupt(json!("Which note?"))?.to_string(),
        text => text.to_owned(),
    };
    let org = &hosting.agents().principal().org;
    Ok(NotesUpdate::new().notes([format!("{text} of {org}")]))
}

fn notes() -> CompiledGraph {
    let graph = Graph::<Notes>::new("notes").node("note", note).edge(START, "note");
    graph.build().expect("sound")
}

/// The same agent runtime for another organisation.
fn other(agents: &AgentRuntime) -> AgentRuntime {
    let org = OrgId::new("other").expect("an id");
    agents.on_behalf_of(Principal::new(org, "ada"))
}

#[track_caller]
fn is_unknown<T: Debug>(result: Result<T, AgentRuntimeError>) {
    let error = result.expect_err("it is of another organisation");
    assert_eq!((error.kind, error.code()), (Kind::UnknownInstance, "W0642"), "{error}");
}

#[track_caller]
fn is_missing<T: Debug>(result: Result<T, RuntimeError>) {
    let error = result.expect_err("it is of another organisation");
    let is_missing = matches!(error, RuntimeError::Store(StoreError::NotFound { .. }));
    assert!(is_missing, "{error:?}");
}

async fn no_operation_reaches_an_instance_of_another_organisation(place: Place) {
    let agents = open(&place).await;
    agents.create_graph_agent(&notes(), json!({}), options()).await.expect("created");
    let asks = agents.send(id(), Activity::new(json!("ask"))).await.expect("accepted");
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    let waits = agents.send(id(), Activity::new(json!("wait"))).await.expect("accepted");
    let before = info(&agents).await;
    assert_eq!((before.questions.len(), before.statistics.waiting), (1, 1));
    // A colleague is of the same organisation.
    let colleague = agents.on_behalf_of(Principal::new(agents.principal().org.clone(), "bob"));
    assert_eq!(info(&colleague).await, before);

    let others = other(&agents);
    is_unknown(others.info(id()).await);
    is_unknown(others.get_state(id()).await);
    is_unknown(others.get_state_as::<Value>(id()).await);
    is_unknown(others.send(id(), Activity::new(json!("theirs"))).await);
    is_unknown(others.leave(id(), Activity::new(json!("theirs"))).await);
    is_unknown(others.subscribe(id()).await.map(drop));
    is_unknown(others.subscribe_from(id(), FollowFrom::Start).await.map(drop));
    is_unknown(others.terminate(id(), Duration::ZERO, QueuedActivities::DeadLetter).await);
    assert_eq!(others.list(10).await, Ok(Vec::new()));
    others.attend(id());

    // Nor is it reached through the runtime, by its thread and its runs.
    let runtime = agents.runtime();
    let who = others.principal();
    let thread = runtime.thread("app:notes", "i-1").expect("hosted").with_principal(who.clone());
    is_missing(thread.answer(json!("theirs")).await.map(drop));
    is_missing(thread.state().await);
    is_missing(thread.history(&HistoryFilter::default()).await);
    is_missing(thread.questions().await);
    is_missing(thread.runs(RolledBack::Included).await);
    is_missing(thread.cancel().await);
    is_missing(thread.resume().await.map(drop));
    is_missing(thread.fork("copy").await.map(drop));
    is_missing(thread.copy("copy").await.map(drop));
    for at in [asks.activity(), waits.activity()] {
        is_missing(runtime.cancel_run(who, at, CancelAction::Interrupt).await.map(drop));
        is_missing(runtime.cancel_run(who, at, CancelAction::Rollback).await.map(drop));
        is_missing(runtime.ended(who, at).await);
        is_missing(runtime.follow_run(who, at).await.map(drop));
        is_missing(runtime.take_over(who, at).await.map(drop));
        is_missing(runtime.requeue(who, at).await.map(drop));
        is_missing(
            runtime.follow(who, at, FollowFrom::Start, Selection::default()).await.map(drop),
        );
    }
    let threads = runtime.threads().with_principal(who.clone());
    let of_instance = ThreadId::from(&id());
    is_missing(threads.get(&of_instance).await);
    is_missing(threads.cancel(&of_instance).await);
    is_missing(threads.delete(&of_instance).await);
    let found = threads.search(ThreadQuery::default()).await.expect("reads");
    assert!(found.threads.is_empty(), "{found:?}");

    assert_eq!(info(&agents).await, before, "nothing of it has changed");
    close(agents).await;

    let agents = open(&place).await;
    agents.host("app:notes", notes()).await.expect("hosted");
    is_unknown(other(&agents).info(id()).await);
    let thread = agents.runtime().thread("app:notes", "i-1").expect("hosted");
    thread.answer(json!("mine")).await.expect("its own organisation answers");
    until(&agents, |info| info.statistics.succeeded == 2).await;
    let all = json!({"notes": ["\"mine\" of local", "wait of local"]});
    assert_eq!(agents.get_state(id()).await, Ok(all));
    close(agents).await;
}

async fn a_question_that_is_set_aside_is_of_its_organisation(place: Place) {
    let agents = open(&place).await;
    let others = other(&agents);
    let options = || options().on_question(OnQuestion::SetAside);
    for agents in [&agents, &others] {
        agents.create_graph_agent(&notes(), json!({}), options()).await.expect("created");
    }
    agents.send(id(), Activity::new(json!("ask"))).await.expect("accepted");
    until(&agents, |info| !info.set_aside.is_empty()).await;
    assert_eq!(info(&others).await.set_aside, [], "also under the same id");
    let aside = info(&agents).await.set_aside.remove(0).thread;
    let thread = agents.runtime().thread("app:notes", aside.as_str()).expect("hosted");
    let of_others = thread.clone().with_principal(others.principal().clone());
    is_missing(of_others.answer(json!("theirs")).await.map(drop));
    let ended = thread.answer(json!("mine")).await.expect("its own organisation answers");
    assert_eq!(ended.output().expect("completed")["notes"], json!(["\"mine\" of local"]));
    close(agents).await;
}

/// Records payloads with the organisation for which they are executed. The payload `relay` is sent
/// on to the instance `i-2`.
async fn record(mut all: Vec<String>, activity: ActivityContext) -> Result<Vec<String>, NodeError> {
    let payload = activity.payload_as::<String>()?;
    if payload == "relay" {
        activity.send(&second(), Activity::new(json!("relayed"))).await?;
    }
    all.push(format!("{payload} of {}", activity.agents().principal().org));
    Ok(all)
}

fn second() -> InstanceId {
    InstanceId::new("i-2").expect("an id")
}

async fn organisations_have_instances_of_the_same_id(place: Place) {
    let agents = open(&place).await;
    let others = other(&agents);
    for agents in [&agents, &others] {
        let created = agents.create("record", Vec::<String>::new(), record, options()).await;
        created.expect("the id is free in each organisation");
    }
    let second_options = InstanceOptions::new().id(second());
    let created = others.create("record", Vec::<String>::new(), record, second_options).await;
    created.expect("created");
    let events = others.subscribe_from(id(), FollowFrom::Start).await.expect("exists");

    // The same key, too.
    let hello = || Activity::new(json!("hello")).idempotency_key("k-1");
    for agents in [&agents, &others] {
        agents.send(id(), hello()).await.expect("accepted").ended().await.expect("succeeds");
    }
    assert_eq!(agents.get_state(id()).await, Ok(json!(["hello of local"])));
    assert_eq!(others.get_state(id()).await, Ok(json!(["hello of other"])));

    // A node reaches the instances of its own organisation alone.
    let relayed = does(&agents, &agents.handle(&id()), json!("relay")).await;
    is_unknown(relayed);
    let mut received = others.subscribe(second()).await.expect("exists");
    does(&others, &others.handle(&id()), json!("relay")).await.expect("it has the second one");
    let ended = async {
        while let Some(event) = received.next().await {
            if let InstanceEventKind::Ended { error, .. } = event.expect("no error").kind {
                return error;
            }
        }
        panic!("the stream ended")
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("in time");
    assert_eq!(ended, None);
    assert_eq!(others.get_state(second()).await, Ok(json!(["relayed of other"])));
    assert_eq!(agents.list(10).await, Ok(vec![id()]));
    assert_eq!(others.list(10).await, Ok(vec![id(), second()]));

    let kept = QueuedActivities::Keep;
    agents.terminate(id(), Duration::ZERO, kept).await.expect("exists");
    does(&others, &others.handle(&id()), json!("on")).await.expect("is not terminated");
    others.terminate(id(), Duration::ZERO, kept).await.expect("exists");
    let events = tokio::time::timeout(Duration::from_secs(20), events.collect::<Vec<_>>()).await;
    let events: Vec<_> = events.expect("it ends").into_iter().map(Result::unwrap).collect();
    let text = json!(events).to_string();
    assert!(text.contains("hello of other") && !text.contains("of local"), "{text}");
    close(agents).await;

    // Another process executes the activities of each organisation on its behalf.
    let agents = open(&place).await;
    let others = other(&agents);
    let left = others.leave(second(), Activity::new(json!("left"))).await.expect("accepted");
    agents.host_handler("record", record).await.expect("hosted");
    left.ended().await.expect("succeeds");
    let all = json!(["relayed of other", "left of other"]);
    assert_eq!(others.get_state(second()).await, Ok(all));
    is_unknown(agents.get_state(second()).await);
    assert_eq!(info(&others).await.status, InstanceStatus::Terminated);
    close(agents).await;
}

on_three_stores![
    a_question_that_is_set_aside_is_of_its_organisation,
    no_operation_reaches_an_instance_of_another_organisation,
    organisations_have_instances_of_the_same_id,
];
