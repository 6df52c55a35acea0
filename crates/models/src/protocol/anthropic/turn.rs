//! The content of an answer as it came. It goes back if the provider paused the answer: calls of tools
//! that the provider runs itself, and their results, are no parts of a message.

use crate::protocol::fields::fragment;
use serde_json::{Value, json};

/// Blocks of an answer so far, in order.
#[derive(Debug, Default)]
pub(super) struct Turn(Vec<TurnBlock>);

#[derive(Debug)]
struct TurnBlock {
    index: Value,
    content: Value,
    /// Fragments of the input of a call.
    input: String,
}

impl Turn {
    /// Reads a document of a stream.
    pub(super) fn read(&mut self, document: &Value) {
        let member = |name: &str| document.get(name).cloned().unwrap_or_default();
        match document.get("type").and_then(Value::as_str) {
            Some("content_block_start") => self.start(member("index"), member("content_block")),
            Some("content_block_delta") => self.add_delta(&member("index"), &member("delta")),
            _ => {}
        }
    }

    /// Adds a block.
    pub(super) fn start(&mut self, index: Value, content: Value) {
        self.0.push(TurnBlock { index, content, input: String::new() });
    }

    fn add_delta(&mut self, index: &Value, delta: &Value) {
        let mut blocks = self.0.iter_mut().rev();
        let Some(block) = blocks.find(|block| block.index == *index) else { return };
        block.input += &delta.get("partial_json").map(fragment).unwrap_or_default();
        let Some(content) = block.content.as_object_mut() else { return };
        for name in ["text", "thinking", "signature"] {
            if let Some(more) = delta.get(name).and_then(Value::as_str) {
                let known = content.get(name).and_then(Value::as_str).unwrap_or_default();
                let all = format!("{known}{more}");
                content.insert(name.to_owned(), all.into());
            }
        }
        if let Some(citation) = delta.get("citation") {
            match content.get_mut("citations").and_then(Value::as_array_mut) {
                Some(citations) => citations.push(citation.clone()),
                None => _ = content.insert("citations".to_owned(), json!([citation])),
            }
        }
    }

    /// Returns the content for a request, without blocks of empty text, which the protocol refuses.
    pub(super) fn content(self) -> Vec<Value> {
        let content = self.0.into_iter().map(|block| {
            let mut content = block.content;
            let input: Option<Value> = serde_json::from_str(&block.input).ok();
            if let Some(input) = input.filter(Value::is_object) {
                content["input"] = input;
            }
            content
        });
        let is_empty = |content: &Value| {
            content["type"] == "text"
                && content["text"].as_str().is_none_or(|text| text.trim().is_empty())
        };
        content.filter(|content| content.is_object() && !is_empty(content)).collect()
    }
}
