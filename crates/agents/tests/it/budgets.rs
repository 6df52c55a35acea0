//! Budgets of tool calls over the runs of a conversation.

use crate::desk::{Desk, open, said};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_models::scripted::Step;
use weftwork_types::port::Limits;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome};

fn tool_calls(limit: u64) -> RunOptions {
    let limits = Limits { tool_calls: Some(limit), ..Limits::default() };
    RunOptions { budget: Some(limits), ..RunOptions::default() }
}

fn lookup(order: Value) -> (String, Value) {
    ("lookup_order".to_owned(), json!({"order_id": order}))
}

fn over_budget(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Failed { fault } if fault.code == "W0601" => fault.message.clone(),
        other => panic!("expected a used-up budget, got {other:?}"),
    }
}

#[tokio::test]
async fn calls_that_run_no_tool_count_neither_in_a_run_nor_in_its_continuation() {
    let question = ("ask_human".to_owned(), json!({"question": "Which?"}));
    let unknown = ("no_such_tool".to_owned(), json!({}));
    let first = vec![lookup(json!(7)), unknown, lookup(json!("A1")), question];
    let steps = vec![
        Step::calls(first),
        Step::calls(vec![lookup(json!("A2"))]),
        Step::calls(vec![lookup(json!("A3"))]),
        Step::text("Done."),
    ];
    let desk = Desk::new(steps).await;
    let start = RunInput::Start { input: said("Where are they?") };
    let (_, outcome) = desk.run_with(start, tool_calls(2)).await;
    let answers = BTreeMap::from([(open(&outcome)[0], json!("A2"))]);
    let (_, outcome) = desk.run_with(RunInput::answers(answers), tool_calls(2)).await;
    let message = over_budget(&outcome);
    assert!(message.contains("2 of 2 tool calls"), "A1 and A2 were looked up: {message}");
    let (_, outcome) = desk.run_with(RunInput::Continue, tool_calls(3)).await;
    assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
}
