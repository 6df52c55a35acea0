//! Shapes of chat completions.

use super::{TEXT, Writer, calls, check};
use crate::protocol::Protocol;
use serde_json::{Value, json};

fn delta(writer: &mut Writer, delta: Value) {
    let mut choice = json!({"index": 0, "delta": delta});
    if writer.coin() {
        choice["finish_reason"] = Value::Null;
    }
    let id = if writer.coin() { json!("c1") } else { Value::Null };
    writer.event(&json!({"id": id, "choices": [choice]}));
}

/// The way in which a server writes calls.
struct Style {
    has_index: bool,
    has_ids: bool,
    /// All indexes are zero. Without ids, only names tell the calls apart.
    zeros: bool,
    /// Every fragment has the id and the name.
    repeats: bool,
    is_object: bool,
}

fn write_calls(writer: &mut Writer) {
    let has_ids = writer.coin();
    let style = Style {
        has_index: writer.coin(),
        has_ids,
        zeros: has_ids && writer.below(3) == 0,
        repeats: has_ids && writer.coin(),
        is_object: writer.below(4) == 0,
    };
    for (position, (name, args)) in calls().into_iter().enumerate() {
        let pieces = match style.is_object {
            true => vec![args],
            false => writer.pieces(&args.to_string()).into_iter().map(Value::from).collect(),
        };
        for (at, piece) in pieces.into_iter().enumerate() {
            let mut call = json!({"type": "function", "function": {"arguments": piece}});
            if style.has_index || style.zeros {
                call["index"] = writer.index(if style.zeros { 0 } else { position });
            }
            if style.has_ids && (at == 0 || style.repeats) {
                call["id"] = format!("id_{position}").into();
            }
            if at == 0 || style.repeats {
                call["function"]["name"] = name.into();
            }
            if at == 0 {
                writer.start();
            }
            let list = if writer.coin() { json!([call]) } else { call };
            delta(writer, json!({"content": null, "tool_calls": list}));
        }
    }
}

fn write_end(writer: &mut Writer) {
    let word = writer.one_of(&["tool_calls", "stop", "TOOL_USE", "function_call", "whatever"]);
    let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]});
    let has_word = writer.coin();
    let has_mark = writer.coin();
    writer.end();
    if has_word || !has_mark {
        writer.event(&finish);
    }
    if writer.coin() {
        let usage = json!({"prompt_tokens": "11", "completion_tokens": 7.0});
        writer.event(&json!({"choices": [], "usage": usage}));
    }
    if has_mark {
        let end = writer.one_of(&["", "\n", "\n\n"]);
        writer.events.push(format!("data: [DONE]{end}"));
    }
}

fn write_whole(writer: &mut Writer) {
    let is_object = writer.coin();
    let made = calls().into_iter().enumerate().map(|(position, (name, args))| {
        let args = if is_object { args } else { args.to_string().into() };
        json!({"id": format!("id_{position}"), "function": {"name": name, "arguments": args}})
    });
    let content = match writer.below(3) {
        0 => json!([{"type": "text", "text": TEXT}]),
        1 => json!([TEXT]),
        _ => json!(TEXT),
    };
    let message = json!({"content": content, "tool_calls": made.collect::<Vec<_>>()});
    let word = writer.one_of(&["tool_calls", "stop", "whatever"]);
    writer.whole(&json!({"choices": [{"message": message, "finish_reason": word}]}));
}

#[test]
fn an_answer_means_the_same_in_any_shape_of_chat_completions() {
    check(Protocol::Openai, |writer| {
        if writer.below(8) == 0 {
            return write_whole(writer);
        }
        for piece in writer.pieces(TEXT) {
            delta(writer, json!({"content": piece}));
        }
        write_calls(writer);
        write_end(writer);
    });
}
