//! Instances of graphs: payload, run options, states, and graphs that are missing or changed.

use super::{Place, close, does, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork::agents::{
    Activity, ActivityPayload, AgentRuntimeErrorKind as Kind, InstanceEventKind, InstanceStatus,
};
use weftwork::graph::{Ctx, DynUpdate, Dynamic};
use weftwork::prelude::*;
use weftwork::types::run::RunOptions;

#[derive(Debug, State)]
struct Notes {
    #[channel(append)]
    notes: List<String>,
}

async fn note(payload: ActivityPayload<String>, ctx: Ctx) -> NotesUpdate {
    let tone = ctx.calls().configurable.get("tone").cloned().unwrap_or_default();
    NotesUpdate::new().notes([format!("{} {tone}", payload.0)])
}

async fn again(payload: ActivityPayload<String>) -> NotesUpdate {
    NotesUpdate::new().notes([format!("{} again", payload.0)])
}

fn notes() -> CompiledGraph {
    let graph = Graph::<Notes>::new("notes").node("note", note).node("again", again);
    graph.edge(START, "note").edge("note", "again").build().expect("sound")
}

fn tone(tone: &str) -> RunOptions {
    let configurable = Map::from_iter([("tone".to_owned(), json!(tone))]);
    RunOptions { configurable, step_limit: Some(5), ..RunOptions::default() }
}

async fn the_payload_is_merged_with_the_configurable_entries(place: Place) {
    let agents = open(&place).await;
    let options = || options().run_options(tone("calm"));
    let state = json!({"notes": ["begun"]});
    let instance = agents.create_graph_agent(&notes(), &state, options()).await.expect("created");
    assert_eq!(agents.get_state(&instance).await, Ok(state.clone()));
    does(&agents, &instance, json!("a")).await.expect("succeeds");
    close(agents).await;

    let agents = open(&place).await;
    let instance = agents.create_graph_agent(&notes(), &state, options()).await.expect("the same");
    let loud = Activity::new(json!("b")).configurable(tone("loud").configurable);
    agents.send(&instance, loud).await.expect("accepted").ended().await.expect("succeeds");
    let all = json!(["begun", "a \"calm\"", "a again", "b \"loud\"", "b again"]);
    assert_eq!(agents.get_state(&instance).await, Ok(json!({"notes": all})));
    let rows = agents.store().runs(agents.principal(), &(&id()).into()).await.expect("reads");
    assert!(rows[1..].iter().all(|run| run.new.options.step_limit == Some(5)));
    close(agents).await;
}

async fn a_collision_with_the_payload_is_refused(place: Place) {
    let agents = open(&place).await;
    let taken = Map::from_iter([("ea_activity_payload".to_owned(), json!(1))]);
    let run = RunOptions { configurable: taken.clone(), ..RunOptions::default() };
    let refused = agents.create_graph_agent(&notes(), json!({}), options().run_options(run)).await;
    assert_eq!(refused.expect_err("collides").kind, Kind::PayloadCollision);
    assert_eq!(agents.list(10).await, Ok(Vec::new()));
    agents.create_graph_agent(&notes(), json!({}), options()).await.expect("created");
    close(agents).await;

    let agents = open(&place).await;
    let refused = agents.send(id(), Activity::new(json!("a")).configurable(taken)).await;
    assert_eq!(refused.expect_err("collides").code(), "W0643");
    assert_eq!(info(&agents).await.statistics.waiting, 0);
    close(agents).await;
}

async fn each_superstep_is_published_and_the_last_one_stays(place: Place) {
    let agents = open(&place).await;
    let instance = agents.create_graph_agent(&notes(), json!({}), options()).await;
    let instance = instance.expect("created");
    for (round, payload) in ["a", "b"].into_iter().enumerate() {
        let mut events = agents.subscribe(&instance).await.expect("exists");
        let sent = agents.send(&instance, Activity::new(json!(payload))).await.expect("accepted");
        let mut states = Vec::new();
        loop {
            let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
            let event = event.expect("in time").expect("goes on").expect("no error");
            assert_eq!(event.activity, sent.activity().run);
            match event.kind {
                InstanceEventKind::State { state } => states.push(state),
                InstanceEventKind::Ended { error, questions } => {
                    break assert_eq!((error, questions), (None, Vec::new()));
                }
                _ => {}
            }
        }
        let lengths: Vec<_> =
            states.iter().filter_map(|state| Some(state["notes"].as_array()?.len())).collect();
        let before = round * 2;
        assert_eq!(lengths[lengths.len() - 2..], [before + 1, before + 2], "{states:?}");
        assert_eq!(agents.get_state(&instance).await.as_ref(), Ok(&states[states.len() - 1]));
    }
    close(agents).await;
}

async fn wait(gate: Deps<Arc<Semaphore>>) -> NodeResult<NotesUpdate> {
    gate.acquire().await?.forget();
    Ok(NotesUpdate::new())
}

async fn the_state_is_read_while_an_activity_is_executed(place: Place) {
    let agents = open(&place).await;
    let gate = Arc::new(Semaphore::new(0));
    let graph = Graph::<Notes>::new("waits").with(Arc::clone(&gate));
    let graph = graph.node("note", note).node("wait", wait).node("again", again);
    let graph = graph.edge(START, "note").edge("note", "wait").edge("wait", "again");
    let graph = graph.build().expect("sound");
    let instance = agents.create_graph_agent(&graph, json!({}), options()).await.expect("created");
    let mut events = agents.subscribe(&instance).await.expect("exists");
    let sent = agents.send(&instance, Activity::new(json!("a"))).await.expect("accepted");
    let first = json!({"notes": ["a null"]});
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.expect("in time").expect("goes on").expect("no error");
        match event.kind {
            InstanceEventKind::State { state } if state == first => break,
            InstanceEventKind::Ended { .. } => panic!("it waits"),
            _ => {}
        }
    }
    assert_eq!(agents.get_state(&instance).await, Ok(first.clone()));
    assert_eq!(info(&agents).await.status, InstanceStatus::Processing);
    // A process that only reads has the same.
    let reader = open(&place).await;
    reader.host("app:waits", graph).await.expect("hosted");
    assert_eq!(reader.get_state(id()).await, Ok(first));
    close(reader).await;
    gate.add_permits(1);
    sent.ended().await.expect("succeeds");
    let last = json!({"notes": ["a null", "a again"]});
    assert_eq!(agents.get_state(&instance).await, Ok(last));
    close(agents).await;
}

