use crate::desk::{Desk, messages, open, thread, tool_events};
use serde_json::json;
use weftwork_models::scripted::Step;
use weftwork_types::Principal;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::CallState;
use weftwork_types::run::RunOutcome;

fn refund() -> Step {
    Step::call("refund_order", json!({"order_id": "A1", "amount": 25}))
}

fn approval(events: &[weftwork_types::event::RunEvent]) -> serde_json::Value {
    let request = events.iter().find_map(|e| match &e.event {
        AiEvent::HumanInputRequired { ask: Ask::Approval(request), .. } => Some(request),
        _ => None,
    });
    json!(request.expect("an approval is asked for").binding)
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_is_read() {
    let desk = Desk::new(vec![
        Step::call("lookup_order", json!({"order_id": "A1"})),
        Step::text("It is on its way."),
    ])
    .await;
    let (events, outcome) = desk.say("Where is A1?").await;
    let said = messages(&outcome);
    assert_eq!(said.len(), 4, "user, call, result, answer");
    assert_eq!(said[3].joined_text(), "It is on its way.");
    assert_eq!(tool_events(&events), ["start lookup_order", "result error=false"]);
}

#[tokio::test]
async fn an_effect_waits_for_approval_across_processes_and_happens_once() {
    let desk = Desk::new(vec![refund()]).await;
    let (events, outcome) = desk.say("Refund A1.").await;
    let id = open(&outcome)[0];
    let binding = approval(&events);
    assert_eq!(desk.refunded(), 0);
    assert!(tool_events(&events).is_empty(), "nothing was called yet");

    let desk = desk.reopened(vec![Step::text("Refunded.")]).await;
    let other = json!({"approved": true, "binding": "0".repeat(64)});
    assert_eq!(desk.refused(id, other).await, "W0127", "a decision about something else");
    let yes = json!({"approved": true, "binding": binding});
    let (events, outcome) = desk.answer(id, yes).await;
    assert_eq!(messages(&outcome).last().expect("answer").joined_text(), "Refunded.");
    assert_eq!(desk.refunded(), 1);
    assert_eq!(tool_events(&events), ["start refund_order", "result error=false"]);
    let calls = desk.store.calls(&Principal::local(), &thread()).await.expect("reads");
    assert!(calls.iter().all(|call| call.state == CallState::Settled && call.made == 1));
    assert_eq!(calls.len(), 3, "two answers of the model, one refund: {calls:#?}");
}

#[tokio::test]
async fn a_refusal_is_told_to_the_model_with_the_reason() {
    let desk = Desk::new(vec![refund(), Step::text("I may not.")]).await;
    let (events, outcome) = desk.say("Refund A1.").await;
    let no = json!({"approved": false, "binding": approval(&events), "comment": "too much"});
    let (_, outcome) = desk.answer(open(&outcome)[0], no).await;
    let said = messages(&outcome);
    let result = said[2].tool_results().next().expect("a result");
    assert!(result.is_error && result.value.to_string().contains("too much"));
    assert_eq!(desk.refunded(), 0);
}

#[tokio::test]
async fn a_question_waits_while_the_calls_beside_it_run() {
    let desk = Desk::new(vec![
        Step::calls(vec![
            ("ask_human".to_owned(), json!({"question": "Which order?"})),
            ("lookup_order".to_owned(), json!({"order_id": "A1"})),
        ]),
        Step::text("Thanks."),
    ])
    .await;
    let (events, outcome) = desk.say("Help.").await;
    assert_eq!(tool_events(&events), ["start lookup_order", "result error=false"]);
    assert_eq!(desk.model.calls(), 1, "the model is not asked with an open call");
    let (events, outcome) = desk.answer(open(&outcome)[0], json!("A2")).await;
    assert_eq!(tool_events(&events), ["start ask_human", "result error=false"]);
    let said = messages(&outcome);
    let values: Vec<_> =
        said.iter().flat_map(|m| m.tool_results()).map(|r| r.value.clone()).collect();
    assert_eq!(values[0], json!("A2"), "results stand in the order of the calls");
    assert_eq!(said.last().expect("answer").joined_text(), "Thanks.");
}

#[tokio::test]
async fn something_new_instead_of_an_answer_closes_the_open_call() {
    let desk = Desk::new(vec![refund(), Step::text("All right.")]).await;
    let (_, outcome) = desk.say("Refund A1.").await;
    open(&outcome);
    let (_, outcome) = desk.say("No, forget it.").await;
    assert_eq!(messages(&outcome).last().expect("answer").joined_text(), "All right.");
    assert_eq!(desk.refunded(), 0);
}

#[tokio::test]
async fn bad_arguments_go_back_to_the_model_but_not_for_ever() {
    let bad = || Step::call("lookup_order", json!({"order": 7}));
    let desk = Desk::new(vec![
        bad(),
        Step::call("lookup_order", json!({"order_id": "A1"})),
        Step::text("Found."),
    ])
    .await;
    let (events, outcome) = desk.say("Where is A1?").await;
    assert_eq!(messages(&outcome).last().expect("answer").joined_text(), "Found.");
    assert_eq!(tool_events(&events)[1], "result error=true");

    let desk = Desk::new((0..9).map(|_| bad()).collect()).await;
    match desk.say("Where is A1?").await.1 {
        RunOutcome::Failed { fault } => assert_eq!(fault.code, "W0602"),
        other => panic!("expected a failed run, got {other:?}"),
    }
    assert_eq!(desk.model.calls(), 4, "the first and three repairs");
}
