//! Requests of the same conversation, as each protocol writes them.

use super::config;
use crate::chat::{ChatRequest, ToolChoice};
use crate::protocol::{Protocol, ServerConfig};
use serde_json::{Value, json};
use weftwork_types::message::{Media, Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
use weftwork_types::{MessageId, ToolCallId};

const IMAGE: &str = "data:image/png;base64,AA==";
const PDF: &str = "data:application/pdf;base64,AA==";

fn lookup() -> ToolSpec {
    ToolSpec {
        name: "orders/lookup".to_owned(),
        description: "finds an order".to_owned(),
        parameters: json!({"type": "object"}),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: Vec::new(),
    }
}

fn message(id: &str, role: Role, parts: Vec<Part>) -> Message {
    Message::new(MessageId::new(id).expect("an id"), role, parts)
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn signed(text: &str, signature: &str) -> Part {
    Part::Reasoning { text: text.to_owned(), signature: Some(signature.to_owned()) }
}

fn media(media_type: &str, url: &str) -> Part {
    Part::Media(Media { media_type: media_type.to_owned(), url: url.to_owned() })
}

fn call(id: &str, args: Value) -> Part {
    let id = ToolCallId::new(id).expect("an id");
    Part::ToolCall(ToolCall { id, name: "orders__lookup".to_owned(), args, shown: None })
}

fn result(id: &str, value: Value, is_error: bool) -> Part {
    Part::ToolResult(ToolResult {
        tool_call_id: ToolCallId::new(id).expect("an id"),
        name: "orders__lookup".to_owned(),
        value,
        shown: None,
        is_error,
    })
}

/// A conversation with everything a message can hold. Its reasoning was signed by each protocol.
fn request() -> ChatRequest {
    let reasoning = vec![
        signed("hm", "anthropic:sig"),
        signed("", "anthropic-redacted:xx"),
        signed("hm", r#"openai:{"id":"rs_1","encrypted_content":"yy"}"#),
        Part::Reasoning { text: "unsigned".to_owned(), signature: None },
        text("Let me look."),
        // Of other providers with the same protocols.
        signed("", "anthropic@minimax:sig"),
        signed("", r#"openai@proxy:{"id":"rs_2","encrypted_content":"yy"}"#),
        signed("", "gemini@proxy:sig"),
        signed("hm", "gemini:zz"),
        call("call_a:1", json!({"order_id": "A1"})),
        call("call_b", json!("{oops")),
    ];
    let messages = vec![
        message("s", Role::System, vec![text("be brief")]),
        message("u", Role::User, vec![text("what is it?"), media("image/png", IMAGE)]),
        message("a", Role::Assistant, reasoning),
        message("t1", Role::Tool, vec![result("call_a:1", json!({"state": "sent"}), false)]),
        message("t2", Role::Tool, vec![result("call_b", json!("no such order"), true)]),
        message("v", Role::User, vec![text("and now?")]),
    ];
    ChatRequest {
        messages,
        tools: vec![lookup()],
        tool_choice: ToolChoice::Named("orders__lookup".to_owned()),
        temperature: Some(0.7),
        top_p: Some(0.9),
        max_tokens: Some(50),
        ..ChatRequest::default()
    }
}

fn body(protocol: Protocol, request: &ChatRequest) -> Value {
    let provider = match protocol {
        Protocol::Openai => "deepseek",
        Protocol::OpenaiResponses => "openai-responses",
        Protocol::Anthropic => "anthropic",
        Protocol::Gemini => "gemini",
    };
    let config = ServerConfig { provider: provider.to_owned(), ..config(protocol) };
    protocol.write("m", true, request, &config).expect("a body").body
}

#[test]
fn anthropic() {
    let request = ChatRequest {
        parallel_tool_calls: Some(false),
        response_schema: Some(json!({"type": "object"})),
        stop: vec!["END".to_owned(), "\n#".to_owned()],
        ..request()
    };
    let tools = json!([{
        "name": "orders__lookup", "description": "finds an order",
        "input_schema": {"type": "object"},
    }]);
    let expected = json!({
        "model": "m", "max_tokens": 50, "stream": true, "temperature": 0.7, "top_p": 0.9,
        "stop_sequences": ["END", "\n#"],
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "what is it?"},
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": "AA==",
                }},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "call_850fa9f8f70f079ba8933cce", "name": "orders__lookup",
                 "input": {"order_id": "A1"}},
                {"type": "tool_use", "id": "call_b", "name": "orders__lookup",
                 "input": {"invalid_arguments": "{oops"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_850fa9f8f70f079ba8933cce",
                 "content": "{\"state\":\"sent\"}", "is_error": false},
                {"type": "tool_result", "tool_use_id": "call_b",
                 "content": "no such order", "is_error": true},
                {"type": "text", "text": "and now?"},
            ]},
        ],
        "tools": tools,
        "tool_choice": {
            "type": "tool", "name": "orders__lookup", "disable_parallel_tool_use": true,
        },
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    });
    assert_eq!(body(Protocol::Anthropic, &request), expected);
    let unlimited = ChatRequest { max_tokens: None, ..request };
    assert_eq!(body(Protocol::Anthropic, &unlimited)["max_tokens"], 8192);
}

