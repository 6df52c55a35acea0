//! Laws that hold for every protocol, on one full answer each.
//!
//! The answers were written after the documentation of each protocol (2026-11-25); those of
//! `recorded` come from servers.

mod habits;
mod recorded;
mod requests;
mod returned;
mod shapes;

use super::decoder::Decoder;
use super::failure::Source;
use super::*;
use crate::chat::{ChatEvent, FinishReason};
use crate::{ModelError, Secret};
use proptest::prelude::*;
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;
use weftwork_types::port::EgressError;
use weftwork_types::usage::Tokens;

/// The number of splits of each answer that are tried.
fn splits() -> u32 {
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    if is_full { 10_000 } else { 400 }
}

pub(super) fn config(protocol: Protocol) -> ServerConfig {
    ServerConfig {
        provider: "p".to_owned(),
        protocol,
        base_url: "https://p.example/v1".to_owned(),
        key: Secret::new("sk-hunter2"),
        key_variable: "P_KEY".to_owned(),
        key_header: None,
        extras: crate::RequestExtras::default(),
        quirks: Quirks::default(),
        head_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
    }
}

pub(super) fn decode<'a>(
    protocol: Protocol,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    cut: Option<EgressError>,
) -> (Vec<ChatEvent>, Result<(), ModelError>) {
    let source = Source::of(&config(protocol));
    let mut decoder = Decoder::new(source, 200, "tiny", protocol.reader());
    let mut out = VecDeque::new();
    let mut result = Ok(());
    for piece in pieces {
        result = decoder.push(piece, &mut out);
        if result.is_err() || decoder.is_done() {
            return (out.into(), result);
        }
    }
    if result.is_ok() {
        result = decoder.cut(cut, &mut out);
    }
    (out.into(), result)
}

