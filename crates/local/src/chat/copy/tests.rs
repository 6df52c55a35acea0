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

fn said(request: &str) -> Said {
    Said { request: request.to_owned(), ..Said::default() }
}

fn with(tool: &ToolSpec, said: &Said) -> (Value, Vec<String>) {
    let form = Copier::new().form(tool, said);
    let missing = form.missing().map(str::to_owned).collect();
    (form.schema()["properties"].clone(), missing)
}

/// The values that a request offers for each argument of the refund.
fn offers(request: &str) -> (Value, Value, Vec<String>) {
    let (properties, missing) = with(&refund(), &said(request));
    (properties["order_id"]["enum"].clone(), properties["amount"]["enum"].clone(), missing)
}

fn simple(kinds: &[(&str, &str)], request: &str, args: Value) -> ToolSpec {
    let properties: Map<String, Value> =
        kinds.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
    ToolSpec {
        parameters: json!({"type": "object", "properties": properties, "required": required}),
        examples: vec![ToolExample { request: request.to_owned(), args }],
        description: String::new(),
        name: "tool".to_owned(),
        ..refund()
    }
}

fn missing(tool: &ToolSpec, request: &str) -> Vec<String> {
    with(tool, &said(request)).1
}

#[test]
fn what_examples_copy_is_chosen_from_the_request() {
    let found = offers("Refund order A1001, amount 25.");
    assert_eq!(found, (json!(["A1001"]), json!([25]), vec![]));
}

#[test]
fn what_nobody_said_is_missing_and_cannot_be_written() {
    for request in ["Refund A1001.", "Refund order A1002.", "Refund order A1001, all of it."] {
        let (order, amount, missing) = offers(request);
        assert!(order.is_array() && amount.is_null(), "{request}");
        assert_eq!(missing, ["amount"], "{request}");
    }
    assert_eq!(offers("Refund 25.").2, ["order_id"]);
    assert_eq!(offers("Refund, please!").2.len(), 2);
    let (schema, _) = with(&refund(), &said("Refund A1001."));
    assert_eq!(schema["amount"], Value::Null, "no property, so no way to write one");
}

