//! Hidden members of results and secret arguments in activities: the model and the nodes read them,
//! and no state, event, question or error of an instance has them.

use super::{Place, close, does, id, info, on_three_stores, open, open_with, options, until};
use crate::redaction::CANARY;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityPayload, AgentRuntime, AgentRuntimeError, AgentRuntimeErrorKind as Kind,
    Hosting, InstanceEvent, InstanceEventKind, InstanceStatus, OnQuestion,
};
use weftwork::graph::NodeError;
use weftwork::models::{ModelError, RefusalKind};
use weftwork::prelude::*;
use weftwork::runtime::FollowFrom;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{FnTool, ToolContext};
use weftwork::types::approval::{ApprovalDecision, Verdict};
use weftwork::types::interrupt::{Ask, Interrupt};

#[derive(Debug, Serialize, JsonSchema)]
struct Order {
    id: String,
    card: String,
}

/// A tool with a member of its result that only models and nodes read.
fn find_order() -> impl weftwork::tools::Tool + 'static {
    let find = |_: BTreeMap<String, String>, _: ToolContext| async {
        Ok::<_, String>(Order { id: "A-1".to_owned(), card: CANARY.to_owned() })
    };
    FnTool::new("find_order", "Finds an order.", find).shown(["id"])
}

/// Pays an order.
#[tool(effect = external_side_effect)]
fn pay(order: String, #[arg(secret)] code: String) -> String {
    assert_eq!(code, CANARY);
    format!("paid {order}")
}

#[derive(Debug, State)]
struct Desk {
    #[channel(messages)]
    messages: List<Message>,
    #[channel(error)]
    error: Option<AgentRuntimeError>,
}

/// Answers of the model, with the number of requests that had the hidden value.
struct Script {
    steps: Mutex<std::vec::IntoIter<Step>>,
    read: AtomicU32,
}

fn desk(script: &Arc<Script>) -> CompiledGraph {
    let script = Arc::clone(script);
    let model = ScriptedModel::from_fn(move |request| {
        let has = json!(request.messages).to_string().contains(CANARY);
        script.read.fetch_add(u32::from(has), Ordering::SeqCst);
        script.steps.lock().expect("no panic").next().unwrap_or_else(|| Step::text("Done."))
    });
    let policy = Policy::new().ask_human("pay", "it moves money").expect("sound");
    let tools = ToolBox::new().with(find_order()).with(pay);
    let desk = ReactAgent::with_state::<Desk>("desk", model).tools(tools).policy(policy);
    desk.build().expect("sound")
}

fn steps() -> Vec<Step> {
    let refused = ModelError::BadRequest {
        provider: "scripted".to_owned(),
        status: 400,
        message: format!("A-1 has the wrong card {CANARY}"),
        kind: RefusalKind::InvalidRequest,
    };
    vec![
        Step::call("find_order", json!({"order": "last"})),
        Step::text("It is on its way."),
        Step::fails(refused),
        Step::call("pay", json!({"order": "A-1", "code": CANARY})),
        Step::text("It is paid."),
    ]
}

#[track_caller]
fn hides(value: &(impl Debug + Serialize + ?Sized)) {
    let text = format!("{value:?} {}", json!(value));
    assert!(text.contains("A-1") && !text.contains(CANARY), "{text}");
}

async fn say(agents: &AgentRuntime, number: u32) -> Result<(), AgentRuntimeError> {
    let said = json!({"messages": [{"id": format!("u{number}"), "role": "user",
        "parts": [{"type": "text", "text": "Go on."}]}]});
    let activity = Activity::new(json!(number)).input(said);
    agents.send(id(), activity).await?.ended().await.map(drop)
}

/// The events of an instance from its creation to the end of its last activity.
async fn events(agents: &AgentRuntime, ends: usize) -> Vec<InstanceEvent> {
    let mut stream = agents.subscribe_from(id(), FollowFrom::Start).await.expect("exists");
    let mut events = Vec::new();
    let mut ended = 0;
    while ended < ends {
        let event = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
        let event = event.expect("in time").expect("goes on").expect("no error");
        ended += usize::from(matches!(event.kind, InstanceEventKind::Ended { .. }));
        events.push(event);
    }
    events
}

/// The open question, with the name of its thread.
async fn asked(agents: &AgentRuntime, on: OnQuestion) -> (String, Interrupt) {
    if on == OnQuestion::Hold {
        until(agents, |info| info.status == InstanceStatus::Asking).await;
        let info = info(agents).await;
        hides(&info);
        return (id().to_string(), info.questions[0].clone());
    }
    until(agents, |info| !info.set_aside.is_empty()).await;
    let info = info(agents).await;
    hides(&info);
    (info.set_aside[0].thread.to_string(), info.set_aside[0].questions[0].clone())
}

