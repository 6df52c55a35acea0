//! Shapes of Anthropic's messages.

use super::{TEXT, Writer, calls, check};
use crate::protocol::Protocol;
use serde_json::{Value, json};

/// The way in which a server writes events.
struct Style {
    indexes: Indexes,
    names: Names,
    /// Blocks of text begin with an event.
    has_text_start: bool,
    has_stop: bool,
}

/// Indexes of blocks.
#[derive(Clone, Copy)]
enum Indexes {
    Counted,
    FromOne,
    Zeros,
    Missing,
}

/// Place of the names of events.
#[derive(Clone, Copy)]
enum Names {
    Both,
    Event,
    Document,
}

impl Style {
    fn draw(writer: &mut Writer) -> Self {
        let indexes = [Indexes::Counted, Indexes::FromOne, Indexes::Zeros, Indexes::Missing];
        let names = [Names::Both, Names::Event, Names::Document];
        Self {
            indexes: indexes[writer.below(4)],
            names: names[writer.below(3)],
            has_text_start: writer.coin(),
            has_stop: writer.coin(),
        }
    }

    fn event(&self, writer: &mut Writer, kind: &str, mut document: Value) {
        if writer.below(9) == 0 {
            writer.named("ping", &json!({"type": "ping"}));
        }
        if !matches!(self.names, Names::Event) {
            document["type"] = kind.into();
        }
        let name = if matches!(self.names, Names::Document) { "" } else { kind };
        writer.named(name, &document);
    }

    /// Writes an event of the block at a position.
    fn block(&self, writer: &mut Writer, kind: &str, position: usize, mut document: Value) {
        match self.indexes {
            Indexes::Counted => document["index"] = writer.index(position),
            Indexes::FromOne => document["index"] = writer.index(position + 1),
            Indexes::Zeros => document["index"] = writer.index(0),
            Indexes::Missing => {}
        }
        self.event(writer, kind, document);
    }

    fn delta(&self, writer: &mut Writer, position: usize, kind: &str, mut delta: Value) {
        if writer.coin() {
            delta["type"] = kind.into();
        }
        self.block(writer, "content_block_delta", position, json!({"delta": delta}));
    }

    fn stop(&self, writer: &mut Writer, position: usize) {
        if self.has_stop {
            self.block(writer, "content_block_stop", position, json!({}));
        }
    }
}

fn write_text(writer: &mut Writer, style: &Style, position: usize) {
    let mut pieces = writer.pieces(TEXT);
    if style.has_text_start {
        // Some servers have the beginning of the text there.
        let text = if writer.coin() { pieces.remove(0) } else { String::new() };
        let block = json!({"content_block": {"type": "text", "text": text}});
        style.block(writer, "content_block_start", position, block);
    }
    for text in pieces {
        style.delta(writer, position, "text_delta", json!({"text": text}));
    }
    style.stop(writer, position);
}

fn write_thinking(writer: &mut Writer, style: &Style, position: usize) {
    let block = json!({"content_block": {"type": "thinking", "thinking": ""}});
    style.block(writer, "content_block_start", position, block);
    style.delta(writer, position, "thinking_delta", json!({"thinking": "hm"}));
    style.delta(writer, position, "signature_delta", json!({"signature": "c2ln"}));
    style.stop(writer, position);
}

/// A tool that the provider runs itself, whose input is no call.
fn write_search(writer: &mut Writer, style: &Style, position: usize) {
    let block = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    style.block(writer, "content_block_start", position, json!({"content_block": block}));
    let query = json!({"partial_json": "{\"query\":\"x\"}"});
    style.delta(writer, position, "input_json_delta", query);
    style.stop(writer, position);
}

/// Place of the arguments of a call.
#[derive(Clone, Copy)]
enum Args {
    Pieces,
    Whole,
    /// At the beginning, and once more in pieces.
    Twice,
    Object,
}

