//! Activities that are sent again.

use super::{Place, close, id, info, on_three_stores, open, options, until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityEnd, ActivityPayload, AgentRuntime, AgentRuntimeError,
    AgentRuntimeErrorKind as Kind, Hosting, OnQuestion, QueuedActivities, ReactAgent,
};
use weftwork::graph::SystemClock;
use weftwork::models::ModelError;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::run::CancelAction;
use weftwork::types::{Principal, RunId, Timestamp};

#[derive(Debug, State)]
struct Orders {
    done: u64,
}

/// Does as its payload says, or as the answer to its question says.
async fn order(
    orders: State<Orders>,
    _: Hosting,
    payload: ActivityPayload<String>,
    ctx: Ctx,
) -> NodeResult<OrdersUpdate> {
    let word = match payload.0.as_str() {
        "ask" => ctx.interrupt(json!("how?"))?,
        word => json!(word),
    };
    match word.as_str() {
        Some("fail") => Err(std::io::Error::other("no disk").into()),
        _ => Ok(OrdersUpdate::new().done(orders.done().copied().unwrap_or_default() + 1)),
    }
}

fn graph() -> CompiledGraph {
    let graph = Graph::<Orders>::new("orders").node("order", order).edge(START, "order");
    graph.build().expect("sound")
}

/// Sends an activity, and returns its id after it has ended, asks, or is stored.
async fn send(agents: &AgentRuntime, word: &str) -> RunId {
    let sent = agents.send(id(), Activity::new(json!(word))).await.expect("accepted");
    let ended = sent.ended().await;
    assert_eq!(ended.is_err(), word == "fail", "{ended:?}");
    assert_eq!(ended == Ok(ActivityEnd::Asks), word == "ask", "{ended:?}");
    sent.activity().run.clone()
}

async fn refused(agents: &AgentRuntime, activity: &RunId) -> String {
    let error = agents.letter(id(), activity).await.expect_err("is not over");
    assert_eq!(error.kind, Kind::InvalidState, "{error}");
    error.to_string()
}

async fn only_an_activity_that_did_not_succeed_is_sent_again(place: Place) {
    let agents = open(&place).await;
    agents.create_graph_agent(&graph(), json!({}), options()).await.expect("created");
    let done = send(&agents, "do").await;
    assert!(refused(&agents, &done).await.contains("succeeded; only a dead letter"));
    let failed = send(&agents, "fail").await;
    let letter = agents.letter(id(), &failed).await.expect("failed");
    assert_eq!((&letter.activity, letter.again.payload()), (&failed, &json!("fail")));
    let later = Timestamp(4_000_000_000_000);
    let later = agents.leave(id(), Activity::new(json!("do")).not_before(later)).await;
    let later = later.expect("accepted").activity().run.clone();
    assert!(refused(&agents, &later).await.contains("waits in the mailbox;"));
    let asks = send(&agents, "ask").await;
    assert!(refused(&agents, &asks).await.contains("waits for an answer or for a time;"));
    let thread = agents.runtime().thread("app:orders", "i-1").expect("hosted");
    let ended = thread.answer(json!("do")).await.expect("accepted");
    assert!(refused(&agents, &asks).await.contains("succeeded"));
    assert!(refused(&agents, &ended.run().run).await.contains(asks.as_str()));
    agents.terminate(id(), Duration::ZERO, QueuedActivities::Keep).await.expect("exists");
    assert!(refused(&agents, &later).await.contains("--dead-letter"));
    agents.terminate(id(), Duration::ZERO, QueuedActivities::DeadLetter).await.expect("exists");
    assert_eq!(agents.letter(id(), &later).await.expect("a dead letter").activity, later);
    close(agents).await;
}