pub(super) fn sse(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// A full answer: reasoning, text, two calls with arguments in fragments, usage.
struct Sample {
    protocol: Protocol,
    body: &'static str,
    /// A part of the document after which the answer is complete.
    last: &'static str,
    id: &'static str,
    signature: Option<&'static str>,
    tokens: Tokens,
}

fn samples() -> [Sample; 4] {
    [
        Sample {
            protocol: Protocol::Openai,
            body: include_str!("../../tests/wire/openai.sse"),
            last: r#""finish_reason":"tool_calls""#,
            id: "chatcmpl-1",
            signature: Some(r#"chat@p:{"model":"tiny","text":"reasoning_content"}"#),
            tokens: Tokens::reported(40, 30).cached(16).reasoning(8),
        },
        Sample {
            protocol: Protocol::OpenaiResponses,
            body: include_str!("../../tests/wire/openai-responses.sse"),
            last: "event: response.completed",
            id: "resp_1",
            signature: Some(r#"openai@p:{"id":"rs_1","encrypted_content":"Zm9v"}"#),
            tokens: Tokens::reported(40, 30).cached(16).reasoning(8),
        },
        Sample {
            protocol: Protocol::Anthropic,
            body: include_str!("../../tests/wire/anthropic.sse"),
            last: r#""stop_reason":"tool_use""#,
            id: "msg_1",
            signature: Some("anthropic@p:Zm9v"),
            tokens: Tokens::reported(40, 30).cached(16).cache_written(4),
        },
        Sample {
            protocol: Protocol::Gemini,
            body: include_str!("../../tests/wire/gemini.sse"),
            last: r#""finishReason":"STOP""#,
            id: "gem-1",
            signature: Some("gemini@p:Zm9v"),
            tokens: Tokens::reported(40, 30).cached(16).reasoning(8),
        },
    ]
}

/// The answer of all samples: deltas of one kind joined, so that protocols that send arguments in
/// one piece are equal to those that send fragments, and the last account before the end.
fn said(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let mut out: Vec<ChatEvent> = Vec::new();
    let mut usage = None;
    for event in events {
        if let ChatEvent::Usage(_) = event {
            usage = Some(event.clone());
            continue;
        }
        if let ChatEvent::Finish { .. } = event {
            out.extend(usage.take());
        }
        match (out.last_mut(), event) {
            (Some(ChatEvent::TextDelta(so_far)), ChatEvent::TextDelta(more))
            | (Some(ChatEvent::ReasoningDelta(so_far)), ChatEvent::ReasoningDelta(more)) => {
                so_far.push_str(more);
            }
            (
                Some(ChatEvent::ToolCallDelta { index: last, args: so_far, .. }),
                ChatEvent::ToolCallDelta { index, args, .. },
            ) if last == index => so_far.push_str(args),
            _ => out.push(event.clone()),
        }
    }
    out
}

fn expected(sample: &Sample) -> Vec<ChatEvent> {
    let call = |index: usize, id: &str, args: &str| ChatEvent::ToolCallDelta {
        index,
        id: Some(id.to_owned()),
        name: Some("lookup".to_owned()),
        args: args.to_owned(),
    };
    let mut events = vec![
        ChatEvent::ReasoningDelta("Hm, ja: ü".to_owned()),
        ChatEvent::TextDelta("Let me look. 🧵".to_owned()),
        call(0, "call_a", r#"{"order_id":"A1"}"#),
        call(1, "call_b", r#"{"order_id":"B2"}"#),
        ChatEvent::Usage(sample.tokens),
        ChatEvent::Finish {
            reason: FinishReason::ToolCalls,
            provider_call_id: Some(sample.id.to_owned()),
        },
    ];
    if let Some(signature) = sample.signature {
        // Reasoning is signed as a whole, and Gemini signs the first call. Chat completions sign
        // nothing: what goes back is known at the end.
        let at = match sample.protocol {
            Protocol::Gemini => 2,
            Protocol::Openai => 4,
            Protocol::OpenaiResponses | Protocol::Anthropic => 1,
        };
        events.insert(at, ChatEvent::ReasoningSignature(signature.to_owned()));
    }
    events
}

#[test]
fn a_full_answer_means_the_same_in_every_protocol() {
    for sample in samples() {
        let whole = decode(sample.protocol, [sample.body.as_bytes()], None);
        assert_eq!(whole.1, Ok(()), "{:?}", sample.protocol);
        assert_eq!(said(&whole.0), expected(&sample), "{:?}", sample.protocol);
        let crlf = sample.body.replace('\n', "\r\n");
        assert_eq!(decode(sample.protocol, [crlf.as_bytes()], None), whole);
    }
}

#[test]
fn any_split_of_the_bytes_gives_the_same_events() {
    for sample in samples() {
        let bytes = sample.body.as_bytes();
        let whole = decode(sample.protocol, [bytes], None);
        for split in 0..splits() {
            let pieces = pieces(bytes, split);
            let found = decode(sample.protocol, pieces, None);
            assert_eq!(found, whole, "{:?}, split {split}", sample.protocol);
        }
    }
}

/// A split of bytes by its number: in two, at each position in turn, and in up to 40 pieces at
/// random positions.
fn pieces(bytes: &[u8], split: u32) -> Vec<&[u8]> {
    let length = bytes.len();
    let mut cuts = vec![0, length];
    if split.is_multiple_of(2) && (split as usize / 2) < length {
        cuts.push(split as usize / 2);
    } else {
        let mut state = u64::from(split);
        for _ in 0..split % 40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            cuts.push((state >> 33) as usize % length);
        }
    }
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn an_answer_cut_anywhere_before_its_end_is_truncated() {
    for Sample { protocol, body, last, .. } in samples() {
        let complete = body.find(last).expect("it is there");
        let complete = complete + body[complete..].find("\n\n").expect("an end") + 2;
        // In the fast tier every third place, from another one in each process.
        let step = if splits() == 10_000 { 1 } else { 3 };
        for at in (std::process::id() as usize % step..body.len()).step_by(step) {
            let broken = EgressError::Broken { host: "p".to_owned(), reason: "gone".to_owned() };
            for cut in [None, Some(broken)] {
                let (events, result) = decode(protocol, [&body.as_bytes()[..at]], cut.clone());
                let whole = events.iter().any(|event| matches!(event, ChatEvent::Finish { .. }));
                // The empty line after the last event may be missing.
                let complete = if cut.is_none() { complete - 2 } else { complete };
                assert_eq!(whole, at >= complete, "{protocol:?} cut at {at}");
                match result {
                    Ok(()) => assert!(at >= complete, "{protocol:?} cut at {at}"),
                    Err(ModelError::Truncated { .. }) => {}
                    Err(ModelError::Transport { .. }) => {
                        assert!(cut.is_some() && events.is_empty())
                    }
                    Err(other) => panic!("{protocol:?} cut at {at}: {other}"),
                }
            }
        }
    }
}

#[test]
fn errors_inside_an_answer_are_named() {
    let overloaded = [
        (Protocol::Openai, r#"{"error":{"message":"sk-hunter2 overloaded"}}"#),
        (
            Protocol::OpenaiResponses,
            r#"{"type":"error","code":"server_is_overloaded","message":"sk-hunter2 overloaded"}"#,
        ),
        (
            Protocol::OpenaiResponses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"sk-hunter2 overloaded"}}}"#,
        ),
        (
            Protocol::Anthropic,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"sk-hunter2 overloaded"}}"#,
        ),
        (
            Protocol::Gemini,
            r#"{"error":{"code":503,"message":"sk-hunter2 overloaded","status":"UNAVAILABLE"}}"#,
        ),
    ];
    for (protocol, document) in overloaded {
        for body in [sse(&[document]), document.to_owned()] {
            let error = decode(protocol, [body.as_bytes()], None).1.expect_err("refused");
            assert!(matches!(error, ModelError::Provider { .. }), "{protocol:?}: {error}");
            assert!(error.is_retriable(), "{protocol:?}");
            let text = error.to_string();
            assert!(text.contains("overloaded") && !text.contains("hunter2"), "{text}");
        }
    }
}

/// Documents that end an answer, and what they mean.
#[test]
fn reasons_for_an_end_have_one_meaning_each() {
    use FinishReason::{ContentFilter, ContextLength, Length, Stop};
    let anthropic = |word: &str| {
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}"}},"usage":{{}}}}"#)
    };
    let gemini = |word: &str| format!(r#"{{"candidates":[{{"finishReason":"{word}"}}]}}"#);
    let responses = |status: &str, reason: &str| {
        format!(
            r#"{{"type":"response.{status}","response":{{"status":"{status}","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    let cases = [
        (Protocol::Anthropic, anthropic("end_turn"), Ok(Stop)),
        (Protocol::Anthropic, anthropic("stop_sequence"), Ok(Stop)),
        (Protocol::Anthropic, anthropic("max_tokens"), Ok(Length)),
        (Protocol::Anthropic, anthropic("model_context_window_exceeded"), Ok(ContextLength)),
        (Protocol::Anthropic, anthropic("refusal"), Ok(ContentFilter)),
        (Protocol::Anthropic, anthropic("bored"), Err("W0307")),
        (Protocol::Gemini, gemini("STOP"), Ok(Stop)),
        (Protocol::Gemini, gemini("MAX_TOKENS"), Ok(Length)),
        (Protocol::Gemini, gemini("SAFETY"), Ok(ContentFilter)),
        (
            Protocol::Gemini,
            r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#.to_owned(),
            Ok(ContentFilter),
        ),
        (Protocol::Gemini, gemini("MALFORMED_FUNCTION_CALL"), Err("W0307")),
        (Protocol::Gemini, gemini("BORED"), Err("W0307")),
        (Protocol::OpenaiResponses, responses("completed", ""), Ok(Stop)),
        (Protocol::OpenaiResponses, responses("incomplete", "max_output_tokens"), Ok(Length)),
        (Protocol::OpenaiResponses, responses("incomplete", "content_filter"), Ok(ContentFilter)),
        (Protocol::OpenaiResponses, responses("incomplete", "bored"), Err("W0307")),
        (Protocol::OpenaiResponses, responses("failed", ""), Err("W0307")),
    ];
    for (protocol, document, meaning) in cases {
        let (events, result) = decode(protocol, [sse(&[&document]).as_bytes()], None);
        let finish = events.iter().find_map(|event| match event {
            ChatEvent::Finish { reason, .. } => Some(*reason),
            _ => None,
        });
        let found = result.map_err(|error| error.code().0).map(|()| finish.expect("an end"));
        assert_eq!(found, meaning, "{document}");
    }
}

/// The whole answer of a server that does not stream.
#[test]
fn an_answer_that_was_not_streamed_is_read_too() {
    let bodies = [
        (
            Protocol::Anthropic,
            json!({
                "type": "message", "id": "1", "role": "assistant", "stop_reason": "tool_use",
                "content": [
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "ok"},
                    {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
                ],
                "usage": {"input_tokens": 11, "output_tokens": 7},
            }),
            Some("anthropic-redacted@p:x"),
        ),
        (
            Protocol::Gemini,
            json!({
                "responseId": "1",
                "candidates": [{"finishReason": "STOP", "content": {"parts": [
                    {"text": "ok"}, {"functionCall": {"id": "a", "name": "add", "args": {"a": 1}}},
                ]}}],
                "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7},
            }),
            None,
        ),
        (
            Protocol::OpenaiResponses,
            json!({
                "object": "response", "id": "1", "status": "completed", "error": null,
                "output": [
                    {"type": "message", "content": [{"type": "output_text", "text": "ok"}]},
                    {"type": "function_call", "call_id": "a", "name": "add",
                     "arguments": "{\"a\":1}"},
                ],
                "usage": {"input_tokens": 11, "output_tokens": 7},
            }),
            None,
        ),
    ];
    for (protocol, body, signature) in bodies {
        let (events, result) = decode(protocol, [body.to_string().as_bytes()], None);
        assert_eq!(result, Ok(()), "{protocol:?}");
        let mut expected = vec![
            ChatEvent::TextDelta("ok".to_owned()),
            ChatEvent::ToolCallDelta {
                index: 0,
                id: Some("a".to_owned()),
                name: Some("add".to_owned()),
                args: r#"{"a":1}"#.to_owned(),
            },
            ChatEvent::Usage(Tokens::reported(11, 7)),
            ChatEvent::Finish {
                reason: FinishReason::ToolCalls,
                provider_call_id: Some("1".to_owned()),
            },
        ];
        let signature = signature.map(|text| ChatEvent::ReasoningSignature(text.to_owned()));
        expected.splice(0..0, signature);
        assert_eq!(said(&events), expected, "{protocol:?}");
    }
}

/// Accounts that a protocol does not have. A member `usage` of any form is one too many for no
/// answer.
#[test]
fn no_account_spoils_a_paid_answer() {
    let accounts = [
        json!({"promptTokens": 11, "completionTokens": 7}),
        json!({"input_tokens": "11", "output_tokens": 7.0}),
        json!({"billed_units": {"in": 11, "out": 7}}),
        json!({"prompt_tokens": -1, "completion_tokens": [7], "cost": {"usd": 1},
               "prompt_tokens_details": 3, "completion_tokens_details": "none"}),
        json!("18 tokens"),
        json!([11, 7]),
        json!(18),
        json!(true),
    ];
    let ended = |protocol, account: &Value| match protocol {
        Protocol::Openai => json!({"id": 7, "usage": account, "choices": [
            {"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}),
        Protocol::Anthropic => json!({"type": "message", "id": 7, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "ok"}], "usage": account}),
        Protocol::Gemini => json!({"responseId": 7, "usageMetadata": account, "candidates": [
            {"finishReason": "STOP", "content": {"parts": [{"text": "ok"}]}}]}),
        Protocol::OpenaiResponses => json!({"object": "response", "id": 7, "usage": account,
            "status": "completed", "error": null,
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}]}),
    };
    for protocol in samples().map(|sample| sample.protocol) {
        for (number, account) in accounts.iter().enumerate() {
            let body = ended(protocol, account).to_string();
            let (events, result) = decode(protocol, [body.as_bytes()], None);
            assert_eq!(result, Ok(()), "{protocol:?}: {account}");
            let found = events.iter().find_map(|event| match event {
                ChatEvent::Usage(tokens) => Some(*tokens),
                _ => None,
            });
            let expected = (number < 2).then(|| Tokens::reported(11, 7));
            assert_eq!(found, expected, "{protocol:?}: {account}");
            let is_text = |event: &ChatEvent| matches!(event, ChatEvent::TextDelta(_));
            assert!(events.iter().any(is_text), "{protocol:?}: {account}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for protocol in samples().map(|sample| sample.protocol) {
            decode(protocol, [bytes.as_slice()], None).1.ok();
            let framed = [b"data: ".as_slice(), &bytes, b"\n\n"].concat();
            decode(protocol, [framed.as_slice()], None).1.ok();
        }
    }
}
