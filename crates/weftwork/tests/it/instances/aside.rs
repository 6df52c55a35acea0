//! The rest of an activity after its answer, whether it held its mailbox or was set aside.

use super::{Place, close, id, info, on_three_stores, open, options, until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork::agents::{
    Activity, AgentRuntime, Hosting, InstanceStatus, OnQuestion, QueuedActivities, ReactAgent,
};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::Policy;
use weftwork::types::approval::{ApprovalDecision, Verdict};
use weftwork::types::interrupt::{Ask, Interrupt};
use weftwork::types::{Principal, ThreadId};

#[derive(Debug, State)]
struct Notes {
    #[channel(append)]
    lines: List<String>,
}

/// Asks, and writes after the answer which activity of which instance it is.
async fn names(hosting: Hosting, ctx: Ctx) -> NodeResult<NotesUpdate> {
    ctx.interrupt(json!("go on?"))?;
    Ok(NotesUpdate::new().lines([format!("{} of {}", hosting.activity(), hosting.instance())]))
}

fn notes() -> CompiledGraph {
    let graph = Graph::<Notes>::new("notes").node("names", names).edge(START, "names");
    graph.build().expect("sound")
}

/// The open question of the activity that asks, with its thread.
async fn asked(agents: &AgentRuntime, on: OnQuestion) -> (ThreadId, Interrupt) {
    if on == OnQuestion::Hold {
        until(agents, |info| info.status == InstanceStatus::Asking).await;
        let questions = info(agents).await.questions;
        return (ThreadId::from(&id()), questions[0].clone());
    }
    until(agents, |info| !info.set_aside.is_empty()).await;
    let aside = info(agents).await.set_aside.remove(0);
    (aside.thread, aside.questions[0].clone())
}

async fn of_its_instance(place: &Place, on: OnQuestion) {
    let agents = open(place).await;
    let options = options().on_question(on);
    agents.create_graph_agent(&notes(), json!({}), options.clone()).await.expect("created");
    let sent = agents.send(id(), Activity::new(json!(null))).await.expect("accepted");
    let thread = asked(&agents, on).await.0;
    close(agents).await;

    let agents = open(place).await;
    agents.create_graph_agent(&notes(), json!({}), options).await.expect("exists");
    let thread = agents.runtime().thread("app:notes", thread.as_str()).expect("hosted");
    let ended = thread.answer(json!("yes")).await.expect("accepted");
    let line = format!("{} of {}", sent.activity().run, id());
    assert_eq!(ended.output().expect("completed")["lines"], json!([line]), "{on:?}");
    close(agents).await;
}

async fn a_new_instance_of_the_same_id_has_no_asides_of_the_one_before(place: Place) {
    let agents = open(&place).await;
    let options = options().on_question(OnQuestion::SetAside);
    agents.create_graph_agent(&notes(), json!({}), options.clone()).await.expect("created");
    agents.send(id(), Activity::new(json!(null))).await.expect("accepted");
    let thread = asked(&agents, OnQuestion::SetAside).await.0;
    agents.terminate(id(), Duration::ZERO, QueuedActivities::Keep).await.expect("terminates");
    let instance = ThreadId::from(&id());
    agents.store().delete_thread(&Principal::local(), &instance).await.expect("deletes");
    agents.create_graph_agent(&notes(), json!({}), options).await.expect("another one");
    assert_eq!(info(&agents).await.set_aside, []);
    let thread = agents.runtime().thread("app:notes", thread.as_str()).expect("hosted");
    assert_eq!(thread.questions().await.expect("reads").len(), 1, "it stays, and is answered");
    close(agents).await;
}

async fn what_holds_goes_on_as_the_same_activity(place: Place) {
    of_its_instance(&place, OnQuestion::Hold).await;
}

async fn what_is_set_aside_goes_on_as_the_same_activity(place: Place) {
    of_its_instance(&place, OnQuestion::SetAside).await;
}

static REFUNDS: AtomicU32 = AtomicU32::new(0);

/// Makes a refund.
#[tool]
async fn refund(cents: u32) -> Result<u32, std::io::Error> {
    REFUNDS.fetch_add(1, Ordering::SeqCst);
    Ok(cents)
}

async fn an_approval_in_an_aside_is_given_once(place: Place) {
    let agents = open(&place).await;
    let steps = vec![Step::call("refund", json!({"cents": 5})), Step::text("Done.")];
    let clerk = ReactAgent::new("clerk", Arc::new(ScriptedModel::from_steps(steps)));
    let policy = Policy::new().ask_human("refund", "it moves money").expect("sound");
    let clerk = clerk.tools(ToolBox::new().with(refund)).policy(policy).build().expect("sound");
    let options = options().on_question(OnQuestion::SetAside);
    agents.create_graph_agent(&clerk, json!({}), options).await.expect("created");
    let message = json!({"messages": [{"role": "user", "content": "refund it"}]});
    let before = REFUNDS.load(Ordering::SeqCst);
    agents.send(id(), Activity::new(json!(null)).input(message)).await.expect("accepted");
    let (thread, question) = asked(&agents, OnQuestion::SetAside).await;
    let Ask::Approval(request) = question.ask else { panic!("{question:?}") };
    let thread = agents.runtime().thread("app:clerk", thread.as_str()).expect("hosted");
    let decision = json!(ApprovalDecision::new(request.binding, Verdict::Approve));
    let ended = thread.answer(decision).await.expect("accepted");
    let messages = ended.output().expect("completed")["messages"].clone();
    assert_eq!(REFUNDS.load(Ordering::SeqCst) - before, 1, "{messages}");
    close(agents).await;
}

on_three_stores![
    a_new_instance_of_the_same_id_has_no_asides_of_the_one_before,
    an_approval_in_an_aside_is_given_once,
    what_holds_goes_on_as_the_same_activity,
    what_is_set_aside_goes_on_as_the_same_activity,
];
