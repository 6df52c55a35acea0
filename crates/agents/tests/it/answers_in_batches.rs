//! Several calls of one message that wait for answers: each is made once, on its own answer.

use crate::desk::{Desk, messages, open};
use crate::left_open::{approval, refund, results};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_models::scripted::Step;
use weftwork_types::InterruptId;
use weftwork_types::interrupt::Ask;
use weftwork_types::run::RunInput;

const ORDERS: [&str; 2] = ["A1", "A2"];

fn two_refunds() -> Vec<Step> {
    vec![Step::calls(ORDERS.map(refund).into()), Step::text("Done.")]
}

/// The question about the refund of an order, and the answer that approves it.
async fn asked(desk: &Desk, order: &str) -> (InterruptId, Value) {
    let questions = desk.open_questions().await;
    let found = questions.iter().find_map(|(id, ask)| {
        approval(ask).filter(|(about, _)| about == order).map(|(_, answer)| (*id, answer))
    });
    found.expect("it is asked")
}

#[tokio::test]
async fn equal_tools_are_approved_one_after_the_other_in_any_order() {
    for [first, second] in [["A1", "A2"], ["A2", "A1"]] {
        let mut desk = Desk::new(two_refunds()).await;
        desk.say("Refund both.").await;
        let (id, answer) = asked(&desk, first).await;
        let (_, outcome) = desk.answer(id, answer.clone()).await;
        assert_eq!((open(&outcome).len(), desk.refunded()), (1, 1));
        desk = desk.reopened(vec![Step::text("Done.")]).await;
        // The answered question is neither asked again nor answered twice.
        let (_, outcome) = desk.run(RunInput::Continue).await;
        let (other, yes) = asked(&desk, second).await;
        assert_eq!((open(&outcome), desk.refunded()), (vec![other], 1));
        assert_eq!(desk.refused(id, answer).await, "W0204");
        let (_, outcome) = desk.answer(other, yes).await;
        assert_eq!(results(&messages(&outcome)), ["refunded 5 for A1", "refunded 5 for A2"]);
        assert_eq!(desk.refunded(), 2);
    }
}

#[tokio::test]
async fn a_run_without_answers_and_one_answer_for_two_questions_approve_nothing() {
    let desk = Desk::new(two_refunds()).await;
    let (_, outcome) = desk.say("Refund both.").await;
    let questions = open(&outcome);
    let (_, outcome) = desk.run(RunInput::Continue).await;
    assert_eq!((open(&outcome), desk.refunded()), (questions.clone(), 0));
    let (_, answer) = asked(&desk, "A1").await;
    let refused = desk.thread().answer(answer).await.expect_err("two are open");
    assert_eq!(refused.code().0, "W0120");
    let still_open: Vec<_> = desk.open_questions().await.into_iter().map(|(id, _)| id).collect();
    assert_eq!((still_open, desk.refunded()), (questions, 0));
}

#[tokio::test]
async fn a_declined_call_is_not_made_and_the_one_beside_it_is() {
    let desk = Desk::new(two_refunds()).await;
    desk.say("Refund both.").await;
    let (declined, mut no) = asked(&desk, "A1").await;
    no["approved"] = json!(false);
    let (approved, yes) = asked(&desk, "A2").await;
    let answers = BTreeMap::from([(declined, no), (approved, yes)]);
    let (_, outcome) = desk.run(RunInput::answers(answers)).await;
    let results = results(&messages(&outcome));
    assert!(results[0] != "refunded 5 for A1" && results[1] == "refunded 5 for A2", "{results:?}");
    assert_eq!(desk.refunded(), 1);
}

#[tokio::test]
async fn calls_that_need_no_answer_have_their_results_beside_those_that_do() {
    let read = ("lookup_order".to_owned(), json!({"order_id": "A3"}));
    let question = ("ask_human".to_owned(), json!({"question": "Why?"}));
    let calls = vec![read, refund("A1"), question];
    let desk = Desk::new(vec![Step::calls(calls), Step::text("Done.")]).await;
    desk.say("Refund it.").await;
    let answers = desk.open_questions().await.into_iter().map(|(id, ask)| match &ask {
        Ask::Approval(_) => (id, approval(&ask).expect("an approval").1),
        _ => (id, json!("It broke.")),
    });
    let (_, outcome) = desk.run(RunInput::answers(answers.collect::<BTreeMap<_, _>>())).await;
    let expected = ["order A3 is on its way", "refunded 5 for A1", "It broke."];
    assert_eq!(results(&messages(&outcome)), expected);
    assert_eq!(desk.refunded(), 1);
}
