//! Tests of the agent with a tool that asks.

use crate::desk::{Desk, messages, open, tool_events};
use serde_json::{Value, json};
use weftwork_models::scripted::Step;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::Message;
use weftwork_types::run::RunOutcome;

fn book() -> Step {
    Step::call("book_table", json!({"day": "monday"}))
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn questions(events: &[RunEvent]) -> Vec<(String, Option<String>)> {
    let question = |event: &RunEvent| match &event.event {
        AiEvent::HumanInputRequired { ask: Ask::Question { question, tool, .. }, .. } => {
            Some((question.clone(), tool.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(question).collect()
}

fn result(outcome: &RunOutcome) -> Value {
    let said = messages(outcome);
    let result = said.iter().flat_map(Message::tool_results).next();
    result.expect("a result").value.clone()
}

#[tokio::test]
async fn a_tool_asks_twice_and_each_round_is_made_once_across_processes() {
    let desk = Desk::new(vec![book()]).await;
    let (events, outcome) = desk.say("Book a table.").await;
    let from_tool = |text: &str| vec![(text.to_owned(), Some("book_table".to_owned()))];
    assert_eq!(questions(&events), from_tool("How many guests on monday?"));
    assert_eq!(tool_events(&events), ["start book_table"]);

    let desk = desk.reopened(Vec::new()).await;
    let id = open(&outcome)[0];
    for wrong in [json!(2), accept(json!("two")), json!({"action": "accept"})] {
        assert_eq!(desk.refused(id, wrong).await, "W0127");
    }
    let (events, outcome) = desk.answer(id, accept(json!(2))).await;
    assert_eq!(questions(&events), from_tool("2 guests: which name?"));
    assert!(tool_events(&events).is_empty(), "the call is open: {events:?}");
    assert_eq!(desk.rounds(), 2);

    let desk = desk.reopened(vec![Step::text("Booked.")]).await;
    let (events, outcome) = desk.answer(open(&outcome)[0], accept(json!("Ada"))).await;
    assert_eq!(tool_events(&events), ["result error=false"]);
    assert_eq!(result(&outcome), json!("monday, 2, Ada"));
    assert_eq!(desk.rounds(), 3, "the first process, the second, the third");
}

#[tokio::test]
async fn a_person_declines_or_cancels_and_the_tool_decides() {
    for action in ["decline", "cancel"] {
        let desk = Desk::new(vec![book(), Step::text("As you wish.")]).await;
        let (_, outcome) = desk.say("Book a table.").await;
        let (events, outcome) = desk.answer(open(&outcome)[0], json!({"action": action})).await;
        assert_eq!(tool_events(&events), ["result error=false"]);
        assert_eq!(result(&outcome), json!("nothing was booked"));
    }
}

#[tokio::test]
async fn questions_of_several_calls_of_one_message_wait_beside_each_other() {
    let both = Step::calls(vec![
        ("book_table".to_owned(), json!({"day": "monday"})),
        ("book_table".to_owned(), json!({"day": "friday"})),
        ("ask_human".to_owned(), json!({"question": "Indoors?"})),
        ("lookup_order".to_owned(), json!({"order_id": "A1"})),
    ]);
    let mut desk = Desk::new(vec![both]).await;
    let (events, mut outcome) = desk.say("Book tables.").await;
    let mut asked = questions(&events);
    asked.sort();
    let texts: Vec<&str> = asked.iter().map(|(text, _)| text.as_str()).collect();
    let expected = ["How many guests on friday?", "How many guests on monday?", "Indoors?"];
    assert_eq!(texts, expected);
    let mut steps = 0;
    while let RunOutcome::Interrupted { .. } = &outcome {
        // The last question first: answers go to their calls in any order.
        let (id, ask) = desk.open_questions().await.pop().expect("a question");
        let answer = match &ask {
            Ask::Question { tool: None, .. } => json!("yes"),
            Ask::Question { question, .. } if question.starts_with("How") => accept(json!(2)),
            _ => accept(json!("Ada")),
        };
        desk = desk.reopened(vec![Step::text("Booked.")]).await;
        outcome = desk.answer(id, answer).await.1;
        steps += 1;
    }
    let said = messages(&outcome);
    let results: Vec<Value> =
        said.iter().flat_map(Message::tool_results).map(|r| r.value.clone()).collect();
    let expected = ["monday, 2, Ada", "friday, 2, Ada", "yes", "order A1 is on its way"];
    assert_eq!((results, steps), (expected.map(Value::from).to_vec(), 5));
    assert_eq!(desk.rounds(), 6, "three rounds of two calls");
}

#[tokio::test]
async fn an_approved_tool_asks() {
    let desk = Desk::new(vec![Step::call("refund_by", json!({"order_id": "A1"}))]).await;
    let (_, outcome) = desk.say("Refund A1.").await;
    let (id, ask) = desk.open_questions().await.remove(0);
    let Ask::Approval(request) = ask else { panic!("{ask:?}") };
    assert_eq!(open(&outcome), [id]);
    let yes = json!({"approved": true, "binding": request.binding});
    let (events, outcome) = desk.answer(id, yes).await;
    assert_eq!(tool_events(&events), ["start refund_by"]);
    assert_eq!(questions(&events)[0].0, "By which means?");
    let desk = desk.reopened(vec![Step::text("Done.")]).await;
    let (events, outcome) = desk.answer(open(&outcome)[0], accept(json!("cash"))).await;
    assert_eq!(tool_events(&events), ["result error=false"]);
    assert_eq!((result(&outcome), desk.refunded()), (json!("A1 by cash"), 1));
}
