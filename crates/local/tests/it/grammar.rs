use crate::tiny::{self, Dice};
use serde_json::{Map, Value, json};
use weftwork_local::engine::Engine;
use weftwork_local::writer::{End, Plan, Quiet};
use weftwork_schema::{Checker, Quotes};

/// A random schema; deeper ones are simpler, so that it ends.
fn schema(dice: &mut Dice, depth: u64) -> Value {
    match dice.below(if depth > 1 { 7 } else { 9 }) {
        0 => json!({"type": "string"}),
        1 => json!({"type": "string", "minLength": dice.below(4), "maxLength": 4 + dice.below(9)}),
        2 => json!({"type": "number"}),
        3 => {
            json!({"type": "integer", "minimum": dice.below(10), "maximum": 10 + dice.below(9999)})
        }
        4 => json!({"type": "boolean"}),
        5 => json!({"enum": ["red", "green", 7, null]}),
        6 => json!({"type": ["string", "null"]}),
        7 => json!({"type": "array", "items": schema(dice, depth + 1), "minItems": dice.below(2)}),
        _ => object(dice, depth + 1),
    }
}

fn object(dice: &mut Dice, depth: u64) -> Value {
    let names: Vec<String> = (0..=dice.below(4)).map(|n| format!("field_{n}")).collect();
    let properties: Map<String, Value> =
        names.iter().map(|name| (name.clone(), schema(dice, depth))).collect();
    let required: Vec<&String> = names.iter().filter(|_| dice.below(3) > 0).collect();
    let mut object = json!({"type": "object", "properties": properties, "required": required});
    if dice.below(2) == 0 {
        object["additionalProperties"] = json!(false);
    }
    object
}

fn written(engine: &Engine, schema: &Value, tokens_max: usize, temperature: f32) -> String {
    let grammar = engine.grammar("the test", schema).expect("it can be enforced");
    let mut session = engine.session();
    engine.prefill(&mut session, &engine.encode("the"), &Quiet).expect("it fits");
    let plan = Plan { temperature, ..Plan::within(&grammar, tokens_max) };
    let answer = engine.generate(&mut session, &plan, &mut Quiet).expect("an answer");
    assert_eq!(answer.end, End::Complete);
    answer.text
}

#[test]
fn whatever_the_model_thinks_the_answer_satisfies_the_schema() {
    let engine = tiny::engine();
    for seed in 1..=100 {
        let mut dice = Dice(seed * 7919);
        let schema = object(&mut dice, 0);
        let tokens_max = 20 + dice.below(200) as usize;
        let text = written(&engine, &schema, tokens_max, dice.below(4) as f32);
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("seed {seed}: {error} in {text} for {schema}"));
        let verdict = Checker::compile(&schema).expect("a schema").check(&value, Quotes::Values);
        assert!(verdict.is_ok(), "seed {seed}: {verdict:?}: {text} for {schema}");
    }
}

#[test]
fn local_references_are_followed() {
    let schema = json!({
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/city"}},
        "required": ["to"],
        "$defs": {"city": {"enum": ["Oslo"]}},
    });
    assert_eq!(written(&tiny::engine(), &schema, 20, 0.0), r#"{"to":"Oslo"}"#);
}

#[test]
fn texts_and_lists_without_a_limit_get_one() {
    let schema = json!({
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"type": "string"}}},
        "required": ["lines"],
    });
    for temperature in [0.0, 1.0, 3.0] {
        let text = written(&tiny::engine(), &schema, 1500, temperature);
        let value: Value = serde_json::from_str(&text).expect("json");
        let lines = value["lines"].as_array().expect("a list");
        assert!(lines.len() <= 8);
        assert!(lines.iter().all(|line| line.as_str().is_some_and(|s| s.chars().count() <= 240)));
    }
}

#[test]
fn a_schema_that_cannot_be_enforced_names_its_owner() {
    let schema = json!({"type": "object", "dependentSchemas": {"a": {"type": "string"}}});
    let error = tiny::engine().grammar("tool `odd`", &schema).expect_err("not enforceable");
    assert_eq!(error.code().0, "W0509");
    assert!(error.to_string().contains("tool `odd`"), "{error}");
}

#[test]
fn an_answer_that_cannot_be_closed_is_an_error() {
    let engine = tiny::engine();
    let schema = json!({"type": "string", "minLength": 900, "maxLength": 920});
    let grammar = engine.grammar("the test", &schema).expect("it can be enforced");
    let mut session = engine.session();
    engine.prefill(&mut session, &engine.encode("the"), &Quiet).expect("it fits");
    let plan = Plan::within(&grammar, 30);
    let error = engine.generate(&mut session, &plan, &mut Quiet).expect_err("too short a limit");
    assert_eq!(error.code().0, "W0510");
}
