use super::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weftwork_schema::{Checker, Quotes};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    id: String,
    lines: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Line {
    item: String,
    count: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Event {
    Sent { at: i64 },
    Lost { reason: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    Green,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Flat {
    top: String,
    #[serde(flatten)]
    event: Event,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

fn accepts(schema: &Value, value: &Value) -> bool {
    Checker::compile(schema).expect("valid schema").check(value, Quotes::Values).is_ok()
}

#[test]
fn arguments_refuse_unknown_members_at_every_level() {
    let schema = args_schema::<Order>();
    assert!(accepts(&schema, &json!({"id": "A", "lines": [{"item": "x", "count": 1}]})));
    assert!(!accepts(&schema, &json!({"id": "A", "lines": [], "extra": 1})));
    let deep = json!({"id": "A", "lines": [{"item": "x", "count": 1, "extra": 1}]});
    assert!(!accepts(&schema, &deep), "{schema}");
    assert!(schema.get("title").is_none() && schema.get("$schema").is_none());
}

#[test]
fn arguments_with_variants_accept_their_members_and_no_others() {
    for (schema, good) in [
        (args_schema::<Event>(), json!({"kind": "sent", "at": 1})),
        (args_schema::<Flat>(), json!({"top": "t", "kind": "lost", "reason": "r"})),
        (args_schema::<Tree>(), json!({"name": "a", "children": [{"name": "b", "children": []}]})),
    ] {
        assert!(accepts(&schema, &good), "{schema} refuses {good}");
        let mut bad = good.clone();
        bad["extra"] = json!(1);
        assert!(!accepts(&schema, &bad), "{schema} accepts {bad}");
    }
}

#[test]
fn what_a_result_shows_by_default_is_what_its_type_declares() {
    let whole = Some(vec![WHOLE.to_owned()]);
    let members = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    for (schema, expected) in [
        (output_schema::<f64>(), whole.clone()),
        (output_schema::<Option<String>>(), whole.clone()),
        (output_schema::<Vec<i32>>(), whole.clone()),
        (output_schema::<(i32, String)>(), whole.clone()),
        (output_schema::<()>(), whole.clone()),
        (output_schema::<Colour>(), whole),
        (output_schema::<Order>(), members(&["id", "lines", "note"])),
        (output_schema::<Option<Order>>(), members(&["id", "lines", "note"])),
        (output_schema::<Vec<Order>>(), members(&["id", "lines", "note"])),
        (output_schema::<Event>(), members(&["at", "kind", "reason"])),
        (output_schema::<Flat>(), members(&["at", "kind", "reason", "top"])),
        (output_schema::<Tree>(), members(&["name", "children"])),
        (output_schema::<Value>(), None),
        (output_schema::<BTreeMap<String, i32>>(), None),
        (json!({"$ref": "#"}), None),
        (json!(true), None),
    ] {
        assert_eq!(shown_by_default(&schema), expected, "{schema}");
    }
}

#[test]
fn undeclared_members_of_a_result_are_dropped_where_the_schema_is_closed() {
    let schema = json!({"type": "object", "properties": {
        "id": {"type": "string"},
        "lines": {"type": "array", "items": {"properties": {"item": {}}}},
        "open": {"type": "object", "additionalProperties": true, "properties": {"a": {}}},
        "free": {"type": "object"},
        "either": {"anyOf": [{"properties": {"a": {}}}, {"type": "null"}]},
    }});
    let mut value = json!({
        "id": "A", "secret": 1, "lines": [{"item": "x", "secret": 1}],
        "open": {"a": 1, "b": 2}, "free": {"b": 2}, "either": {"b": 2},
    });
    drop_undeclared(&mut value, &schema);
    assert_eq!(
        value,
        json!({"id": "A", "lines": [{"item": "x"}], "open": {"a": 1, "b": 2}, "free": {"b": 2},
            "either": {"b": 2}})
    );
}