async fn an_agent_hides_them(place: &Place, on: OnQuestion) {
    let steps = Mutex::new(steps().into_iter());
    let script = Arc::new(Script { steps, read: AtomicU32::new(0) });
    let agents = open(place).await;
    let options = || options().on_question(on);
    agents.create_graph_agent(&desk(&script), json!({}), options()).await.expect("created");
    say(&agents, 1).await.expect("succeeds");
    assert_eq!(script.read.load(Ordering::SeqCst), 1, "the model reads what is not shown");
    hides(&agents.get_state(id()).await.expect("reads"));

    let error = say(&agents, 2).await.expect_err("the provider refuses");
    hides(&error);
    let failed = info(&agents).await;
    assert_eq!(failed.status, InstanceStatus::Error);
    hides(&failed.error);
    let state = agents.get_state(id()).await.expect("reads");
    hides(&state["error"]);
    hides(&state);

    say(&agents, 3).await.expect("ends at its question");
    let (thread, question) = asked(&agents, on).await;
    hides(&question);
    // The run that wrote the state, and three activities.
    let seen = events(&agents, 4).await;
    hides(&seen);
    close(agents).await;

    // Another process reads the same from the store.
    let agents = open(place).await;
    agents.create_graph_agent(&desk(&script), json!({}), options()).await.expect("exists");
    hides(&agents.get_state(id()).await.expect("reads"));
    hides(&asked(&agents, on).await.1);
    hides(&events(&agents, 4).await);
    let Ask::Approval(request) = question.ask else { panic!("{question:?}") };
    let thread = agents.runtime().thread("app:desk", thread).expect("hosted");
    let decision = json!(ApprovalDecision::new(request.binding, Verdict::Approve));
    let ended = thread.answer(decision).await.expect("accepted");
    hides(ended.output().expect("the payment has the code"));
    hides(&agents.get_state(id()).await.expect("reads"));
    close(agents).await;
}

async fn an_agent_hides_them_while_it_holds(place: Place) {
    an_agent_hides_them(&place, OnQuestion::Hold).await;
}

async fn an_agent_hides_them_when_it_is_set_aside(place: Place) {
    an_agent_hides_them(&place, OnQuestion::SetAside).await;
}

#[derive(Debug, State)]
struct Work {
    #[channel(append)]
    found: List<String>,
    #[channel(error)]
    error: Option<AgentRuntimeError>,
}

/// Reads a result with a hidden member, and fails with it in the way that the payload names.
async fn work(hosting: Hosting, payload: ActivityPayload<String>) -> NodeResult<WorkUpdate> {
    let found = hosting.run(async |logic| logic.call_tool("find_order", json!({})).await).await?;
    assert_eq!(found.value["card"], CANARY, "a node reads the whole value");
    let text = format!("order A-1 has the card {CANARY}");
    match payload.0.as_str() {
        "node" => Err(NodeError::message(text)),
        "source" => Err(std::io::Error::other(std::io::Error::other(text)).into()),
        "logic" => {
            let failed = hosting.run(async move |_| Err(std::io::Error::other(text)));
            failed.await.map_err(NodeError::from)
        }
        "panic" => panic!("{text}"),
        "panic of logic" => {
            let failed = hosting.run(async move |_| -> NodeResult<WorkUpdate> { panic!("{text}") });
            failed.await.map_err(NodeError::from)
        }
        _ => Ok(WorkUpdate::new().found([found.value["id"].to_string()])),
    }
}

async fn errors_of_nodes_and_logic_hide_them(place: Place) {
    let graph = || Graph::<Work>::new("work").node("work", work).edge(START, "work").build();
    let open = async || open_with(&place, ToolBox::new().with(find_order())).await;
    let agents = open().await;
    let created = agents.create_graph_agent(&graph().expect("sound"), json!({}), options()).await;
    let instance = created.expect("created");
    let cases = [
        ("node", Kind::Failed),
        ("source", Kind::Failed),
        ("logic", Kind::Logic),
        ("panic", Kind::Panicked),
        ("panic of logic", Kind::Panicked),
    ];
    for (payload, kind) in cases {
        let error = does(&agents, &instance, json!(payload)).await.expect_err("fails");
        assert_eq!(error.kind, kind, "{payload}: {error:?}");
        hides(&error);
        let shown = info(&agents).await.error.expect("is shown");
        assert_eq!(shown, error, "{payload}");
        assert_eq!(agents.get_state(id()).await.expect("reads")["error"], json!(error));
    }
    let ends = 1 + cases.len();
    hides(&events(&agents, ends).await);
    close(agents).await;

    let agents = open().await;
    agents.host("app:work", graph().expect("sound")).await.expect("hosted");
    hides(&info(&agents).await);
    hides(&events(&agents, ends).await);
    does(&agents, &agents.handle(&id()), json!("found")).await.expect("succeeds");
    let state: Value = agents.get_state(id()).await.expect("reads");
    assert_eq!(state, json!({"found": ["\"A-1\""], "error": null}));
    close(agents).await;
}

on_three_stores![
    an_agent_hides_them_when_it_is_set_aside,
    an_agent_hides_them_while_it_holds,
    errors_of_nodes_and_logic_hide_them,
];
