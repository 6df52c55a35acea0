//! The state of an agent as clients see it: the answer of the newest run that was completed.

use serde_json::{Map, Value, json};

/// Members of an answer that name the record which it made.
const RECORDS: [&str; 2] = ["plan", "deliverable"];

/// The state of a conversation in which no run was completed.
pub(crate) fn empty() -> Value {
    json!({})
}

/// Returns the state after a run with this output.
pub(crate) fn of_output(output: &Value) -> Value {
    let Some(answer) = output.get("answer").filter(|answer| answer.is_object()) else {
        return empty();
    };
    let mut state = Map::new();
    for name in ["mode", "content"] {
        if let Some(value) = answer.get(name).filter(|value| !value.is_null()) {
            state.insert(name.to_owned(), value.clone());
        }
    }
    for name in RECORDS {
        if let Some(record) = answer.pointer(&format!("/metadata/{name}")) {
            state.insert(name.to_owned(), record.clone());
        }
    }
    Value::Object(state)
}

/// Returns the operations that change one state into another: a list of JSON Patch.
pub(crate) fn delta(before: &Value, after: &Value) -> Vec<Value> {
    let nothing = Map::new();
    let before = before.as_object().unwrap_or(&nothing);
    let after = after.as_object().unwrap_or(&nothing);
    let mut delta = Vec::new();
    for (name, value) in after {
        let op = match before.get(name) {
            Some(same) if same == value => continue,
            Some(_) => "replace",
            None => "add",
        };
        delta.push(json!({"op": op, "path": format!("/{name}"), "value": value}));
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    delta.extend(gone.map(|name| json!({"op": "remove", "path": format!("/{name}")})));
    delta
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_has_what_is_new_what_differs_and_what_is_gone() {
        let before = json!({"mode": "build", "content": "a", "plan": {"id": "p"}});
        let after = json!({"mode": "build", "content": "b", "deliverable": {"id": "d"}});
        let expected = json!([
            {"op": "replace", "path": "/content", "value": "b"},
            {"op": "add", "path": "/deliverable", "value": {"id": "d"}},
            {"op": "remove", "path": "/plan"},
        ]);
        assert_eq!(json!(delta(&before, &after)), expected);
        assert_eq!(delta(&after, &after), Vec::<Value>::new());
    }

    #[test]
    fn a_state_has_the_answer_and_its_record_and_nothing_else() {
        let output = json!({"answer": {"mode": "build", "content": {"a": 1}, "metadata": {
            "deliverable": {"id": "d"}, "usage": 7,
        }}, "messages": []});
        let expected = json!({"mode": "build", "content": {"a": 1}, "deliverable": {"id": "d"}});
        assert_eq!(of_output(&output), expected);
        assert_eq!(of_output(&json!({"answer": null})), empty());
    }
}
