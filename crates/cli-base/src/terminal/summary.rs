//! Events as lines of text.

use super::shorten;
use serde_json::{Value, json};
use weftwork::types::event::{AiEvent, RunEvent};

/// Maximum length of a displayed member of an event, in characters.
const MEMBER_CHARS_MAX: usize = 160;

/// Formats an event as one line: its type and its members. Long members are truncated.
pub fn summarize_event(event: &RunEvent) -> String {
    let node = event.piece.as_ref().map(|piece| format!("node={}", piece.node));
    let members = match &event.event {
        AiEvent::MessageFinal { message } => {
            let role = json!(message.role);
            let role = role.as_str().unwrap_or_default();
            let text = message.joined_text();
            let content = match text.is_empty() {
                true => json!(message.parts),
                false => Value::from(text),
            };
            vec![("role".to_owned(), role.into()), ("content".to_owned(), content)]
        }
        event => event_members(event),
    };
    let members = members.into_iter().map(|(name, value)| {
        let value = match value {
            Value::String(word) if is_word(&word) => word,
            value => value.to_string(),
        };
        format!("{name}={}", shorten(&value, MEMBER_CHARS_MAX))
    });
    let kind = event_kind(&event.event);
    std::iter::once(kind).chain(node).chain(members).collect::<Vec<_>>().join(" ")
}

/// Returns `true` if a text needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_alphanumeric() || "-_:./".contains(letter))
}

fn event_kind(event: &AiEvent) -> String {
    let kind = json!(event)["type"].take();
    kind.as_str().unwrap_or_default().to_owned()
}

/// Returns the members of an event other than its type.
fn event_members(event: &AiEvent) -> Vec<(String, Value)> {
    match json!(event) {
        Value::Object(members) => members.into_iter().filter(|(name, _)| name != "type").collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::summarize_event;
    use weftwork::types::Timestamp;
    use weftwork::types::event::{AiEvent, AttemptReset, RunEvent};
    use weftwork::types::run::RunStatus;

    #[test]
    fn an_event_is_one_line() {
        let line = |event| summarize_event(&RunEvent::durable(1, Timestamp(0), event));
        assert_eq!(line(AiEvent::Done { outcome: RunStatus::Completed }), "done outcome=completed");
        let started = AiEvent::RunStarted { graph: "builtin:desk".to_owned(), continues: None };
        assert_eq!(line(started), "run_started graph=builtin:desk");
        let text = AiEvent::TextDelta { delta: "two\nlines".to_owned() };
        assert_eq!(line(text), "text_delta delta=\"two\\nlines\"");
        let reset = AiEvent::AttemptReset(AttemptReset::of_node("x".repeat(500)));
        assert!(line(reset).chars().count() < 200);
    }
}