fn start_call(writer: &mut Writer, style: &Style, position: usize, place: Args) {
    let (name, args) = &calls()[position];
    let input = match place {
        Args::Whole | Args::Twice => args.clone(),
        Args::Pieces | Args::Object if writer.coin() => json!({}),
        Args::Pieces | Args::Object => Value::Null,
    };
    let block = json!({"type": "tool_use", "id": format!("t{position}"), "name": name,
        "input": input});
    writer.start();
    // The event is the next one.
    let mut document = json!({"content_block": block});
    document["type"] = "content_block_start".into();
    style.block(writer, "content_block_start", position + 2, document);
}

fn fragments(writer: &mut Writer, position: usize, place: Args) -> Vec<Value> {
    let args = calls()[position].1.clone();
    match place {
        Args::Whole => Vec::new(),
        Args::Object => vec![args],
        Args::Pieces | Args::Twice => {
            writer.pieces(&args.to_string()).into_iter().map(Value::from).collect()
        }
    }
}

fn write_calls(writer: &mut Writer, style: &Style) {
    let place = [Args::Pieces, Args::Whole, Args::Twice, Args::Object][writer.below(4)];
    // Only indexes tell the fragments of open blocks apart.
    let are_open = matches!(style.indexes, Indexes::Counted | Indexes::FromOne) && writer.coin();
    let mut open = Vec::new();
    for position in 0..calls().len() {
        start_call(writer, style, position, place);
        let fragments = fragments(writer, position, place);
        open.push(fragments.into_iter().map(|args| (position, args)).collect::<Vec<_>>());
        if !are_open {
            write_fragments(writer, style, std::mem::take(&mut open));
            style.stop(writer, position + 2);
        }
    }
    write_fragments(writer, style, open);
}

/// Writes fragments of several calls in a random order that keeps that of each call.
fn write_fragments(writer: &mut Writer, style: &Style, mut open: Vec<Vec<(usize, Value)>>) {
    open.iter_mut().for_each(|fragments| fragments.reverse());
    while !open.is_empty() {
        let at = writer.below(open.len());
        match open[at].pop() {
            Some((position, args)) => {
                let delta = json!({"partial_json": args});
                style.delta(writer, position + 2, "input_json_delta", delta);
            }
            None => {
                open.remove(at);
            }
        }
    }
}

fn write_end(writer: &mut Writer, style: &Style) {
    let word = writer.one_of(&["tool_use", "end_turn", "stop_sequence", "TOOL-USE", "whatever"]);
    let has_word = writer.below(4) > 0;
    writer.end();
    if has_word {
        let delta = json!({"delta": {"stop_reason": word}, "usage": {"output_tokens": 7}});
        style.event(writer, "message_delta", delta);
    }
    if !has_word || writer.coin() {
        style.event(writer, "message_stop", json!({}));
    }
}

fn write_whole(writer: &mut Writer) {
    let made = calls().into_iter().enumerate().map(|(position, (name, args))| {
        json!({"type": "tool_use", "id": format!("t{position}"), "name": name, "input": args})
    });
    let content: Vec<Value> = std::iter::once(json!({"type": "text", "text": TEXT}))
        .chain([json!({"type": "a_later_kind", "x": 1})])
        .chain(made)
        .collect();
    let word = writer.one_of(&["tool_use", "end_turn", "whatever"]);
    let mut message = json!({"id": "m", "content": content, "stop_reason": word});
    if writer.coin() {
        message["type"] = "message".into();
    }
    writer.whole(&message);
}

#[test]
fn an_answer_means_the_same_in_any_shape_of_messages() {
    check(Protocol::Anthropic, |writer| {
        if writer.below(8) == 0 {
            return write_whole(writer);
        }
        let style = Style::draw(writer);
        if writer.coin() {
            let message = json!({"message": {"id": "m", "content": [], "stop_reason": null,
                "usage": {"input_tokens": 11, "output_tokens": 1}}});
            style.event(writer, "message_start", message);
        }
        if writer.coin() {
            write_thinking(writer, &style, 0);
        }
        let is_text_last = writer.coin();
        if !is_text_last {
            write_text(writer, &style, 1);
        }
        if writer.below(4) == 0 {
            write_search(writer, &style, 1);
        }
        write_calls(writer, &style);
        if is_text_last {
            write_text(writer, &style, 4);
        }
        write_end(writer, &style);
    });
}