#[test]
fn one_value_is_not_taken_twice() {
    let pair =
        simple(&[("a", "number"), ("b", "number")], "What is 6 times 7?", json!({"a": 6, "b": 7}));
    assert_eq!(missing(&pair, "Double 6"), ["b"]);
    assert_eq!(missing(&pair, "6 by 6"), Vec::<String>::new());
    assert_eq!(missing(&pair, "what is times 8?"), ["a"], "8 stands where the second stands");
    let mut form = Copier::new().form(&pair, &said("3 and 4"));
    assert!(form.part(&json!({"a": 3, "b": 3})));
    assert_eq!(form.schema()["properties"]["b"]["enum"], json!([4]));
    assert!(!form.part(&json!({"a": 3, "b": 4})));
    assert!(form.part(&json!({"a": 3, "b": 5})), "a value that was not offered is no call");
    assert_eq!(form.missing().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_number_that_stands_for_the_order_is_no_amount() {
    let tool = simple(
        &[("order_id", "string"), ("amount", "number")],
        "Refund order A1002, amount 40.",
        json!({"order_id": "A1002", "amount": 40}),
    );
    assert_eq!(missing(&tool, "Refund order 4711."), ["amount"]);
}

#[test]
fn names_are_written_like_names_or_stand_where_an_example_has_one() {
    let city =
        simple(&[("city", "string")], "What is the weather in Oslo?", json!({"city": "Oslo"}));
    let found = |request: &str| with(&city, &said(request)).0["city"]["enum"].clone();
    assert_eq!(found("How cold is it in New York today?"), json!(["New", "York", "New York"]));
    assert_eq!(found("is it raining in oslo now"), json!(["oslo"]));
    assert_eq!(found("Oslo's weather in Oslo’s streets"), json!(["Oslo"]));
    for request in ["What is the weather?", "Forecast please", "Weather!", "Is it raining?"] {
        assert_eq!(missing(&city, request), ["city"], "{request}");
    }
}

#[test]
fn sentences_do_not_hold_what_another_argument_takes() {
    let mail = simple(
        &[("to", "string"), ("body", "string")],
        "Send an email to eva@mail.com: the train is late.",
        json!({"to": "eva@mail.com", "body": "the train is late"}),
    );
    assert_eq!(missing(&mail, "Send an email to bob@shop.org"), ["body"]);
    let (found, _) = with(&mail, &said("Email bob@shop.org that lunch is over"));
    assert_eq!(found["to"]["enum"], json!(["bob@shop.org"]));
    let bodies = found["body"]["enum"].as_array().expect("bodies").clone();
    assert!(bodies.contains(&json!("lunch is over")));
    assert!(!bodies.iter().any(|body| body.as_str().is_some_and(|body| body.contains('@'))));
}

#[test]
fn optional_arguments_that_nobody_said_are_left_out() {
    let mut tool = refund();
    tool.parameters["required"] = json!(["order_id"]);
    let (properties, missing) = with(&tool, &said("Refund A1001."));
    assert!(missing.is_empty() && properties.get("amount").is_none());
    tool.parameters["properties"]["amount"] = json!({"type": ["number", "null"]});
    tool.parameters["additionalProperties"] = json!(true);
    let form = Copier::new().form(&tool, &said("Refund A1001."));
    assert_eq!(form.schema()["additionalProperties"], false);
    assert!(form.schema()["properties"].get("amount").is_none());
}

#[test]
fn no_kind_of_schema_opens_a_copied_argument() {
    for property in [
        json!({"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}),
        json!({"$ref": "#/$defs/T"}),
        json!({"type": "string", "enum": ["celsius", "kelvin"]}),
        json!({"type": "string", "pattern": "^(celsius|kelvin)$"}),
        json!({"type": "string", "format": "unit"}),
        json!({"type": ["string", "null"]}),
    ] {
        let mut tool = simple(&[("unit", "string")], "Heat in celsius", json!({"unit": "celsius"}));
        tool.parameters["properties"]["unit"] = property.clone();
        assert_eq!(missing(&tool, "Heat"), ["unit"], "{property}");
        let (found, _) = with(&tool, &said("Heat in Kelvin or kelvin"));
        let values = found["unit"]["enum"].as_array().expect("offers").clone();
        assert!(values.contains(&json!("kelvin")), "{property}: {values:?}");
    }
    let mut day = simple(&[("day", "string")], "Book on 2026-01-31", json!({"day": "2026-01-31"}));
    day.parameters["properties"]["day"]["format"] = json!("date");
    assert_eq!(missing(&day, "Book on Friday the 3rd"), ["day"]);
    assert_eq!(with(&day, &said("For 1999-12-24, please")).0["day"]["enum"], json!(["1999-12-24"]));
}

#[test]
fn answers_and_what_was_said_before_help_out() {
    let mut words = said("Refund it, 25");
    words.earlier = vec!["Where is A1001?".to_owned(), "It cost 9.50".to_owned()];
    let (found, missing) = with(&refund(), &words);
    assert_eq!((&found["order_id"]["enum"], missing.len()), (&json!(["A1001"]), 0));
    let mut words = Said { earlier: vec!["It cost 9.50 in all".to_owned()], ..said("Refund A1.") };
    assert_eq!(with(&refund(), &words).1, ["amount"], "a number of something else is no amount");
    words.answers.insert("amount".to_owned(), "9.50 euros".to_owned());
    assert_eq!(with(&refund(), &words).0["amount"]["enum"], json!([9.5]));
    words.answers.insert("amount".to_owned(), "all of it".to_owned());
    assert_eq!(with(&refund(), &words).1, ["amount"]);
    let city = simple(&[("city", "string")], "Weather in Oslo?", json!({"city": "Oslo"}));
    let mut words = said("And the weather?");
    words.answers.insert("city".to_owned(), "it's rome, please".to_owned());
    assert_eq!(with(&city, &words).0["city"]["enum"], json!(["rome"]));
}

#[test]
fn what_examples_make_up_stays_free() {
    let (found, _) = with(&refund(), &said("Refund order A1001, amount 25."));
    assert_eq!(found["note"], json!({"type": "string"}));
}

#[test]
fn numbers_stand_alone() {
    let numbers = |text: &str| -> Value {
        Copier::new().numbers(text).into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers("A1001, 55-2310, v2.0, 1/2, #7 and x_3"), json!([]));
    assert_eq!(numbers("$25, 25.00, 1,250.5€ and -4"), json!([25, 25, 1250.5, -4]));
    assert_eq!(numbers("12*12 is not 12 x 13."), json!([12, 12, 12, 13]));
}
