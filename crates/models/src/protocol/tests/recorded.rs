//! Laws of the decoders on answers that were recorded from servers.

use super::*;
use serde_json::Value;

/// The recorded answers of a server and their protocols.
fn recorded(text: &str) -> Vec<(Protocol, String)> {
    let recording: Value = serde_json::from_str(text).expect("a recording");
    let exchanges = recording["exchanges"].as_array().expect("exchanges").iter();
    let read = exchanges.filter(|exchange| exchange["status"] == 200).map(|exchange| {
        let path = exchange["path"].as_str().expect("a path");
        let protocol = match path {
            "/v1/chat/completions" => Protocol::Openai,
            "/v1/responses" => Protocol::OpenaiResponses,
            "/v1/messages" => Protocol::Anthropic,
            _ => Protocol::Gemini,
        };
        (protocol, exchange["answer"].as_str().expect("an answer").to_owned())
    });
    read.collect()
}

#[test]
fn any_split_of_a_recorded_answer_gives_the_same_events() {
    let recordings = [
        include_str!("../../../../../tests/cassettes/protocols-llamacpp.json"),
        include_str!("../../../../../tests/cassettes/protocols-litellm.json"),
    ];
    let answers = recordings.map(recorded).concat();
    let step = if splits() == 10_000 { 1 } else { 131 };
    let mut tried = std::collections::BTreeMap::<_, usize>::new();
    for (protocol, answer) in answers {
        let bytes = answer.as_bytes();
        let whole = decode(protocol, [bytes], None);
        assert_eq!(whole.1, Ok(()), "{protocol:?}: {answer}");
        for at in (1..bytes.len()).step_by(step) {
            let found = decode(protocol, [&bytes[..at], &bytes[at..]], None);
            assert_eq!(found, whole, "{protocol:?} split at {at}");
            *tried.entry(format!("{protocol:?}")).or_default() += 1;
        }
    }
    println!("splits tried: {tried:?}");
    assert!(tried.len() == 4 && tried.values().all(|splits| *splits >= 10_000 / step), "{tried:?}");
}

/// llama.cpp's server sends the id of an item, but not its index.
#[test]
fn fragments_of_calls_without_an_index_belong_to_their_items() {
    let added = |id: &str| {
        json!({"type": "response.output_item.added",
            "item": {"type": "function_call", "id": id, "call_id": id, "name": "lookup"}})
    };
    let args = |id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": delta});
    let documents = [
        added("a"),
        added("b"),
        args("b", "{}"),
        args("a", "[]"),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ]
    .map(|document| document.to_string());
    let body = sse(&documents.each_ref().map(String::as_str));
    let (events, result) = decode(Protocol::OpenaiResponses, [body.as_bytes()], None);
    assert_eq!(result, Ok(()));
    let args = events.iter().filter_map(|event| match event {
        ChatEvent::ToolCallDelta { index, args, .. } if !args.is_empty() => Some((*index, &**args)),
        _ => None,
    });
    assert_eq!(args.collect::<Vec<_>>(), [(1, "{}"), (0, "[]")]);
}

/// Members with the content of an answer, and those by which it is put together.
const CONTENT: [&str; 38] = [
    "choices",
    "delta",
    "message",
    "content",
    "reasoning_content",
    "reasoning",
    "refusal",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "index",
    "finish_reason",
    "error",
    "type",
    "candidates",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "args",
    "finishReason",
    "content_block",
    "thinking",
    "signature",
    "input",
    "partial_json",
    "stop_reason",
    "data",
    "object",
    "status",
    "response",
    "output",
    "item",
    "item_id",
    "output_index",
    "summary",
];
/// Values that are no account, as JSON texts.
const ODD: [&str; 11] = [
    "18446744073709551616",
    "-99999999999999999999999",
    "-1",
    "1.5",
    "1e400",
    "\"many\"",
    "true",
    "null",
    "{}",
    "[1, 2]",
    "{\"sum\": 123456789012345678901}",
];
const HOLE: &str = "value-of-the-member";