#[test]
fn gemini() {
    let request = ChatRequest {
        response_schema: Some(json!({"type": "object"})),
        stop: vec!["END".to_owned(), "\n#".to_owned()],
        seed: Some(-7),
        ..request()
    };
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "what is it?"},
                {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
            ]},
            {"role": "model", "parts": [
                {"text": "Let me look."},
                {"functionCall": {
                    "id": "call_a:1", "name": "orders__lookup", "args": {"order_id": "A1"},
                 },
                 "thoughtSignature": "zz"},
                {"functionCall": {
                    "id": "call_b", "name": "orders__lookup",
                    "args": {"invalid_arguments": "{oops"},
                }},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {
                    "id": "call_a:1", "name": "orders__lookup",
                    "response": {"output": {"state": "sent"}},
                }},
                {"functionResponse": {
                    "id": "call_b", "name": "orders__lookup",
                    "response": {"error": "no such order"},
                }},
                {"text": "and now?"},
            ]},
        ],
        "tools": [{"functionDeclarations": [{
            "name": "orders__lookup", "description": "finds an order",
            "parametersJsonSchema": {"type": "object"},
        }]}],
        "toolConfig": {"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["orders__lookup"],
        }},
        "generationConfig": {
            "temperature": 0.7, "topP": 0.9, "maxOutputTokens": 50,
            "stopSequences": ["END", "\n#"], "seed": -7,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    });
    assert_eq!(body(Protocol::Gemini, &request), expected);
}

#[test]
fn openai_responses() {
    let request = ChatRequest {
        parallel_tool_calls: Some(false),
        response_schema: Some(json!({"type": "string"})),
        ..request()
    };
    let expected = json!({
        "model": "m", "stream": true, "store": false, "temperature": 0.7, "top_p": 0.9,
        "max_output_tokens": 50, "include": ["reasoning.encrypted_content"],
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [
                {"type": "input_text", "text": "what is it?"},
                {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
            ]},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "yy",
             "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "Let me look."}]},
            {"type": "function_call", "call_id": "call_a:1", "name": "orders__lookup",
             "arguments": "{\"order_id\":\"A1\"}"},
            {"type": "function_call", "call_id": "call_b", "name": "orders__lookup",
             "arguments": "{\"invalid_arguments\":\"{oops\"}"},
            {"type": "function_call_output", "call_id": "call_a:1",
             "output": "{\"state\":\"sent\"}"},
            {"type": "function_call_output", "call_id": "call_b", "output": "no such order"},
            {"role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
        ],
        "tools": [{
            "type": "function", "name": "orders__lookup", "description": "finds an order",
            "parameters": {"type": "object"}, "strict": false,
        }],
        "tool_choice": {"type": "function", "name": "orders__lookup"},
        "parallel_tool_calls": false,
        "text": {"format": {
            "type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "string"},
        }},
    });
    assert_eq!(body(Protocol::OpenaiResponses, &request), expected);
    let config = config(Protocol::OpenaiResponses);
    let outgoing = Protocol::OpenaiResponses.write("m", false, &request, &config);
    assert_eq!(outgoing.expect("a body").body.get("include"), None);
}

