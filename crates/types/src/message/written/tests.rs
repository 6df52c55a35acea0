use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Compares the results of both parsers on a text, if the fast parser accepts it.
fn read(text: &str) -> Option<Vec<Message>> {
    let mut taken = Vec::new();
    let is_written = read_written(text, |message| taken.push(message));
    let known = serde_json::from_str::<Vec<Message>>(text);
    if is_written {
        assert_eq!(known.expect("any reader takes it"), taken, "{text}");
        return Some(taken);
    }
    if let Ok(known) = known {
        assert!(known.starts_with(&taken), "{text}: took {taken:?}");
    }
    None
}

fn id(name: &str) -> MessageId {
    MessageId::new(name).expect("an id")
}

fn part() -> impl Strategy<Value = Part> {
    let words = || "[ -~\n\"\\\\äß\u{1}\u{2028}🦀]{0,40}";
    let call = || "[a-z0-9_-]{1,12}".prop_map(|id| ToolCallId::new(id).expect("an id"));
    let value = prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<i32>().prop_map(|n| json!(f64::from(n) / 4.0)),
        words().prop_map(|text| json!(text)),
        (words(), any::<bool>()).prop_map(|(key, value)| json!({key: [value, {"a": {}}]})),
    ];
    let arguments = value.clone();
    let shown = prop::option::of(value.clone());
    prop_oneof![
        words().prop_map(|text| Part::Text { text }),
        (words(), prop::option::of(words()))
            .prop_map(|(text, signature)| Part::Reasoning { text, signature }),
        (words(), words()).prop_map(|(media_type, url)| Part::Media(Media { media_type, url })),
        (call(), words(), arguments, shown.clone()).prop_map(|(id, name, args, shown)| {
            Part::ToolCall(ToolCall { id, name, args, shown })
        }),
        (call(), words(), value, shown, any::<bool>()).prop_map(
            |(tool_call_id, name, value, shown, is_error)| {
                Part::ToolResult(ToolResult { tool_call_id, name, value, shown, is_error })
            }
        ),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
    let parts = prop::collection::vec(part(), 0..4);
    ("[A-Za-z0-9_.:-]{1,40}", prop::sample::select(roles.to_vec()), parts)
        .prop_map(|(name, role, parts)| Message::new(id(&name), role, parts))
}

proptest! {
    #[test]
    fn the_shown_form_of_a_message_is_that_of_its_json(message in message()) {
        let shown = message.clone().into_shown();
        prop_assert!(shown.is_shown_of(&message));
        prop_assert_eq!(json!(shown), crate::shown::StateForm::Shown.of(json!(message)));
    }

    #[test]
    fn what_was_written_is_read(messages in prop::collection::vec(message(), 1..5)) {
        let text = serde_json::to_string(&messages).expect("JSON");
        prop_assert_eq!(read(&text), Some(messages));
    }

    /// The fast parser accepts no text that the general parser reads differently.
    #[test]
    fn a_text_that_was_changed_is_read_as_any_reader_does(
        messages in prop::collection::vec(message(), 1..3),
        at in any::<prop::sample::Index>(),
        change in prop_oneof![Just(""), Just(" "), Just("\""), Just("\\"), Just("}"), Just(","),
            Just("\u{0}"), Just("[1]"), Just("ü")],
        cut in any::<bool>(),
    ) {
        let text: Vec<char> = serde_json::to_string(&messages).expect("JSON").chars().collect();
        let at = at.index(text.len());
        let rest = text.iter().skip(at + usize::from(cut));
        let changed: String = text.iter().take(at).copied().chain(change.chars()).chain(rest.copied()).collect();
        read(&changed);
    }
}

#[test]
fn other_forms_are_left_to_others() {
    let plain = r#"[{"id":"a","role":"user","parts":[{"type":"text","text":"words"}]}]"#;
    assert_eq!(read(plain).map(|read| read.len()), Some(1));
    for (from, to) in [
        ("[{", "[ {"),
        ("\"a\"", "\" a\""),
        ("\"a\"", "\"\""),
        ("user", "nobody"),
        ("words", "two\nlines"),
        ("words", "wo\\rds\\"),
        ("words", "\\ud800"),
        ("words", "\\"),
        ("}]}]", "}]}],"),
        ("}]}]", "}]}] "),
        ("}]}]", "}]}"),
        ("\"text\":\"words\"", "\"text\":null"),
        ("\"type\":\"text\",\"text\":\"words\"", "\"text\":\"words\",\"type\":\"text\""),
        ("[{\"id\"", "[{\"id\":\"b\",\"id\""),
        (plain, "[]"),
        (plain, "{}"),
        (plain, ""),
    ] {
        assert_eq!(read(&plain.replacen(from, to, 1)), None, "{from} -> {to}");
    }
}

#[test]
fn values_may_be_nested_as_deeply_as_they_are_written_and_no_deeper() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let call = |args: &str| {
        let part = format!(r#"{{"type":"tool_call","id":"c","name":"n","args":{args}}}"#);
        format!(r#"[{{"id":"a","role":"assistant","parts":[{part}]}}]"#)
    };
    assert!(read(&call(&nested(90))).is_some());
    assert!(read(&call(&nested(110))).is_none());
    assert!(read(&call(&nested(100_000))).is_none());
    assert!(read(&call("1")).is_some());
    assert!(read(&call("1 1")).is_none());
}

#[test]
fn texts_of_any_length_end_where_they_end() {
    for len in 0..70 {
        for (end, whole) in [("", true), ("\\n", true), ("\\\"", true), ("\u{1f}", false)] {
            let words = format!("{}{end}ä", "x".repeat(len));
            let text = format!(
                r#"[{{"id":"a","role":"tool","parts":[{{"type":"text","text":"{words}"}}]}}]"#
            );
            assert_eq!(read(&text).is_some(), whole, "{text}");
        }
    }
}
