//! Shapes of OpenAI's responses.

use super::{TEXT, Writer, calls, check};
use crate::protocol::Protocol;
use serde_json::{Value, json};

/// The way in which a server writes events.
struct Style {
    named_by: Place,
    has_name: bool,
    /// Numbers of the item's events differ in their ids; only indexes tell the items apart.
    ids_differ: bool,
    text: Told,
    args: Told,
    /// The last event has all items.
    has_output: bool,
}

/// Members that name the item of an event.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Index,
    Item,
    Both,
}

/// Events that have a text or arguments.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// In pieces, and whole at the end.
    Both,
    Pieces,
    Whole,
    /// With the end of the item.
    Item,
    /// With the beginning of the item. Not for texts.
    Start,
    /// In the last event only.
    Output,
}

impl Style {
    fn draw(writer: &mut Writer) -> Self {
        let named_by = [Place::Index, Place::Item, Place::Both][writer.below(3)];
        let told = [Told::Both, Told::Pieces, Told::Whole, Told::Item, Told::Output, Told::Start];
        let text = told[writer.below(5)];
        let args = told[writer.below(6)];
        Self {
            named_by,
            has_name: writer.coin(),
            ids_differ: named_by != Place::Item && writer.below(4) == 0,
            text,
            args,
            has_output: text == Told::Output || args == Told::Output || writer.coin(),
        }
    }

    fn event(&self, writer: &mut Writer, kind: &str, mut document: Value) {
        let has_both = writer.coin();
        if !self.has_name || has_both {
            document["type"] = kind.into();
        }
        writer.named(if self.has_name { kind } else { "" }, &document);
    }

    fn id(&self, writer: &mut Writer, position: usize) -> String {
        match self.ids_differ {
            true => format!("i{position}_{}", writer.below(1000)),
            false => format!("i{position}"),
        }
    }

    /// Writes an event of the item at a position.
    fn part(&self, writer: &mut Writer, kind: &str, position: usize, mut document: Value) {
        if self.named_by != Place::Item {
            document["output_index"] = writer.index(position);
        }
        if self.named_by != Place::Index {
            document["item_id"] = self.id(writer, position).into();
        }
        self.event(writer, kind, document);
    }

    /// Writes the beginning or the end of an item.
    fn item(&self, writer: &mut Writer, kind: &str, position: usize, mut item: Value) {
        item["id"] = self.id(writer, position).into();
        let mut document = json!({ "item": item });
        if self.named_by != Place::Item {
            document["output_index"] = writer.index(position);
        }
        self.event(writer, kind, document);
    }
}

fn message() -> Value {
    json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": TEXT}]})
}

fn call(writer: &mut Writer, number: usize) -> Value {
    let (name, args) = calls()[number].clone();
    let args = if writer.below(4) == 0 { args } else { args.to_string().into() };
    json!({"type": "function_call", "call_id": format!("c{number}"), "name": name,
        "arguments": args})
}

fn write_text(writer: &mut Writer, style: &Style, position: usize) {
    if style.text == Told::Output {
        return;
    }
    if writer.coin() {
        let item = json!({"type": "message", "content": []});
        style.item(writer, "response.output_item.added", position, item);
    }
    if matches!(style.text, Told::Both | Told::Pieces) {
        for text in writer.pieces(TEXT) {
            let delta = json!({"content_index": 0, "delta": text});
            style.part(writer, "response.output_text.delta", position, delta);
        }
    }
    if matches!(style.text, Told::Both | Told::Whole) {
        let whole = json!({"content_index": 0, "text": TEXT});
        style.part(writer, "response.output_text.done", position, whole);
    }
    if style.text == Told::Item || writer.coin() {
        style.item(writer, "response.output_item.done", position, message());
    }
}

fn start_call(writer: &mut Writer, style: &Style, number: usize) {
    let mut item = call(writer, number);
    if style.args != Told::Start {
        item["arguments"] = if writer.coin() { json!("") } else { Value::Null };
    }
    writer.start();
    style.item(writer, "response.output_item.added", number + 2, item);
}

fn end_call(writer: &mut Writer, style: &Style, number: usize) {
    if matches!(style.args, Told::Both | Told::Whole) {
        let whole = json!({"arguments": calls()[number].1.to_string()});
        style.part(writer, "response.function_call_arguments.done", number + 2, whole);
    }
    if style.args == Told::Item || writer.coin() {
        let item = call(writer, number);
        style.item(writer, "response.output_item.done", number + 2, item);
    }
}

fn write_calls(writer: &mut Writer, style: &Style) {
    if style.args == Told::Output {
        return;
    }
    if style.args == Told::Item && writer.coin() {
        // Items without a beginning.
        (0..2).for_each(|number| end_call(writer, style, number));
        return;
    }
    let has_pieces = matches!(style.args, Told::Both | Told::Pieces);
    let mut open: Vec<(usize, Vec<String>)> = Vec::new();
    for (number, (_, args)) in calls().into_iter().enumerate() {
        start_call(writer, style, number);
        let mut pieces = writer.pieces(&args.to_string());
        pieces.reverse();
        open.push((number, if has_pieces { pieces } else { Vec::new() }));
        // Otherwise both calls are open at once.
        if writer.coin() {
            write_pieces(writer, style, std::mem::take(&mut open));
        }
    }
    write_pieces(writer, style, open);
}

/// Writes pieces of several calls in a random order that keeps that of each call.
fn write_pieces(writer: &mut Writer, style: &Style, mut open: Vec<(usize, Vec<String>)>) {
    while !open.is_empty() {
        let at = writer.below(open.len());
        let number = open[at].0;
        match open[at].1.pop() {
            Some(piece) => {
                let delta = json!({ "delta": piece });
                style.part(writer, "response.function_call_arguments.delta", number + 2, delta);
            }
            None => {
                end_call(writer, style, number);
                open.remove(at);
            }
        }
    }
}

fn output(writer: &mut Writer) -> Vec<Value> {
    vec![message(), call(writer, 0), call(writer, 1)]
}

fn write_end(writer: &mut Writer, style: &Style) {
    let output = if style.has_output { output(writer) } else { Vec::new() };
    let mut response = json!({"id": "r", "output": output});
    if writer.coin() {
        response["status"] = "completed".into();
    }
    writer.end();
    let kind = writer.one_of(&["response.completed", "response.done"]);
    style.event(writer, kind, json!({ "response": response }));
    if writer.coin() {
        writer.events.push("data: [DONE]\n\n".to_owned());
    }
}

#[test]
fn an_answer_means_the_same_in_any_shape_of_responses() {
    check(Protocol::OpenaiResponses, |writer| {
        if writer.below(8) == 0 {
            let output = output(writer);
            let mut response = json!({"output": output, "status": "completed"});
            if writer.coin() {
                response["object"] = "response".into();
            }
            return writer.whole(&response);
        }
        let style = Style::draw(writer);
        if writer.coin() {
            let created = json!({"response": {"id": "r", "status": "in_progress", "output": []}});
            style.event(writer, "response.created", created);
        }
        if writer.coin() {
            let delta = json!({"delta": "hm"});
            style.part(writer, "response.reasoning_summary_text.delta", 0, delta);
        }
        write_text(writer, &style, 1);
        write_calls(writer, &style);
        write_end(writer, &style);
    });
}
