//! Tool results as named values: short lines that a small model can read.

use serde_json::Value;
use weftwork_types::message::{ToolResult, content_text};

const FACTS_MAX: usize = 12;
const VALUE_CHARS_MAX: usize = 160;

/// A value of a result, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    /// The name of the member, in words.
    pub(super) name: String,
    /// The value; `yes` or `no` for booleans.
    pub(super) text: String,
    /// The value of a boolean.
    pub(super) flag: Option<bool>,
}

/// The values of a result, the first ones of long results.
pub(super) fn of(result: &ToolResult) -> Vec<Fact> {
    let mut facts = Vec::new();
    match result.value.get("safe_message").filter(|_| result.is_error) {
        Some(message) => flatten("error", message, &mut facts),
        None if result.is_error => flatten("error", &result.value, &mut facts),
        None => match content_text(&result.value, "not shown") {
            Some(text) => flatten("result", &Value::String(text), &mut facts),
            None => flatten("result", &result.value, &mut facts),
        },
    }
    facts.truncate(FACTS_MAX);
    facts
}

/// Facts as `name: value`, joined by semicolons.
pub(super) fn line(facts: &[Fact]) -> String {
    let facts: Vec<String> =
        facts.iter().map(|fact| format!("{}: {}", fact.name, fact.text)).collect();
    facts.join("; ")
}

fn flatten(name: &str, value: &Value, facts: &mut Vec<Fact>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, value) in map {
                flatten(&key.replace('_', " "), value, facts);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().for_each(|item| flatten(name, item, facts));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            facts.extend(fact(name, &items.join(", "), None));
        }
        scalar => facts.extend(fact(name, &plain(scalar), scalar.as_bool())),
    }
}

/// A fact; `None` for an empty text.
fn fact(name: &str, text: &str, flag: Option<bool>) -> Option<Fact> {
    let text: String = text.chars().take(VALUE_CHARS_MAX).collect();
    (!text.is_empty()).then(|| Fact { name: name.to_owned(), text, flag })
}

/// A scalar as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => super::copy::plain(number).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weftwork_types::ToolCallId;

    fn facts(value: Value, is_error: bool) -> String {
        let tool_call_id = ToolCallId::new("c").expect("id");
        line(&of(&ToolResult { tool_call_id, name: "t".to_owned(), value, shown: None, is_error }))
    }

    #[test]
    fn objects_become_named_lines() {
        let value = json!({"order_id": "A1", "paid": true, "total": 25.0, "items": [{"name": "cup"}], "tags": ["a", 2], "note": null, "remark": ""});
        assert_eq!(
            facts(value, false),
            "order id: A1; paid: yes; total: 25; name: cup; tags: a, 2"
        );
    }

    #[test]
    fn scalars_and_errors_are_named_by_what_they_are() {
        assert_eq!(facts(json!(391), false), "result: 391");
        assert_eq!(facts(json!("no such\norder"), true), "error: no such order");
        let denied = json!({"error_code": "policy_denied", "safe_message": "a person refused"});
        assert_eq!(facts(denied, true), "error: a person refused");
        assert!(facts(json!("x".repeat(9999)), false).len() < 200);
    }
}
