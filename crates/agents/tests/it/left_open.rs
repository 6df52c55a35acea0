//! Calls that are left open when the conversation goes on: their outcomes come from the record.

use crate::desk::{Desk, agent, messages, open, said};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::run_loop::{Answers, Host, InMemoryCheckpointer, Start, StartCommand};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::Message;
use weftwork_types::run::{RunInput, RunOutcome};

pub(crate) fn refund(order: &str) -> (String, Value) {
    ("refund_order".to_owned(), json!({"order_id": order, "amount": 5}))
}

/// A message with two refunds, a read and a question.
fn calls() -> Step {
    let read = ("lookup_order".to_owned(), json!({"order_id": "A3"}));
    let question = ("ask_human".to_owned(), json!({"question": "Why?"}));
    Step::calls(vec![refund("A1"), read, refund("A2"), question])
}

pub(crate) fn approval(ask: &Ask) -> Option<(String, Value)> {
    let Ask::Approval(request) = ask else { return None };
    let order = request.args["order_id"].as_str().expect("an order").to_owned();
    Some((order, json!({"approved": true, "binding": request.binding})))
}

/// Results by the order of their calls: the value, or the code of the error.
pub(crate) fn results(messages: &[Message]) -> Vec<String> {
    let calls = messages.iter().flat_map(Message::tool_calls);
    let result = |id| {
        let mut found =
            messages.iter().flat_map(Message::tool_results).filter(|r| r.tool_call_id == id);
        let only = found.next().expect("a result");
        assert!(found.next().is_none(), "one result a call: {messages:?}");
        let code = only.value["code"].as_str().or(only.value.as_str());
        code.map_or_else(|| only.value.to_string(), str::to_owned)
    };
    calls.map(|call| result(call.id.clone())).collect()
}

#[tokio::test]
async fn results_on_record_join_the_conversation_when_the_person_says_something_new() {
    for restart in [false, true] {
        let mut desk = Desk::new(vec![calls(), Step::text("It is sunny.")]).await;
        let (_, outcome) = desk.say("Refund both.").await;
        assert_eq!(open(&outcome).len(), 3);
        let questions = desk.open_questions().await;
        let first = questions.iter().find_map(|(id, ask)| {
            approval(ask).filter(|(order, _)| order == "A1").map(|(_, answer)| (*id, answer))
        });
        let (id, answer) = first.expect("the approval of the first refund");
        let (_, outcome) = desk.answer(id, answer).await;
        assert_eq!((open(&outcome).len(), desk.refunded()), (2, 1));
        if restart {
            desk = desk.reopened(vec![Step::text("It is sunny.")]).await;
        }
        let (_, outcome) = desk.say("How is the weather?").await;
        let messages = messages(&outcome);
        let expected = ["refunded 5 for A1", "order A3 is on its way", "W0418", "W0418"];
        assert_eq!(results(&messages), expected);
        assert_eq!(desk.refunded(), 1);
        let texts: Vec<String> = messages.iter().rev().take(2).map(Message::joined_text).collect();
        assert_eq!(texts, ["It is sunny.", "How is the weather?"]);
        assert!(desk.open_questions().await.is_empty());
    }
}

#[tokio::test]
async fn results_join_the_conversation_of_a_run_of_this_process() {
    let steps = vec![calls(), Step::text("It is sunny.")];
    let refunds = Arc::default();
    let graph = agent(Arc::new(ScriptedModel::from_steps(steps)), Arc::clone(&refunds));
    let host = Host::new().with_checkpointer(Arc::new(InMemoryCheckpointer::default()));
    let run = graph.run(&host, Start::from(said("Refund both."))).thread("t").finish().await;
    let RunOutcome::Interrupted { questions, .. } = run.expect("runs").outcome() else {
        panic!("it asks")
    };
    let first = questions.iter().find_map(|question| {
        approval(&question.ask).filter(|(order, _)| order == "A1").map(|(_, a)| (question.id, a))
    });
    let answers: BTreeMap<_, _> = first.into_iter().collect();
    let resume = Some(Answers::ById(answers));
    let start = Start::Command(StartCommand { resume, ..StartCommand::default() });
    let run = graph.run(&host, start).thread("t").finish().await;
    assert!(matches!(run.expect("runs").outcome(), RunOutcome::Interrupted { .. }));
    let run = graph.run(&host, Start::from(said("How is the weather?"))).thread("t").finish();
    let outcome = run.await.expect("runs").outcome();
    let expected = ["refunded 5 for A1", "order A3 is on its way", "W0418", "W0418"];
    assert_eq!(results(&messages(&outcome)), expected);
}

/// Only the calls without a result are due after a change of the state.
#[tokio::test]
async fn calls_that_were_made_are_not_due_again_after_a_change() {
    for (writes, as_node) in [(Value::Null, None), (json!({}), Some("model"))] {
        let desk = Desk::new(vec![calls(), Step::text("Done.")]).await;
        desk.say("Refund both.").await;
        let questions = desk.open_questions().await;
        let first = questions.iter().find_map(|(id, ask)| {
            approval(ask).filter(|(order, _)| order == "A1").map(|(_, answer)| (*id, answer))
        });
        let (id, answer) = first.expect("the approval of the first refund");
        desk.answer(id, answer).await;
        let as_node = as_node.map(str::to_owned);
        let (_, changed) = desk.run(RunInput::Update { writes, as_node: as_node.clone() }).await;
        assert!(matches!(changed, RunOutcome::Completed { .. }), "{changed:?}");
        let (_, outcome) = desk.run(RunInput::Continue).await;
        assert_eq!(open(&outcome).len(), 2, "{as_node:?}");
        let asked = desk.open_questions().await;
        let orders = asked.iter().filter_map(|(_, ask)| Some(approval(ask)?.0));
        assert_eq!(orders.collect::<Vec<_>>(), ["A2"], "{as_node:?}");
        let (_, outcome) = desk.say("How is the weather?").await;
        let expected = ["refunded 5 for A1", "order A3 is on its way", "W0418", "W0418"];
        assert_eq!(results(&messages(&outcome)), expected, "{as_node:?}");
        assert_eq!(desk.refunded(), 1);
    }
}

/// A call that was not begun is never told as one that may have been made.
#[tokio::test]
async fn calls_that_a_change_drops_are_closed_from_the_record() {
    let state = json!({"messages": []});
    let changes = [
        (state, "__state__"),
        (Value::Null, "__end__"),
        (json!({}), "__input__"),
        (json!({}), "model"),
    ];
    for (writes, as_node) in changes {
        let desk = Desk::new(vec![calls(), Step::text("It is sunny.")]).await;
        desk.say("Refund both.").await;
        let questions = desk.open_questions().await;
        let first = questions.iter().find_map(|(id, ask)| {
            approval(ask).filter(|(order, _)| order == "A1").map(|(_, answer)| (*id, answer))
        });
        let (id, answer) = first.expect("the approval of the first refund");
        desk.answer(id, answer).await;
        let as_node = Some(as_node.to_owned());
        let (_, changed) = desk.run(RunInput::Update { writes, as_node: as_node.clone() }).await;
        assert!(matches!(changed, RunOutcome::Completed { .. }), "{changed:?}");
        let (_, outcome) = desk.say("How is the weather?").await;
        let expected = ["refunded 5 for A1", "order A3 is on its way", "W0418", "W0418"];
        assert_eq!(results(&messages(&outcome)), expected, "{as_node:?}");
        assert_eq!(desk.refunded(), 1, "{as_node:?}");
    }
}
