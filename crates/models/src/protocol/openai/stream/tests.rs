use crate::ModelError;
use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::Protocol;
use crate::protocol::tests::{decode as decode_in, sse};
use weftwork_types::port::EgressError;
use weftwork_types::usage::Tokens;

fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    cut: Option<EgressError>,
) -> (Vec<ChatEvent>, Result<(), ModelError>) {
    decode_in(Protocol::Openai, pieces, cut)
}

fn read(text: &str) -> Vec<ChatEvent> {
    let (events, result) = decode([text.as_bytes()], None);
    assert_eq!(result, Ok(()), "{text}");
    events
}

fn fail(text: &str) -> ModelError {
    decode([text.as_bytes()], None).1.expect_err(text)
}

fn delta(delta: &str) -> String {
    format!(r#"{{"id":"c1","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"id":"c1","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn text(text: &str) -> ChatEvent {
    ChatEvent::TextDelta(text.to_owned())
}

fn call(index: usize, id: Option<&str>, name: Option<&str>, args: &str) -> ChatEvent {
    ChatEvent::ToolCallDelta {
        index,
        id: id.map(str::to_owned),
        name: name.map(str::to_owned),
        args: args.to_owned(),
    }
}

fn end(reason: FinishReason) -> ChatEvent {
    ChatEvent::Finish { reason, provider_call_id: Some("c1".to_owned()) }
}

fn used() -> ChatEvent {
    ChatEvent::Usage(Tokens::reported(11, 7))
}

#[test]
fn cached_and_reasoning_tokens_are_parts_of_the_counts() {
    let tokens_of = |usage: &str| {
        let usage = format!(r#"{{"choices":[],"usage":{}}}"#, usage.replace('\n', ""));
        match read(&sse(&[&finish("stop"), &usage, "[DONE]"])).as_slice() {
            [ChatEvent::Usage(tokens), ..] => *tokens,
            other => panic!("no usage: {other:?}"),
        }
    };
    let within = r#"{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,
        "prompt_tokens_details":{"cached_tokens":8,"audio_tokens":null},
        "completion_tokens_details":{"reasoning_tokens":5}}"#;
    assert_eq!(tokens_of(within), Tokens::reported(11, 7).cached(8).reasoning(5));
    // Reasoning is counted beside the completion.
    let beside = r#"{"prompt_tokens":11,"completion_tokens":7,"total_tokens":23,
        "completion_tokens_details":{"reasoning_tokens":5}}"#;
    assert_eq!(tokens_of(beside), Tokens::reported(11, 12).reasoning(5));
    let others = [
        r#"{"prompt_tokens":11,"completion_tokens":7,"prompt_cache_hit_tokens":8}"#,
        r#"{"prompt_tokens":11,"completion_tokens":7,"cached_tokens":8}"#,
    ];
    for usage in others {
        assert_eq!(tokens_of(usage), Tokens::reported(11, 7).cached(8), "{usage}");
    }
    let without = r#"{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":null,
        "completion_tokens_details":{"reasoning_tokens":null}}"#;
    assert_eq!(tokens_of(without), Tokens::reported(11, 7));
}

