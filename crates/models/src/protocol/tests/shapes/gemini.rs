//! Shapes of Gemini's answers.

use super::{TEXT, Writer, calls, check};
use crate::protocol::Protocol;
use serde_json::{Value, json};

/// Returns the parts of the answer, split and with others between them.
fn parts(writer: &mut Writer) -> Vec<Value> {
    let mut parts = Vec::new();
    if writer.coin() {
        parts.push(json!({"text": "hm", "thought": true}));
    }
    for text in writer.pieces(TEXT) {
        let signature = json!({"text": "", "thoughtSignature": "c2ln"});
        parts.extend((writer.below(9) == 0).then_some(signature));
        parts.extend((writer.below(9) == 0).then(|| json!({"executableCode": {"code": "1"}})));
        parts.push(json!({"text": text, "thought": writer.one_of(&["", "null", "false"]).parse::<Value>().ok()}));
    }
    let is_text_last = writer.below(4) == 0;
    let made = made(writer);
    match is_text_last {
        true => made.into_iter().chain(parts).collect(),
        false => parts.into_iter().chain(made).collect(),
    }
}

fn made(writer: &mut Writer) -> Vec<Value> {
    let has_ids = writer.coin();
    let are_equal = writer.coin();
    let name_of_call = writer.one_of(&["functionCall", "function_call"]);
    let is_text = writer.below(4) == 0;
    let made = calls().into_iter().enumerate().map(|(position, (name, args))| {
        let args = if is_text { args.to_string().into() } else { args };
        let mut call = json!({"name": name, "args": args});
        if has_ids {
            call["id"] = format!("c{}", if are_equal { 0 } else { position }).into();
        }
        let mut part = json!({ name_of_call: call });
        if position == 0 {
            part["thoughtSignature"] = "c2ln".into();
        }
        part
    });
    made.collect()
}

/// Returns documents with the parts, the reason for the end in the last one with a candidate.
fn documents(writer: &mut Writer) -> Vec<Value> {
    let mut documents = Vec::new();
    let has_index = writer.coin();
    let candidate = |writer: &mut Writer, parts: Vec<Value>| {
        let is_alone = parts.len() == 1 && writer.coin();
        let parts = if is_alone { parts[0].clone() } else { parts.into() };
        let mut candidate = json!({"content": {"role": "model", "parts": parts}});
        if has_index {
            candidate["index"] = writer.index(0);
        }
        candidate
    };
    let mut open = Vec::new();
    for part in parts(writer) {
        open.push(part);
        if writer.coin() {
            let candidate = candidate(writer, std::mem::take(&mut open));
            let list = if writer.coin() { json!([candidate]) } else { candidate };
            documents.push(json!({"responseId": "g", "candidates": list}));
        }
    }
    let mut last = candidate(writer, open);
    let names = ["finishReason", "finish_reason"];
    let word = writer.one_of(&["STOP", "stop", "FINISH_REASON_STOP", "WHATEVER"]);
    last[writer.one_of(&names)] = word.into();
    documents.push(json!({"responseId": "g", "candidates": [last]}));
    documents
}

fn write_stream(writer: &mut Writer, documents: Vec<Value>) {
    let last = documents.len() - 1;
    for (at, document) in documents.iter().enumerate() {
        if document.pointer("/candidates").is_some_and(|list| list.to_string().contains("unction"))
        {
            writer.start();
        }
        if at == last {
            writer.end();
        }
        writer.event(document);
    }
    if writer.coin() {
        let usage = json!({"promptTokenCount": 11, "candidatesTokenCount": 7});
        writer.event(&json!({ "usageMetadata": usage }));
    }
}

#[test]
fn an_answer_means_the_same_in_any_shape_of_gemini() {
    check(Protocol::Gemini, |writer| {
        let documents = documents(writer);
        match writer.below(8) {
            // The list that the protocol has without `alt=sse`.
            0 => writer.whole(&documents.into()),
            1 => {
                let parts = parts(writer);
                let candidate = json!({"content": {"parts": parts}, "finishReason": "STOP"});
                writer.whole(&json!({"candidates": [candidate]}));
            }
            _ => write_stream(writer, documents),
        }
    });
}