/// Adds the pointers to the members of a document that are not content.
fn accounts(document: &Value, at: &str, found: &mut std::collections::BTreeSet<String>) {
    let members: Vec<(String, &Value)> = match document {
        Value::Object(members) => members.iter().map(|(name, of)| (name.clone(), of)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(n, of)| (n.to_string(), of)).collect()
        }
        _ => return,
    };
    for (name, value) in members {
        let place = format!("{at}/{name}");
        // Arguments and ids of calls are content.
        let is_call = matches!(
            name.as_str(),
            "args" | "arguments" | "input" | "call_id" | "encrypted_content"
        );
        let is_id = ["id", "responseId"].contains(&name.as_str());
        let of_answer = ["", "/message", "/response"].contains(&at);
        let is_content = CONTENT.contains(&name.as_str()) || document.is_array();
        if !is_call && !is_content && (!is_id || of_answer) {
            found.insert(place.clone());
        }
        if !is_call {
            accounts(value, &place, found);
        }
    }
}

/// The documents of a body, and the text before each.
fn documents(body: &str) -> Vec<(&str, Option<Value>)> {
    let read = |line: &str| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok();
    body.split_inclusive('\n').map(|line| (line, read(line))).collect()
}

/// The events of an answer without its account.
fn content(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let of = said(events).into_iter().filter_map(|event| match event {
        ChatEvent::Usage(_) | ChatEvent::Cost(_) => None,
        ChatEvent::Finish { reason, .. } => {
            Some(ChatEvent::Finish { reason, provider_call_id: None })
        }
        event => Some(event),
    });
    of.collect()
}

#[test]
fn no_odd_member_of_an_account_changes_the_content_of_an_answer() {
    let recordings = [
        include_str!("../../../../../tests/cassettes/protocols-llamacpp.json"),
        include_str!("../../../../../tests/cassettes/protocols-litellm.json"),
    ];
    let mut answers = recordings.map(recorded).concat();
    answers.extend(samples().map(|sample| (sample.protocol, sample.body.to_owned())));
    let mut tried = std::collections::BTreeMap::<_, usize>::new();
    // In the fast tier every third value, from another one in each process.
    let step = if splits() == 10_000 { 1 } else { 3 };
    for (protocol, body) in answers {
        let (whole, result) = decode(protocol, [body.as_bytes()], None);
        assert_eq!(result, Ok(()));
        let documents = documents(&body);
        let mut places = std::collections::BTreeSet::new();
        let read = documents.iter().filter_map(|(_, document)| document.as_ref());
        read.for_each(|document| accounts(document, "", &mut places));
        for place in &places {
            for odd in ODD.into_iter().skip(std::process::id() as usize % step).step_by(step) {
                let changed = documents.iter().map(|(line, document)| {
                    let mut document = document.clone()?;
                    *document.pointer_mut(place)? = json!(HOLE);
                    let text = document.to_string().replace(&json!(HOLE).to_string(), odd);
                    let mark = if line.starts_with("data: ") { "data: " } else { "" };
                    Some(format!("{mark}{text}\n"))
                });
                let lines = documents.iter().map(|(line, _)| line);
                let changed: String = lines
                    .zip(changed)
                    .map(|(line, changed)| changed.unwrap_or(line.to_string()))
                    .collect();
                let (found, result) = decode(protocol, [changed.as_bytes()], None);
                assert_eq!(result, Ok(()), "{protocol:?}: {odd} at {place}");
                assert_eq!(content(&found), content(&whole), "{protocol:?}: {odd} at {place}");
                *tried.entry(format!("{protocol:?}")).or_default() += 1;
            }
        }
    }
    println!("values tried: {tried:?}");
    assert!(tried.len() == 4 && tried.values().all(|values| *values >= 100 / step), "{tried:?}");
}

/// Arguments are content: their digits stay, and are not rounded.
#[test]
fn a_wide_integer_in_arguments_keeps_its_digits() {
    let call = r#"{"name": "pay", "args": {"account": 123456789012345678901}}"#;
    let body = format!(
        r#"{{"candidates": [{{"finishReason": "STOP", "content": {{"parts": [{{"functionCall": {call}}}]}}}}]}}"#
    );
    let (events, result) = decode(Protocol::Gemini, [body.as_bytes()], None);
    assert_eq!(result, Ok(()));
    let args = events.iter().find_map(|event| match event {
        ChatEvent::ToolCallDelta { args, .. } => Some(args.as_str()),
        _ => None,
    });
    assert_eq!(args, Some(r#"{"account":"123456789012345678901"}"#));
}
