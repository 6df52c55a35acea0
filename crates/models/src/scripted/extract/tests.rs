use super::*;
use serde_json::json;
use weftwork_types::tool::{Effect, ToolExample, UnknownOutcome};

fn tool(parameters: Value, args: Value) -> ToolSpec {
    ToolSpec {
        name: "t".to_owned(),
        description: String::new(),
        parameters,
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: vec![ToolExample { request: String::new(), args }],
    }
}

fn refund() -> ToolSpec {
    tool(
        json!({
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order_id", "amount"],
        }),
        json!({"order_id": "A1002", "amount": 10}),
    )
}

fn find(tool: &ToolSpec, text: &str) -> Found {
    arguments(tool, text, &BTreeMap::new())
}

#[test]
fn codes_and_numbers_go_where_they_belong() {
    for (text, amount) in [
        ("Refund order A1001, amount 25", json!(25)),
        ("refund 25.50 euros for order A1001", json!(25.5)),
        ("Give back $1,000 on A1001!", json!(1000)),
        ("For 3 reasons refund A1001 with amount of 7", json!(7)),
    ] {
        let found = find(&refund(), text);
        assert_eq!(
            Value::Object(found.args),
            json!({"order_id": "A1001", "amount": amount}),
            "{text}"
        );
        assert!(found.missing.is_empty());
    }
}

#[test]
fn what_is_missing_is_named_and_known_values_stand_in() {
    let found = find(&refund(), "refund it");
    assert_eq!(found.missing, ["order_id", "amount"].map(str::to_owned));
    let known =
        BTreeMap::from([("order_id".to_owned(), json!("A1001")), ("amount".to_owned(), json!(99))]);
    let found = arguments(&refund(), "refund it", &known);
    assert_eq!(Value::Object(found.args), json!({"order_id": "A1001"}));
    assert_eq!(found.missing, ["amount"]);
}

#[test]
fn names_of_places_are_found_however_they_are_written() {
    let city = json!({
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    });
    let weather = tool(city, json!({"city": "Berlin"}));
    for (text, city) in [
        ("What is the weather in Paris?", "Paris"),
        ("How is the weather in New York today", "New York"),
        ("weather in lisbon please", "Lisbon"),
        ("Weather. Is it raining in Rome", "Rome"),
    ] {
        let found = find(&weather, text);
        assert_eq!(found.args.get("city"), Some(&json!(city)), "{text}");
    }
    assert_eq!(find(&weather, "How is the weather").missing, ["city"]);
}

#[test]
fn each_number_is_used_once() {
    let two = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    let multiply = tool(two, json!({"a": 6, "b": 7}));
    let found = find(&multiply, "What is 17 times 23?");
    assert_eq!(Value::Object(found.args), json!({"a": 17, "b": 23}));
    assert_eq!(find(&multiply, "multiply 17").missing, ["b"]);
}

#[test]
fn options_flags_and_phrases() {
    let schema = json!({
        "type": "object",
        "properties": {
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "urgent": {"type": "boolean"},
            "question": {"type": ["string", "null"]},
        },
        "required": [],
    });
    let found = find(&tool(schema, json!({})), "Ask \"how warm\" in Celsius, urgent");
    assert_eq!(
        Value::Object(found.args),
        json!({"unit": "celsius", "urgent": true, "question": "how warm"})
    );
}
