//! Tool results as short lines that a small model can read.

use serde_json::Value;
use weftwork_types::message::ToolResult;

const LINES_MAX: usize = 12;
const VALUE_CHARS_MAX: usize = 160;

/// A result as `name: value`, joined by semicolons.
pub(super) fn of(result: &ToolResult) -> String {
    let mut lines = Vec::new();
    match result.value.get("safe_message").filter(|_| result.is_error) {
        Some(message) => flatten("error", message, &mut lines),
        None if result.is_error => flatten("error", &result.value, &mut lines),
        None => flatten("result", &result.value, &mut lines),
    }
    lines.truncate(LINES_MAX);
    lines.join("; ")
}

fn flatten(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, value) in map {
                flatten(&key.replace('_', " "), value, lines);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().for_each(|item| flatten(name, item, lines));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            lines.push(format!("{name}: {}", cut(&items.join(", "))));
        }
        scalar => lines.push(format!("{name}: {}", cut(&plain(scalar)))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => super::copy::plain(number).to_string(),
        other => other.to_string(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(VALUE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weftwork_types::ToolCallId;

    fn facts(value: Value, is_error: bool) -> String {
        let tool_call_id = ToolCallId::new("c").expect("id");
        of(&ToolResult { tool_call_id, name: "t".to_owned(), value, shown: None, is_error })
    }

    #[test]
    fn objects_become_named_lines() {
        let value = json!({"order_id": "A1", "paid": true, "total": 25.0, "items": [{"name": "cup"}], "tags": ["a", 2], "note": null});
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
