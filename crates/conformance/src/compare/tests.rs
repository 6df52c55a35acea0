use super::{FinishOrder, Messages, Rules, difference};
use serde_json::{Value as Json, json};

fn differs(expected: Json, got: Json) -> Option<String> {
    let spec = json!({"nodes": {"a": {"do": [["fail", 1, "KeyError", "mine"]]}}});
    difference(&spec, &expected, &got, Rules::default()).map(|d| d.to_string())
}

fn of_events(events: Json) -> Json {
    json!({"trace": [{"events": events}]})
}

fn start(id: &str) -> Json {
    json!([[], "tasks", {"id": id, "name": "n", "input": {}, "triggers": []}])
}

fn end(id: &str) -> Json {
    json!([[], "tasks", {"id": id, "name": "n", "result": {}, "error": null, "interrupts": []}])
}

#[test]
fn ids_may_be_any_unique_strings() {
    let trace = |a: &str, b: &str| of_events(json!([start(a), end(a), start(b), end(b), start(a)]));
    assert_eq!(differs(trace("T1", "T2"), trace("x-9", "y")), None);
    let found = differs(trace("T1", "T2"), trace("x", "x")).unwrap();
    assert_eq!(found, "/trace/0/events//2/1/id expected \"T2\" got \"T1\"");
}

#[test]
fn namespaces_are_compared_each_for_itself() {
    let inner = |task: &str, n: u32| json!([[format!("p:{task}")], "custom", n]);
    let outer = json!([[], "custom", "o"]);
    let one = of_events(json!([start("p1"), outer, inner("p1", 1), inner("p1", 2)]));
    let other = of_events(json!([inner("q", 1), start("q"), inner("q", 2), outer]));
    assert_eq!(differs(one.clone(), other), None);
    let swapped = of_events(json!([start("q"), outer, inner("q", 2), inner("q", 1)]));
    assert!(differs(one, swapped).is_some());
}

#[test]
fn custom_events_float_among_the_ends_of_tasks_side_by_side() {
    let custom = json!([[], "custom", 1]);
    let one = of_events(json!([start("a"), start("b"), custom, end("a"), end("b")]));
    let other = of_events(json!([start("a"), start("b"), end("a"), end("b"), custom]));
    assert_eq!(differs(one.clone(), other), None);
    let alone = of_events(json!([start("a"), custom, end("a")]));
    let late = of_events(json!([start("a"), end("a"), custom]));
    assert!(differs(alone, late).is_some());
    let reversed = of_events(json!([start("a"), start("b"), custom, end("b"), end("a")]));
    assert!(differs(one.clone(), reversed.clone()).is_some());
    let rules = Rules { finish_order: FinishOrder::Any, ..Rules::default() };
    assert_eq!(difference(&json!({}), &one, &reversed, rules), None);
}

#[test]
fn messages_of_the_engine_are_its_own() {
    let error = |class: &str, message: &str| json!({"trace": [{"error": [class, message]}]});
    let same = differs(error("InvalidUpdateError", "theirs"), error("InvalidUpdateError", "ours"));
    assert_eq!(same, None);
    assert!(differs(error("KeyError", "mine"), error("KeyError", "other")).is_some());
    assert!(differs(error("ValueError", "boom 1"), error("ValueError", "boom 2")).is_some());
    assert!(differs(error("ValueError", "x"), error("KeyError", "x")).is_some());
    let all = Rules { messages: Messages::All, ..Rules::default() };
    let took = |time: &str| error("NodeTimeoutError", &format!("late (elapsed: {time}s)"));
    assert_eq!(difference(&json!({}), &took("0.051"), &took("1"), all), None);
    assert!(difference(&json!({}), &error("E", "a"), &error("E", "b"), all).is_some());
}

#[test]
fn open_questions_have_no_order() {
    let snapshot = |ids: [&str; 2], asked: [&str; 2]| {
        let asks = [0, 1].map(|i| json!({"$interrupt": asked[i], "id": ids[i]}));
        json!({"trace": [{"state": {"values": {}, "tasks": [], "interrupts": asks}}]})
    };
    let one = snapshot(["I1", "I2"], ["qa", "qb"]);
    assert_eq!(differs(one.clone(), snapshot(["y", "x"], ["qb", "qa"])), None);
    assert!(differs(one, snapshot(["x", "x"], ["qa", "qb"])).is_some());
}

#[test]
fn numbers_are_compared_by_value_but_truth_is_no_number() {
    let counts = |n: Json| json!({"trace": [{"counts": {"a": n}}]});
    assert_eq!(differs(counts(json!(1)), counts(json!(1.0))), None);
    assert!(differs(counts(json!(1)), counts(json!(true))).is_some());
    let missing = differs(counts(json!(1)), json!({"trace": [{}]})).unwrap();
    assert_eq!(missing, "/trace/0/counts expected {\"a\":1} got nothing");
}
