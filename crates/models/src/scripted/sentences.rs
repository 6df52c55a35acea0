//! Sentences that report tool results.

use serde_json::Value;
use weftwork_types::message::{ToolResult, content_text};
use weftwork_types::tool::ToolSpec;

/// A sentence about one result.
pub(super) fn sentence(result: &ToolResult) -> String {
    let name = capitalised(&plain(&result.name));
    if result.is_error {
        let why = ["safe_message", "message", "error"]
            .iter()
            .find_map(|key| result.value.get(key).and_then(Value::as_str));
        let why = why.map_or_else(|| shown(&result.value), str::to_owned);
        return format!("{name} was not done: {}.", why.trim_end_matches('.'));
    }
    format!("{name}: {}.", shown(&result.value).trim_end_matches('.'))
}

/// The reply to a request that no rule matches, with example requests.
pub(super) fn help(tools: &[ToolSpec]) -> String {
    let examples = tools.iter().filter_map(|tool| tool.examples.first());
    let examples: Vec<String> =
        examples.map(|example| format!("\"{}\"", example.request)).collect();
    if examples.is_empty() {
        return "I follow fixed rules and have no rule for this.".to_owned();
    }
    format!("I follow fixed rules and have no rule for this. Try: {}.", examples.join(", "))
}

/// A name as words: `refund_order` becomes "refund order".
pub(super) fn plain(name: &str) -> String {
    name.replace("__", " ").replace(['_', '/'], " ")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn shown(value: &Value) -> String {
    if let Some(text) = content_text(value, "not shown") {
        return text;
    }
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| format!("{} {}", plain(key), shown(value)));
            let mut members: Vec<String> = members.collect();
            members.sort_unstable();
            members.join(", ")
        }
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join("; "),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