#[test]
fn a_request_without_options_has_no_member_of_them() {
    let messages = vec![message("u", Role::User, vec![text("hi")])];
    let plain = ChatRequest { messages, ..ChatRequest::default() };
    for (protocol, expected) in [
        (
            Protocol::Openai,
            json!({
                "model": "m", "stream": true, "stream_options": {"include_usage": true},
                "messages": [{"role": "user", "content": "hi"}],
            }),
        ),
        (
            Protocol::OpenaiResponses,
            json!({
                "model": "m", "stream": true, "store": false,
                "include": ["reasoning.encrypted_content"],
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            }),
        ),
        (
            Protocol::Anthropic,
            json!({
                "model": "m", "stream": true, "max_tokens": 8192,
                "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            }),
        ),
        (Protocol::Gemini, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})),
    ] {
        assert_eq!(body(protocol, &plain), expected, "{protocol:?}");
    }
}

#[test]
fn choices_of_tools() {
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Named("orders__lookup".to_owned()),
    ];
    for (protocol, at, expected) in [
        (Protocol::Openai, "/tool_choice", [json!(null), json!("none"), json!("required")]),
        (
            Protocol::OpenaiResponses,
            "/tool_choice",
            [json!(null), json!("none"), json!("required")],
        ),
        (Protocol::Anthropic, "/tool_choice/type", [json!("auto"), json!("none"), json!("any")]),
        (
            Protocol::Gemini,
            "/toolConfig/functionCallingConfig/mode",
            [json!(null), json!("NONE"), json!("ANY")],
        ),
    ] {
        for (choice, expected) in choices.iter().zip(expected) {
            let request = ChatRequest { tool_choice: choice.clone(), ..request() };
            let body = body(protocol, &request);
            let found = body.pointer(at).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{protocol:?} {choice:?}");
        }
    }
}

#[test]
fn media_are_sent_or_refused_by_name() {
    let audio = "data:audio/wav;base64,AA==";
    let url = "https://x.example/y";
    let all = [
        ("image/png", IMAGE),
        ("image/png", url),
        ("application/pdf", PDF),
        ("application/pdf", url),
        ("audio/wav", audio),
        ("video/mp4", url),
        ("image/svg+xml", "data:image/svg+xml;base64,AA=="),
        ("image/heic", "data:image/heic;base64,AA=="),
        ("image/png", "data:image/png;base64,@@@"),
        ("application/zip", "data:application/zip;base64,AA=="),
    ];
    let none = [false; 4];
    let heic = [false, true, false, false];
    for (protocol, accepted) in [
        (Protocol::Openai, [[true, true, true, false, true, false].as_slice(), &heic].concat()),
        (
            Protocol::OpenaiResponses,
            [[true, true, true, true, false, false].as_slice(), &none].concat(),
        ),
        (Protocol::Anthropic, [[true, true, true, true, false, false].as_slice(), &none].concat()),
        (Protocol::Gemini, [[true, true, true, true, true, true].as_slice(), &heic].concat()),
    ] {
        for ((kind, url), accepted) in all.into_iter().zip(accepted) {
            let medium = Media { media_type: kind.to_owned(), url: url.to_owned() };
            assert_eq!(
                protocol.check_medium(&medium).is_ok(),
                accepted,
                "{protocol:?} {kind} {url}"
            );
            let messages = vec![message("u", Role::User, vec![media(kind, url)])];
            let request = ChatRequest { messages, ..ChatRequest::default() };
            let written = protocol.write("m", true, &request, &config(protocol));
            match written {
                Ok(_) => assert!(accepted, "{protocol:?} {kind} {url}"),
                Err(what) => assert!(!accepted && what.contains(kind), "{protocol:?}: {what}"),
            }
        }
        // No protocol fetches or reads anything else.
        for url in ["http://x.example/y", "blob:1", "file:///etc/passwd", "data:image/png,AA"] {
            let messages = vec![message("u", Role::User, vec![media("image/png", url)])];
            let request = ChatRequest { messages, ..ChatRequest::default() };
            assert!(protocol.write("m", true, &request, &config(protocol)).is_err(), "{url}");
        }
    }
}

#[test]
fn a_model_is_no_path() {
    let request = ChatRequest::default();
    for name in ["../x", "a/b", "", "m?key=1", "m:generateContent"] {
        let written = Protocol::Gemini.write(name, true, &request, &config(Protocol::Gemini));
        assert!(written.is_err(), "{name}");
    }
}