async fn an_instance_waits_for_its_graph(place: Place) {
    let agents = open(&place).await;
    let instance = agents.create_graph_agent(&notes(), json!({}), options()).await;
    does(&agents, &instance.expect("created"), json!("a")).await.expect("succeeds");
    close(agents).await;

    // The graph is missing.
    let agents = open(&place).await;
    let sent = agents.send(id(), Activity::new(json!("b"))).await.expect("accepted");
    let sent = sent.activity().clone();
    let waits = info(&agents).await;
    assert_eq!((waits.status, waits.statistics.waiting), (InstanceStatus::Error, 1));
    let error = waits.error.expect("the graph is missing");
    assert_eq!((error.kind, error.code()), (Kind::GraphUnavailable, "W0645"));
    assert_eq!(error.fault.causes().count(), 1);
    let state = agents.get_state(id()).await;
    assert_eq!(state.expect_err("cannot be read").kind, Kind::GraphUnavailable);
    close(agents).await;

    // The graph is changed: it has another channel of the same name.
    let agents = open(&place).await;
    let channels = vec![weftwork::graph::ChannelDef::new(
        "notes",
        weftwork::graph::channel::LastValue::<serde_json::Value>::new(),
    )];
    let changed = Graph::<Dynamic>::dynamic("notes", channels);
    let changed = changed.node("note", async |_: Ctx| DynUpdate::new()).edge(START, "note");
    agents.host("app:notes", changed.build().expect("sound")).await.expect("hosted");
    agents.send(id(), Activity::new(json!("c"))).await.expect("accepted");
    let waits = info(&agents).await;
    assert_eq!((waits.status, waits.statistics.waiting), (InstanceStatus::Error, 2));
    close(agents).await;

    // The graph is back.
    let agents = open(&place).await;
    agents.host("app:notes", notes()).await.expect("hosted");
    agents.runtime().ended(agents.principal(), &sent).await.expect("ends");
    until(&agents, |info| info.statistics.waiting == 0 && info.statistics.running == 0).await;
    assert_eq!(info(&agents).await.status, InstanceStatus::Idle);
    let state = agents.get_state(id()).await.expect("reads");
    assert_eq!(state["notes"].as_array().map(Vec::len), Some(6), "{state}");
    close(agents).await;
}

async fn a_step_limit_is_an_error(place: Place) {
    let agents = open(&place).await;
    let run = RunOptions { step_limit: Some(1), ..RunOptions::default() };
    let instance = agents.create_graph_agent(&notes(), json!({}), options().run_options(run)).await;
    let error = does(&agents, &instance.expect("created"), json!("a")).await.expect_err("limited");
    assert_eq!((error.kind, error.code()), (Kind::StepLimit, "W0646"));
    close(agents).await;
    let agents = open(&place).await;
    agents.host("app:notes", notes()).await.expect("hosted");
    let failed = info(&agents).await;
    assert_eq!((failed.status, failed.statistics.failed), (InstanceStatus::Error, 1));
    close(agents).await;
}

on_three_stores![
    a_step_limit_is_an_error,
    the_payload_is_merged_with_the_configurable_entries,
    a_collision_with_the_payload_is_refused,
    each_superstep_is_published_and_the_last_one_stays,
    the_state_is_read_while_an_activity_is_executed,
    an_instance_waits_for_its_graph,
];
