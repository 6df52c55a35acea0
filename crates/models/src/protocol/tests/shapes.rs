//! Generated shapes of one answer: splits, orders, indices, framings, repetitions and omissions.
//!
//! Every shape gives the same text and calls. A shape that was cut or has an error in it gives one
//! error that names the cause, and never another call.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use super::habits::answer;
use crate::call::ChatResponse;
use crate::protocol::{Protocol, UNNAMED};
use serde_json::{Value, json};
use weftwork_types::message::Part;

/// Text of the answer.
const TEXT: &str = "Let me look. 🧵";

/// Names and arguments of the calls of the answer.
fn calls() -> [(&'static str, Value); 2] {
    [("lookup", json!({"order_id": "A1 \"ü\" 🧵"})), ("refund", json!({"amount": 2.5, "n": [1]}))]
}

/// Writes one answer in a random shape.
struct Writer {
    state: u64,
    /// Events with their framing, in order; one alone for an answer that is not streamed.
    events: Vec<String>,
    /// Positions of events that begin a call.
    starts: Vec<usize>,
    /// Position of the event that ends the answer; `None` if it is not streamed.
    end: Option<usize>,
}

impl Writer {
    fn new(seed: u32) -> Self {
        let state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { state, events: Vec::new(), starts: Vec::new(), end: None }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) as usize % limit
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// Splits a text at random places.
    fn pieces(&mut self, text: &str) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for letter in text.chars() {
            if self.below(4) == 0 {
                pieces.push(String::new());
            }
            pieces.last_mut().expect("one").push(letter);
        }
        pieces
    }

    /// Returns an index in one of the notations of servers.
    fn index(&mut self, index: usize) -> Value {
        match self.below(8) {
            0 => json!(index.to_string()),
            1 => json!(index as f64),
            _ => json!(index),
        }
    }

    fn event(&mut self, document: &Value) {
        self.named("", document);
    }

    /// Writes an event with a name, or without one if it is empty.
    fn named(&mut self, name: &str, document: &Value) {
        let end = self.one_of(&["\n", "\r\n", "\r"]);
        let space = if self.coin() { " " } else { "" };
        let mut event = String::new();
        if self.below(5) == 0 {
            event += &format!(": a remark{end}{end}");
        }
        if !name.is_empty() {
            event += &format!("event:{space}{name}{end}");
        }
        event += &format!("data:{space}{document}{end}{end}");
        self.events.push(event);
    }

    /// Notes that the next event begins a call.
    fn start(&mut self) {
        self.starts.push(self.events.len());
    }

    /// Notes that the next event ends the answer.
    fn end(&mut self) {
        self.end = Some(self.events.len());
    }

    /// Writes a whole answer that is not streamed.
    fn whole(&mut self, document: &Value) {
        let text = match self.below(3) {
            0 => format!("{document:#}"),
            1 => format!("\u{feff}\n{document}\n"),
            _ => document.to_string(),
        };
        self.events = vec![text];
    }

    fn body(&self) -> String {
        self.events.concat()
    }
}

/// Returns the names and arguments of the calls.
fn made(answer: &ChatResponse) -> Vec<(&str, Value)> {
    let calls = answer.message.tool_calls();
    calls.map(|call| (call.name.as_str(), call.args.clone())).collect()
}

fn assert_same(answer: &ChatResponse, shape: &str) {
    assert_eq!(answer.message.joined_text(), TEXT, "{shape}");
    assert_eq!(made(answer), calls(), "{shape}");
    let reasoning = answer.message.parts.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    let reasoning: Vec<&str> = reasoning.collect();
    assert!(reasoning.is_empty() || reasoning == ["hm"], "{reasoning:?}, {shape}");
}

/// Checks the answer in generated shapes of a protocol.
fn check(protocol: Protocol, write: impl Fn(&mut Writer)) {
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    for seed in 0..if is_full { 10_000 } else { 100 } {
        let mut writer = Writer::new(seed);
        write(&mut writer);
        let body = writer.body();
        let shape = format!("{protocol:?}, seed {seed}\n{body}");
        let size = writer.below(40) + 1;
        let read = |body: &str| answer(protocol, body.as_bytes().chunks(size));
        match read(&body) {
            Ok(answer) => assert_same(&answer, &shape),
            Err(error) => panic!("{error}\n{shape}"),
        }
        let at = writer.below(body.len());
        match answer(protocol, [&body.as_bytes()[..at]]) {
            // What is missing says nothing of the answer.
            Ok(answer) => assert_same(&answer, &format!("cut at {at}, {shape}")),
            Err(error) => {
                let code = error.code().0;
                assert!(["W0307", "W0308"].contains(&code), "cut at {at}: {error}\n{shape}");
            }
        }
        check_damage(&mut writer, |body| answer(protocol, [body.as_bytes()]), &shape);
    }
}

/// Checks the shape with an error in it, and without the beginning of a call.
fn check_damage(
    writer: &mut Writer,
    read: impl Fn(&str) -> Result<ChatResponse, crate::ModelError>,
    shape: &str,
) {
    let Some(end) = writer.end else { return };
    let at = writer.below(end + 1);
    let error = "data: {\"type\": \"error\", \"error\": {\"message\": \"boom\"}}\n\n";
    writer.events.insert(at, error.to_owned());
    let failed = read(&writer.body()).expect_err(shape);
    let is_named = failed.code().0 == "W0305" && failed.to_string().contains("boom");
    assert!(is_named, "error before event {at}: {failed}\n{shape}");
    writer.events.remove(at);

    if writer.starts.is_empty() {
        return;
    }
    let nth = writer.below(writer.starts.len());
    let start = writer.starts[nth];
    writer.events.remove(start);
    let Ok(answer) = read(&writer.body()) else { return };
    for (name, args) in made(&answer) {
        // No tool has this name, and none accepts arguments that are a text.
        let is_refused = name == UNNAMED || args.is_string();
        let is_meant = calls().iter().any(|call| call.0 == name && call.1 == args);
        assert!(is_refused || is_meant, "without event {start}: {name}({args})\n{shape}");
    }
}