/// Anthropic refuses an answer at the end of a conversation, and so do Gemini's models.
#[test]
fn a_conversation_that_ends_with_an_answer_goes_on() {
    let answered = ChatRequest {
        messages: vec![
            message("u", Role::User, vec![text("hi")]),
            message("a", Role::Assistant, vec![text("hello")]),
        ],
        ..ChatRequest::default()
    };
    for (protocol, at) in [(Protocol::Anthropic, "messages"), (Protocol::Gemini, "contents")] {
        let body = body(protocol, &answered);
        let turns = body[at].as_array().expect("turns");
        assert_eq!((turns.len(), &turns[2]["role"]), (3, &json!("user")), "{body}");
    }
}

/// Media in a tool's result, as each protocol writes them.
#[test]
fn media_of_results() {
    let value = json!([
        {"type": "text", "text": "a chart"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "audio", "mime_type": "audio/wav", "base64": "AA=="},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,AA=="}},
    ]);
    let messages = vec![
        message("u", Role::User, vec![text("draw")]),
        message("a", Role::Assistant, vec![call("a", json!({})), call("b", json!({}))]),
        message("t1", Role::Tool, vec![result("a", value, false)]),
        message("t2", Role::Tool, vec![result("b", json!("sent"), false)]),
    ];
    let request = ChatRequest { messages, ..ChatRequest::default() };
    let note = |kind: &str, reason: &str| format!("[{kind} of 1 bytes: {reason}]");
    let svg = note("image/svg+xml", "images are read as png, jpeg, gif, webp");
    let no_audio = "media of type `audio/wav` from a `data:` URL; this protocol takes images and PDF documents";
    let no_audio = note("audio/wav", no_audio);
    let last = |protocol, at: &str, count: usize| {
        let body = body(protocol, &request);
        let all = body[at].as_array().expect("a list");
        Value::from(all[all.len() - count..].to_vec())
    };
    let base64 = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let expected = json!([{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "is_error": false, "content": [
            {"type": "text", "text": "a chart"},
            {"type": "image", "source": base64},
            {"type": "text", "text": no_audio},
            {"type": "text", "text": svg},
        ]},
        {"type": "tool_result", "tool_use_id": "b", "content": "sent", "is_error": false},
    ]}]);
    assert_eq!(last(Protocol::Anthropic, "messages", 1), expected);
    let expected = json!([
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_text", "text": "a chart"},
            {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
            {"type": "input_text", "text": no_audio},
            {"type": "input_text", "text": svg},
        ]},
        {"type": "function_call_output", "call_id": "b", "output": "sent"},
    ]);
    assert_eq!(last(Protocol::OpenaiResponses, "input", 2), expected);
    let follows = "it follows the results";
    let said =
        ["a chart".to_owned(), note("image/png", follows), note("audio/wav", follows), svg.clone()];
    let from = json!({"type": "text", "text": "From the result of `orders__lookup`:"});
    let expected = json!([
        {"role": "tool", "tool_call_id": "a", "content": said.join("\n")},
        {"role": "tool", "tool_call_id": "b", "content": "sent"},
        {"role": "user", "content": [
            from, {"type": "image_url", "image_url": {"url": IMAGE}},
            from, {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ]},
    ]);
    assert_eq!(last(Protocol::Openai, "messages", 3), expected);
    let attached = ["image/png", "audio/wav", "image/svg+xml"].map(|kind| note(kind, "attached"));
    let output = ["a chart", attached[0].as_str(), attached[1].as_str(), attached[2].as_str()];
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let audio = json!({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}});
    let sent = json!({"functionResponse": {
        "id": "b", "name": "orders__lookup", "response": {"output": "sent"},
    }});
    for (model, is_inside) in [("gemini-3-pro", true), ("gemini-2.5-flash", false), ("m", false)] {
        let written = Protocol::Gemini.write(model, true, &request, &config(Protocol::Gemini));
        let contents = written.expect("a body").body["contents"].take();
        let mut response = json!({
            "id": "a", "name": "orders__lookup", "response": {"output": output.join("\n")},
        });
        let mut parts = Vec::new();
        match is_inside {
            true => response["parts"] = json!([image]),
            false => parts.push(image.clone()),
        }
        parts.insert(0, json!({ "functionResponse": response }));
        parts.extend([audio.clone(), json!({ "text": svg }), sent.clone()]);
        assert_eq!(contents[2]["parts"], Value::from(parts), "{model}");
    }
}
