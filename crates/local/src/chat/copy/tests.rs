use super::*;
use weftwork_types::tool::{Effect, ToolExample, UnknownOutcome};

fn refund() -> ToolSpec {
    ToolSpec {
        name: "refund_order".to_owned(),
        description: "Refunds money for an order.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "maxLength": 8},
                "amount": {"type": "number", "format": "double", "exclusiveMinimum": 0},
                "note": {"type": "string"},
            },
            "required": ["order_id", "amount"],
        }),
        output: None,
        effect: Effect::ExternalSideEffect,
        on_unknown: UnknownOutcome::Ask,
        shown: None,
        examples: vec![ToolExample {
            request: "Refund 12 for order C310.".to_owned(),
            args: json!({"order_id": "C310", "amount": 12.0, "note": "as asked"}),
        }],
    }
}

fn choices(texts: &[&str], name: &str) -> Option<Value> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Copier::new().narrowed(&refund(), &texts)["properties"][name].get("enum").cloned()
}

#[test]
fn what_examples_copy_is_chosen_from_the_request() {
    assert_eq!(choices(&["Refund order A1001, amount 25."], "amount"), Some(json!([25])));
    let ids = choices(&["Refund order A1001, amount 25."], "order_id").expect("choices");
    assert_eq!(ids, json!(["A1001"]));
}

#[test]
fn an_earlier_text_helps_when_the_request_has_nothing_alike() {
    assert_eq!(choices(&["Refund it, 25", "Where is A1001?"], "order_id"), Some(json!(["A1001"])));
    assert_eq!(choices(&["Refund 8812"], "order_id"), Some(json!(["Refund", "8812"])));
}

#[test]
fn what_examples_make_up_stays_free() {
    assert_eq!(choices(&["Refund order A1001, amount 25."], "note"), None);
}

#[test]
fn a_later_text_helps_out_and_without_any_the_schema_is_as_it_was() {
    assert_eq!(choices(&["Refund it.", "It cost 9.50 in all"], "amount"), Some(json!([9.5])));
    assert_eq!(choices(&["Refund it."], "amount"), None);
}

#[test]
fn a_request_with_nothing_to_copy_is_not_for_the_tool() {
    let possible = |request: &str| Copier::new().is_possible(&refund(), request);
    assert!(possible("Refund 12") && possible("Give me my money for C3 back"));
    assert!(!possible("Who was Napoleon?"));
    let free = ToolSpec { examples: Vec::new(), ..refund() };
    assert!(Copier::new().is_possible(&free, "Who was Napoleon?"));
}

#[test]
fn numbers_stand_alone() {
    let numbers = |text: &str| Value::Array(Copier::new().numbers(text));
    assert_eq!(numbers("A1001, 55-2310, v2.0, 1/2 and x_3"), json!([]));
    assert_eq!(numbers("$25, 25.00, 1,250.5€ and -4"), json!([25, 1250.5, -4]));
    assert_eq!(numbers("12*12 is not 12 x 13."), json!([12, 13]));
}

#[test]
fn passages_have_no_punctuation_around_them() {
    assert_eq!(
        passages("Is it (New York)?"),
        [
            "Is",
            "it",
            "New",
            "York",
            "Is it",
            "it (New",
            "New York",
            "Is it (New",
            "it (New York",
            "Is it (New York"
        ]
    );
    assert!(passages(&"word ".repeat(5000)).len() <= PASSAGES_MAX);
}