#[test]
fn content_before_done_is_complete_and_nothing_before_it_is_truncated() {
    for last in ["[DONE]", &finish("bored")] {
        let events = read(&sse(&[&delta(r#"{"content":"hal"}"#), last]));
        assert_eq!(events, [text("hal"), end(FinishReason::Stop)]);
    }
    for last in ["[DONE]", &finish("bored"), ""] {
        let error = fail(&sse(&[&delta(r#"{"role":"assistant"}"#), last]));
        assert!(matches!(error, ModelError::Truncated { .. }), "{error}");
    }
    let error = fail(&sse(&[&delta(r#"{"content":"hal"}"#)]));
    assert!(matches!(error, ModelError::Truncated { events: 1, .. }), "{error}");
    for reason in ["abort", "error", "insufficient_system_resource"] {
        assert!(matches!(fail(&sse(&[&finish(reason)])), ModelError::Truncated { .. }));
    }
}

#[test]
fn finish_reasons_have_one_meaning_each() {
    for (word, reason) in [
        ("stop", FinishReason::Stop),
        ("tool_calls", FinishReason::ToolCalls),
        ("function_call", FinishReason::ToolCalls),
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
    ] {
        assert_eq!(read(&sse(&[&finish(word), "[DONE]"])), [end(reason)]);
    }
}

#[test]
fn calls_are_told_apart_however_servers_number_them() {
    let piece = |index: &str, id: &str, name: &str, args: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{{index}"id":{id},"function":{{"name":{name},"arguments":{args}}}}}]}}"#
        ))
    };
    let two = |pieces: &[String]| {
        let mut chunks: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let last = finish("tool_calls");
        chunks.push(&last);
        let mut events = read(&sse(&chunks));
        events.pop();
        events
    };
    let expected = [
        call(0, Some("x"), Some("f"), "{\"n\":"),
        call(0, None, None, "1}"),
        call(1, Some("y"), Some("f"), "{}"),
    ];
    // No index at all, then index 0 for every call, then ids and names repeated in each fragment.
    for (index, again) in [("", "null"), (r#""index":0,"#, "null"), (r#""index":0,"#, r#""x""#)] {
        let name = if again == "null" { "null" } else { r#""f""# };
        let pieces = [
            piece(index, r#""x""#, r#""f""#, r#""{\"n\":""#),
            piece(index, again, name, r#""1}""#),
            piece(index, r#""y""#, r#""f""#, r#""{}""#),
        ];
        assert_eq!(two(&pieces), expected, "{index} {again}");
    }
    // Neither index nor id: a name starts a call. Arguments may be the object itself.
    let pieces = [piece("", "null", r#""f""#, r#"{"n":1}"#), piece("", r#""""#, r#""g""#, "null")];
    assert_eq!(two(&pieces), [call(0, None, Some("f"), "{\"n\":1}"), call(1, None, Some("g"), "")]);
}

#[test]
fn other_choices_and_other_shapes_of_content_are_read() {
    let body = sse(&[
        r#"{"id":"c1","choices":[{"index":1,"delta":{"content":"not this"}}]}"#,
        r#"{"choices":null}"#,
        &delta(
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"hi"}]}"#,
        ),
        &delta(r#"{"refusal":"no"}"#),
        &finish("stop"),
    ]);
    let thought = ChatEvent::ReasoningDelta("hm".to_owned());
    let returned = r#"chat@p:{"model":"tiny","thinking":{}}"#;
    let returned = ChatEvent::ReasoningSignature(returned.to_owned());
    let events = [thought, text("hi"), text("no"), returned, end(FinishReason::Stop)];
    assert_eq!(read(&body), events);
}

#[test]
fn a_server_that_does_not_stream_is_read_too() {
    let body = r#" {"id":"c1","choices":[{"index":0,"finish_reason":"tool_calls","message":
        {"role":"assistant","content":"ok","tool_calls":[{"id":"a","type":"function",
        "function":{"name":"add","arguments":"{\"a\":1}"}}]}}],
        "usage":{"prompt_tokens":11,"completion_tokens":7}}"#;
    let events = [
        text("ok"),
        call(0, Some("a"), Some("add"), "{\"a\":1}"),
        used(),
        end(FinishReason::ToolCalls),
    ];
    assert_eq!(read(body), events);
    let (head, tail) = body.as_bytes().split_at(40);
    assert_eq!(decode([head, tail], None), (events.to_vec(), Ok(())));
    assert!(matches!(fail(r#"{"id":"c1","choices":[]}"#), ModelError::Truncated { .. }));
    assert!(matches!(fail(r#"{"id":"c1","cho"#), ModelError::Malformed { .. }));
}

#[test]
fn errors_inside_an_answer_are_named() {
    let said = |body: &str| fail(&sse(&[&delta(r#"{"content":"hal"}"#), body]));
    let error = said(r#"{"error":{"message":"overloaded","type":"server_error"}}"#);
    assert!(matches!(error, ModelError::Provider { status: 200, .. }), "{error}");
    assert!(error.is_retriable());
    let error = said(r#"{"error":{"message":"busy","code":503}}"#);
    assert!(matches!(error, ModelError::Provider { status: 503, .. }), "{error}");
    let error = said(r#"{"error":{"message":"slow","type":"rate_limit_exceeded"}}"#);
    assert!(matches!(error, ModelError::Throttled { .. }), "{error}");
    let error = said(r#"{"error":{"message":"empty","code":"insufficient_quota"}}"#);
    assert!(!error.is_retriable(), "{error}");
    let error = said(r#"{"message":"bad field","detail":"x"}"#);
    assert!(error.to_string().contains("bad field"), "{error}");
    let error = fail(r#"{"error":"model not found","code":404}"#);
    assert!(error.to_string().contains("model not found"), "{error}");
}

#[test]
fn garbage_is_malformed_and_shown_without_the_key() {
    for body in ["<html>busy</html>", "data: {oops sk-hunter2\n\n", "data: [1]\n\n"] {
        let error = fail(body);
        assert!(matches!(error, ModelError::Malformed { .. }), "{body}: {error}");
        assert!(!error.to_string().contains("hunter2"));
    }
    let long = format!("data: {}", "x".repeat((16 << 20) + 1));
    assert!(fail(&long).to_string().contains("larger than 16 MiB"));
    assert!(matches!(fail(""), ModelError::Truncated { events: 0, .. }));
    assert!(matches!(fail(": ping\n\nevent: x\n\n"), ModelError::Truncated { events: 0, .. }));
}
