//! A suite for every protocol, over real connections to a server that speaks it.
//!
//! The cells of the table are printed. A cell that a protocol does not have is refused by name, and
//! the table says so.

use crate::desk::{Desk, request};
use crate::openai::weather;
use crate::options;
use crate::server::{configured, server};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use weftwork_models::{
    ChatRequest, ChatResponse, FinishReason, ModelCallError, ModelCaller, ModelError, RefusalKind,
    RetryPolicy, ToolChoice,
};
use weftwork_testkit::{LoopbackServer, ManualClock, Received, Reply};
use weftwork_types::MessageId;
use weftwork_types::message::{Media, Message, Part, Role};
use weftwork_types::port::EgressError;
use weftwork_types::usage::{Tokens, UsageStatus};

/// Timeout for servers that send nothing, below the time limit of a test.
const PATIENCE_MS: u64 = 1_000;
/// Timeout for servers that answer, longer than a busy machine takes.
pub(crate) const ENOUGH_MS: u64 = 60_000;

pub(crate) const PROTOCOLS: [&str; 4] = ["openai", "openai_responses", "anthropic", "gemini"];

/// A part of an answer.
#[derive(Clone, Copy)]
pub(crate) enum Said {
    Text(&'static str),
    Reasoning(&'static str),
    Call(&'static str, &'static str),
}

/// The documents of an answer in a protocol, with or without usage.
fn documents(protocol: &str, said: &[Said], usage: bool) -> Vec<Value> {
    match protocol {
        "openai" => openai(said, usage),
        "openai_responses" => responses(said, usage),
        "anthropic" => anthropic(said, usage),
        _ => gemini(said, usage),
    }
}

fn has_calls(said: &[Said]) -> bool {
    said.iter().any(|said| matches!(said, Said::Call(..)))
}

fn openai(said: &[Said], usage: bool) -> Vec<Value> {
    let delta = |delta: Value, finish: Value| json!({"id": "lab-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut calls = 0;
    let mut out: Vec<Value> = Vec::new();
    for said in said {
        let document = match said {
            Said::Text(text) => delta(json!({"content": text}), Value::Null),
            Said::Reasoning(text) => delta(json!({"reasoning_content": text}), Value::Null),
            Said::Call(id, city) => {
                let args = json!({"city": city}).to_string();
                let (head, tail) = args.split_at(5);
                let call = json!({"index": calls, "id": id,
                    "function": {"name": "get_weather", "arguments": head}});
                out.push(delta(json!({"tool_calls": [call]}), Value::Null));
                let more = json!({"index": calls, "function": {"arguments": tail}});
                calls += 1;
                delta(json!({"tool_calls": [more]}), Value::Null)
            }
        };
        out.push(document);
    }
    out.push(delta(json!({}), json!(if calls > 0 { "tool_calls" } else { "stop" })));
    if usage {
        let usage = json!({"prompt_tokens": 11, "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 4}});
        out.push(json!({"id": "lab-1", "choices": [], "usage": usage}));
    }
    out
}

fn responses(said: &[Said], usage: bool) -> Vec<Value> {
    let mut out = vec![json!({"type": "response.created", "response": {"id": "lab-1"}})];
    for (index, said) in said.iter().enumerate() {
        match said {
            Said::Text(text) => {
                out.push(json!({"type": "response.output_text.delta", "delta": text}));
            }
            Said::Reasoning(text) => {
                out.push(json!({"type": "response.reasoning_summary_text.delta", "delta": text}));
                out.push(json!({"type": "response.output_item.done", "output_index": index,
                    "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "yy"}}));
            }
            Said::Call(id, city) => {
                let args = json!({"city": city}).to_string();
                out.push(json!({"type": "response.output_item.added", "output_index": index,
                    "item": {"type": "function_call", "call_id": id, "name": "get_weather"}}));
                for delta in [&args[..5], &args[5..]] {
                    out.push(json!({"type": "response.function_call_arguments.delta",
                        "output_index": index, "delta": delta}));
                }
            }
        }
    }
    let mut last = json!({"id": "lab-1", "status": "completed"});
    if usage {
        last["usage"] = json!({"input_tokens": 11, "output_tokens": 7,
            "input_tokens_details": {"cached_tokens": 4}});
    }
    out.push(json!({"type": "response.completed", "response": last}));
    out
}

fn anthropic(said: &[Said], usage: bool) -> Vec<Value> {
    let mut message = json!({"id": "lab-1", "type": "message", "content": []});
    if usage {
        message["usage"] =
            json!({"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1});
    }
    let mut out = vec![json!({"type": "message_start", "message": message})];
    for (index, said) in said.iter().enumerate() {
        let mut block = |block: Value| {
            out.push(json!({"type": "content_block_start", "index": index,
                "content_block": block}));
        };
        let deltas = match said {
            Said::Text(text) => {
                block(json!({"type": "text", "text": ""}));
                vec![json!({"type": "text_delta", "text": text})]
            }
            Said::Reasoning(text) => {
                block(json!({"type": "thinking", "thinking": "", "signature": ""}));
                vec![
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": "yy"}),
                ]
            }
            Said::Call(id, city) => {
                let args = json!({"city": city}).to_string();
                block(json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {}}));
                [&args[..5], &args[5..]]
                    .map(|args| json!({"type": "input_json_delta", "partial_json": args}))
                    .to_vec()
            }
        };
        out.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        out.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if has_calls(said) { "tool_use" } else { "end_turn" };
    let mut last = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    if usage {
        last["usage"] = json!({"output_tokens": 7});
    }
    out.extend([last, json!({"type": "message_stop"})]);
    out
}

fn gemini(said: &[Said], usage: bool) -> Vec<Value> {
    let chunk = |part: Value| {
        json!({"responseId": "lab-1",
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})
    };
    let mut out: Vec<Value> = said
        .iter()
        .map(|said| match said {
            Said::Text(text) => chunk(json!({"text": text})),
            Said::Reasoning(text) => {
                chunk(json!({"text": text, "thought": true, "thoughtSignature": "yy"}))
            }
            Said::Call(id, city) => chunk(json!({"functionCall": {
                "id": id, "name": "get_weather", "args": {"city": city},
            }})),
        })
        .collect();
    let mut last = chunk(json!({"text": ""}));
    last["candidates"][0]["finishReason"] = json!("STOP");
    if usage {
        last["usageMetadata"] = json!({"promptTokenCount": 11, "candidatesTokenCount": 7,
            "cachedContentTokenCount": 4});
    }
    out.push(last);
    out
}

/// The answer as a stream, with each document sent by itself.
fn streamed(protocol: &str, documents: &[Value]) -> Reply {
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let reply = documents.iter().fold(head, |reply, one| reply.piece(format!("data: {one}\n\n")));
    if protocol == "openai" { reply.piece("data: [DONE]\n\n") } else { reply }
}

pub(crate) fn answer(protocol: &str, said: &[Said], usage: bool) -> Reply {
    streamed(protocol, &documents(protocol, said, usage)).end()
}

pub(crate) async fn playing(reply: Reply) -> LoopbackServer {
    server(move |_, _| reply.clone()).await
}

/// Makes one attempt.
pub(crate) async fn ask(
    protocol: &str,
    server: &LoopbackServer,
    request: ChatRequest,
    desk: &std::sync::Arc<Desk>,
    ms: u64,
) -> Result<ChatResponse, ModelCallError> {
    let model = configured(server, &format!("protocol = \"{protocol}\""), ms);
    let clock = ManualClock::moved_by_sleeps();
    ModelCaller::new(RetryPolicy::once()).call(&*model, request, &desk.context(&clock)).await
}

pub(crate) async fn answered(
    protocol: &str,
    said: &[Said],
    request: ChatRequest,
) -> (ChatResponse, Value) {
    let server = playing(answer(protocol, said, true)).await;
    let found = ask(protocol, &server, request, &Desk::new(), ENOUGH_MS).await;
    let body = body(&server.received()[0]);
    (found.expect("an answer"), body)
}

pub(crate) fn body(received: &Received) -> Value {
    serde_json::from_slice(&received.body).expect("JSON")
}

async fn failed(protocol: &str, reply: Reply, ms: u64) -> ModelError {
    let server = playing(reply).await;
    let desk = Desk::new();
    let error = ask(protocol, &server, request("hi"), &desk, ms).await.expect_err("a failure");
    assert_eq!(desk.facts().len(), 1, "each attempt has one usage fact");
    let fact = &desk.facts()[0];
    assert_eq!(fact.status, UsageStatus::Error);
    let stored = json!(error.error.fault()).to_string();
    assert!(!stored.contains("hunter2"), "{stored}");
    *error.error
}

pub(crate) fn with_tools(choice: ToolChoice) -> ChatRequest {
    ChatRequest { tools: vec![weather()], tool_choice: choice, ..request("Weather in Oslo?") }
}

/// A cell of the table.
pub(crate) type Cell = Result<(), String>;

async fn text(protocol: &str) -> Cell {
    let said = [Said::Text("Hel"), Said::Text("lo 🧵")];
    let (answer, _) = answered(protocol, &said, request("hi")).await;
    assert_eq!(answer.message.joined_text(), "Hello 🧵");
    assert_eq!(answer.finish, FinishReason::Stop);
    assert_eq!(answer.provider_call_id.as_deref(), Some("lab-1"));
    Ok(())
}

/// Reasoning comes with its signature, which goes back unchanged.
async fn reasoning(protocol: &str) -> Cell {
    let said = [Said::Reasoning("hm"), Said::Text("ok")];
    let (first, _) = answered(protocol, &said, request("hi")).await;
    let Some(Part::Reasoning { text, signature }) = first.message.parts.first() else {
        panic!("{protocol}: {:?}", first.message);
    };
    assert_eq!((text.as_str(), signature.is_some()), ("hm", protocol != "openai"), "{protocol}");
    let mut next = request("hi");
    next.messages.push(first.message.clone());
    let id = MessageId::new("m3").expect("an id");
    next.messages.push(Message::text(id, Role::User, "go on"));
    let (_, body) = answered(protocol, &said, next).await;
    let sent_back = body.to_string().contains("\"yy\"");
    assert_eq!(sent_back, signature.is_some(), "{protocol}: {body}");
    match signature {
        Some(_) => Ok(()),
        None => Err("read; it has no signatures".to_owned()),
    }
}

async fn parallel_calls(protocol: &str) -> Cell {
    let said = [Said::Text("ok"), Said::Call("c1", "Oslo"), Said::Call("c2", "Rome")];
    let (answer, _) = answered(protocol, &said, with_tools(ToolChoice::Auto)).await;
    let calls: Vec<_> =
        answer.message.tool_calls().map(|call| (call.id.as_str(), call.args.clone())).collect();
    assert_eq!(calls, [("c1", json!({"city": "Oslo"})), ("c2", json!({"city": "Rome"}))]);
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    Ok(())
}

async fn tool_choices(protocol: &str) -> Cell {
    let named = ToolChoice::Named("get_weather".to_owned());
    let mut bodies = Vec::new();
    for choice in [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required, named] {
        let (_, body) = answered(protocol, &[Said::Text("ok")], with_tools(choice)).await;
        bodies.push(body.to_string());
    }
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 4, "{protocol}: each choice is another request");
    Ok(())
}

async fn usage(protocol: &str) -> Cell {
    let (answer, _) = answered(protocol, &[Said::Text("ok")], request("hi")).await;
    assert_eq!(answer.tokens, Tokens::reported(11, 7).cached(4), "{protocol}");
    Ok(())
}

async fn no_usage(protocol: &str) -> Cell {
    let server = playing(answer(protocol, &[Said::Text("a few words")], false)).await;
    let found = ask(protocol, &server, request("hi"), &Desk::new(), ENOUGH_MS).await;
    let tokens = found.expect("an answer").tokens;
    assert!(tokens.estimated && tokens.input > 0 && tokens.output == 3, "{protocol}: {tokens:?}");
    Ok(())
}

async fn schemas(protocol: &str) -> Cell {
    let object = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let list = json!({"type": "array", "items": {"type": "string"}});
    for schema in [object, list] {
        let request = ChatRequest { response_schema: Some(schema.clone()), ..request("hi") };
        let (_, body) = answered(protocol, &[Said::Text("[]")], request).await;
        assert!(body.to_string().contains(&schema.to_string()), "{protocol}: {body}");
    }
    Ok(())
}

fn with_media(media_type: &str, url: &str) -> ChatRequest {
    let mut request = request("what is it?");
    let media = Media { media_type: media_type.to_owned(), url: url.to_owned() };
    request.messages[0].parts.push(Part::Media(media));
    request
}

async fn images(protocol: &str) -> Cell {
    let request = with_media("image/png", "data:image/png;base64,QUJD");
    let (_, body) = answered(protocol, &[Said::Text("a cat")], request).await;
    assert!(body.to_string().contains("QUJD"), "{protocol}: {body}");
    Ok(())
}

async fn video(protocol: &str) -> Cell {
    let request = with_media("video/mp4", "https://x.example/v.mp4");
    let server = playing(answer(protocol, &[Said::Text("ok")], true)).await;
    let Err(error) = ask(protocol, &server, request, &Desk::new(), ENOUGH_MS).await else {
        return Ok(());
    };
    assert_eq!((error.code().0, error.attempts), ("W0310", 0), "{error}");
    assert!(error.to_string().contains("video") && server.received().is_empty(), "{error}");
    Err("refused by name".to_owned())
}

async fn refused_keys(protocol: &str) -> Cell {
    for status in [401, 403] {
        let reply = Reply::full(status, &[], r#"{"error":{"message":"bad key sk-hunter2"}}"#);
        assert_eq!(failed(protocol, reply, ENOUGH_MS).await.code().0, "W0303", "{protocol}");
    }
    Ok(())
}

async fn throttled(protocol: &str) -> Cell {
    let body = r#"{"error":{"message":"slow down"}}"#;
    let date = [
        ("date", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("retry-after", "Wed, 21 Oct 2026 07:28:07 GMT"),
    ];
    let forms: [&[(&str, &str)]; 3] =
        [&[("retry-after", "7")], &[("retry-after-ms", "7000")], &date];
    for headers in forms {
        let error = failed(protocol, Reply::full(429, headers, body), ENOUGH_MS).await;
        let ModelError::Throttled { retry_after, kind, .. } = error else { panic!("{error}") };
        assert_eq!(retry_after, Some(Duration::from_secs(7)), "{protocol} {headers:?}");
        assert_eq!(kind, RefusalKind::RateLimit);
    }
    Ok(())
}

async fn broken_servers(protocol: &str) -> Cell {
    for status in [500, 502, 503] {
        let error = failed(protocol, Reply::full(status, &[], "down"), ENOUGH_MS).await;
        assert!(matches!(error, ModelError::Provider { .. }) && error.is_retriable(), "{error}");
    }
    Ok(())
}

async fn slow_head(protocol: &str) -> Cell {
    let error = failed(protocol, Reply::nothing().hang(), PATIENCE_MS).await;
    let ModelError::Transport { source: EgressError::Timeout { .. }, .. } = error else {
        panic!("{protocol}: {error}");
    };
    Ok(())
}

/// A stream that stops in its middle without a close.
async fn silent(protocol: &str) -> Cell {
    let documents = documents(protocol, &[Said::Text("Hel"), Said::Text("lo")], true);
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let begin = documents.iter().take(2);
    let reply = begin.fold(head, |reply, one| reply.piece(format!("data: {one}\n\n"))).hang();
    let error = failed(protocol, reply, PATIENCE_MS).await;
    assert!(matches!(error, ModelError::Truncated { .. }), "{protocol}: {error}");
    Ok(())
}

/// A stream cut at many places, over a connection. That of every byte is a test of the
/// decoders.
async fn cut(protocol: &str) -> Cell {
    let documents = documents(protocol, &[Said::Text("Hello"), Said::Call("c1", "Oslo")], false);
    let complete: String = documents.iter().map(|one| format!("data: {one}\n\n")).collect();
    for at in (1..complete.len() - 200).step_by(37) {
        let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
        let server = playing(head.piece(&complete[..at])).await;
        let found = ask(protocol, &server, request("hi"), &Desk::new(), ENOUGH_MS).await;
        // What was complete before the cut is an answer; nothing else is.
        if let Ok(answer) = found {
            assert_eq!(answer.message.tool_calls().count(), 1, "{protocol} cut at {at}");
            assert_eq!(answer.message.joined_text(), "Hello", "{protocol} cut at {at}");
        }
    }
    Ok(())
}

/// Usage that is reported before the connection breaks: its input is exact, and its output is at
/// least what was received.
async fn usage_before_a_cut(protocol: &str) -> Cell {
    for (text, output, estimated) in
        [("ok", 3, false), ("forty bytes of text, or ten tokens of it", 10, true)]
    {
        let mut documents = documents(protocol, &[Said::Text(text)], true);
        match protocol {
            "openai" => {
                documents[0]["usage"] = json!({"prompt_tokens": 11, "completion_tokens": 3,
                    "prompt_tokens_details": {"cached_tokens": 4}});
            }
            "gemini" => {
                documents[0]["usageMetadata"] = json!({"promptTokenCount": 11,
                    "candidatesTokenCount": 3, "cachedContentTokenCount": 4});
            }
            "anthropic" => documents[0]["message"]["usage"]["output_tokens"] = json!(3),
            _ => return Err("reported at the end alone".to_owned()),
        }
        let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
        let begin = documents.iter().take(if protocol == "anthropic" { 3 } else { 1 });
        let reply = begin.fold(head, |reply, one| reply.piece(format!("data: {one}\n\n")));
        let server = playing(reply).await;
        let desk = Desk::new();
        let error = ask(protocol, &server, request("hi"), &desk, ENOUGH_MS).await;
        let error = error.expect_err("cut");
        let expected = Tokens { estimated, ..Tokens::reported(11, output).cached(4) };
        assert_eq!(desk.facts()[0].tokens, expected, "{protocol}");
        assert_eq!(error.used.tokens, expected, "{protocol}");
        assert!(error.to_string().contains("cut off after"), "{protocol}: {error}");
    }
    Ok(())
}

async fn cancel(protocol: &str) -> Cell {
    let documents = documents(protocol, &[Said::Text("Hel"), Said::Text("lo")], true);
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let begin = documents.iter().take(3);
    let reply = begin.fold(head, |reply, one| reply.piece(format!("data: {one}\n\n"))).hang();
    let server = playing(reply).await;
    let desk = Desk::new();
    {
        let call = ask(protocol, &server, request("hi"), &desk, ENOUGH_MS);
        let shown = async {
            while desk.shown().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            _ = call => panic!("{protocol}: the server does not end"),
            () = shown => {}
        }
    }
    let facts = desk.facts();
    assert_eq!((facts.len(), facts[0].status), (1, UsageStatus::Cancelled), "{protocol}");
    assert!(desk.settled.lock().expect("a lock").is_empty());
    Ok(())
}

#[tokio::test]
async fn every_protocol_passes_the_suite() {
    let mut table = String::new();
    for protocol in PROTOCOLS {
        let cells = [
            ("text", text(protocol).boxed()),
            ("reasoning", reasoning(protocol).boxed()),
            ("parallel calls in fragments", parallel_calls(protocol).boxed()),
            ("tool choice auto, none, required, named", tool_choices(protocol).boxed()),
            ("tool choice of tools that are not there", options::missing_tools(protocol).boxed()),
            ("parallel calls off", options::parallel_off(protocol).boxed()),
            ("top_p", options::sampling(protocol, "top_p").boxed()),
            ("stop", options::sampling(protocol, "stop").boxed()),
            ("seed", options::sampling(protocol, "seed").boxed()),
            ("usage with cached tokens", usage(protocol).boxed()),
            ("usage before a cut", usage_before_a_cut(protocol).boxed()),
            ("no usage", no_usage(protocol).boxed()),
            ("structured output, object and list", schemas(protocol).boxed()),
            ("images", images(protocol).boxed()),
            ("video", video(protocol).boxed()),
            ("401, 403", refused_keys(protocol).boxed()),
            ("429 with three forms of retry-after", throttled(protocol).boxed()),
            ("5xx", broken_servers(protocol).boxed()),
            ("slow head", slow_head(protocol).boxed()),
            ("silence in the middle", silent(protocol).boxed()),
            ("cut", cut(protocol).boxed()),
            ("cancel", cancel(protocol).boxed()),
        ];
        for (name, cell) in cells {
            let found = cell.await.err().unwrap_or_else(|| "yes".to_owned());
            writeln!(table, "| {protocol} | {name} | {found} |").expect("a string");
        }
    }
    println!("| protocol | cell | found |\n|---|---|---|\n{table}");
    let other: Vec<&str> = table.lines().filter(|line| !line.ends_with("| yes |")).collect();
    assert_eq!(
        other,
        [
            "| openai | reasoning | read; it has no signatures |",
            "| openai | video | refused by name |",
            "| openai_responses | stop | refused by name |",
            "| openai_responses | seed | refused by name |",
            "| openai_responses | usage before a cut | reported at the end alone |",
            "| openai_responses | video | refused by name |",
            "| anthropic | seed | refused by name |",
            "| anthropic | video | refused by name |",
            "| gemini | parallel calls off | refused by name |",
        ]
    );
}