async fn the_error_of_a_continuation_names_the_activity(place: Place) {
    let agents = open(&place).await;
    agents.create_graph_agent(&graph(), json!({}), options()).await.expect("created");
    let asks = send(&agents, "ask").await;
    let thread = agents.runtime().thread("app:orders", "i-1").expect("hosted");
    let ended = thread.answer(json!("fail")).await.expect("accepted");
    let error = info(&agents).await.error.expect("failed");
    let expected = format!("activity `{asks}` failed: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
    let letter = agents.letter(id(), &asks).await.expect("failed");
    assert_eq!(letter.failure.as_ref(), Some(&error));
    assert_eq!(agents.letter(id(), &ended.run().run).await, Ok(letter), "by either id");
    close(agents).await;
}

async fn an_activity_that_failed_in_its_aside_is_sent_again(place: Place) {
    let agents = open(&place).await;
    let options = options().on_question(OnQuestion::SetAside);
    agents.create_graph_agent(&graph(), json!({}), options).await.expect("created");
    let asks = send(&agents, "ask").await;
    until(&agents, |info| !info.set_aside.is_empty()).await;
    assert!(refused(&agents, &asks).await.contains("waits for an answer"));
    let aside = info(&agents).await.set_aside[0].thread.clone();
    let thread = agents.runtime().thread("app:orders", aside.as_str()).expect("hosted");
    thread.answer(json!("fail")).await.expect("accepted");
    let letter = agents.letter(id(), &asks).await.expect("failed");
    let failure: Option<AgentRuntimeError> = letter.failure;
    assert_eq!(failure.map(|failure| failure.kind), Some(Kind::Failed));
    close(agents).await;
}

/// The texts of the messages of the instance.
async fn texts(agents: &AgentRuntime) -> Vec<String> {
    let state = agents.get_state(id()).await.expect("reads");
    let messages = state["messages"].as_array().expect("a list").iter();
    messages.map(|message| message["parts"][0]["text"].as_str().unwrap_or("?").to_owned()).collect()
}

async fn a_message_that_is_sent_again_is_the_last_one(place: Place) {
    let agents = open(&place).await;
    let steps = ["one", "two"].map(Step::text);
    let refused = ModelError::Unsupported { model: "m".to_owned(), what: "a test".to_owned() };
    let steps = [vec![Step::fails(refused)], steps.to_vec()].concat();
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let clerk = ReactAgent::new("clerk", model).build().expect("sound");
    agents.create_graph_agent(&clerk, json!({}), options()).await.expect("created");
    let say = |text: &str| {
        let messages = json!({"messages": [Message::user(text)]});
        Activity::new(Value::Null).input(messages)
    };
    let sent = agents.send(id(), say("first")).await.expect("accepted");
    sent.ended().await.expect_err("the model fails");
    let other = agents.send(id(), say("second")).await.expect("accepted");
    other.ended().await.expect("succeeds");
    let letter = agents.letter(id(), &sent.activity().run).await.expect("failed");
    let again = letter.again.with_new_message_ids(&SystemClock::new());
    agents.send(id(), again).await.expect("accepted").ended().await.expect("succeeds");
    assert_eq!(texts(&agents).await, ["first", "second", "one", "first", "two"]);
    close(agents).await;
}

async fn a_repeated_termination_reports_all_that_was_cancelled(place: Place) {
    let agents = open(&place).await;
    agents.create_graph_agent(&graph(), json!({}), options()).await.expect("created");
    send(&agents, "ask").await;
    let mut behind = Vec::new();
    for priority in [1, 2, 1] {
        let activity = Activity::new(json!("do")).priority(priority);
        behind.push(agents.send(id(), activity).await.expect("accepted"));
    }
    // One is cancelled before: it is no dead letter.
    let before = behind.remove(2);
    let who = Principal::local();
    let cancelled = agents.runtime().cancel_run(&who, before.activity(), CancelAction::Interrupt);
    cancelled.await.expect("waits");
    before.ended().await.expect_err("is cancelled");
    tokio::time::sleep(Duration::from_millis(2)).await;

    // The process dies after the termination was stored, or after it has ended some of them.
    let first = agents.terminate(id(), Duration::ZERO, QueuedActivities::DeadLetter).await;
    let first = first.expect("exists");
    let ids: Vec<_> = first.dead_lettered.iter().map(|letter| &letter.activity).collect();
    assert_eq!(ids, [&behind[1].activity().run, &behind[0].activity().run]);
    assert!(first.asking.is_some());
    close(agents).await;
    let agents = open(&place).await;
    for queued in [QueuedActivities::Keep, QueuedActivities::DeadLetter] {
        let repeated = agents.terminate(id(), Duration::ZERO, queued).await;
        assert_eq!(repeated.expect("exists"), first);
    }
    close(agents).await;
}

on_three_stores![
    a_message_that_is_sent_again_is_the_last_one,
    a_repeated_termination_reports_all_that_was_cancelled,
    an_activity_that_failed_in_its_aside_is_sent_again,
    only_an_activity_that_did_not_succeed_is_sent_again,
    the_error_of_a_continuation_names_the_activity,
];
