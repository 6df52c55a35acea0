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
    let step = if splits() == 10_000 { 1 } else { 23 };
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
