//! Reads the documents of an answer.

use super::turn::Turn;
use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{Flaw, Progress, Reader, structure};
use crate::protocol::fields::{error_member, fragment, if_readable, index, text_or_default};
use crate::protocol::signature::Format;
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork_types::usage::Tokens;

/// A reader for one answer. `message_stop` ends it; the reason comes with `message_delta`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct AnthropicReader {
    /// The blocks that are tool calls, in order.
    calls: Vec<ToolUse>,
    /// Indices of the other blocks. The input of a tool that the provider runs is no call.
    others: Vec<u64>,
    /// Signature of the block that is being read; some servers send it in pieces.
    signature: String,
    /// `true` while thinking was received that has no signature so far.
    is_unsigned: bool,
    usage: Usage,
    turn: Turn,
}

/// A block that is a tool call.
#[derive(Debug)]
struct ToolUse {
    index: u64,
    /// `true` once its fragments had its index, `false` once they had one of no block.
    has_own_index: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicDocument {
    #[serde(rename = "type", deserialize_with = "text_or_default")]
    kind: String,
    #[serde(deserialize_with = "index")]
    index: Option<u64>,
    message: Option<Message>,
    content_block: Option<Block>,
    delta: Option<BlockDelta>,
    usage: Value,
    error: Value,
}

/// A message at its beginning, or the whole of one that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(deserialize_with = "if_readable")]
    id: Option<String>,
    content: Value,
    #[serde(deserialize_with = "text_or_default")]
    stop_reason: String,
    usage: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
    #[serde(rename = "type", deserialize_with = "text_or_default")]
    kind: String,
    #[serde(deserialize_with = "text_or_default")]
    text: String,
    #[serde(deserialize_with = "text_or_default")]
    thinking: String,
    #[serde(deserialize_with = "text_or_default")]
    signature: String,
    #[serde(deserialize_with = "text_or_default")]
    data: String,
    #[serde(deserialize_with = "text_or_default")]
    id: String,
    #[serde(deserialize_with = "text_or_default")]
    name: String,
    input: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlockDelta {
    #[serde(deserialize_with = "text_or_default")]
    text: String,
    #[serde(deserialize_with = "text_or_default")]
    thinking: String,
    #[serde(deserialize_with = "text_or_default")]
    signature: String,
    partial_json: Value,
    #[serde(deserialize_with = "text_or_default")]
    stop_reason: String,
}

/// Counts so far. Later ones replace those that they name.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Usage {
    fn updated(self, later: &Value) -> Self {
        let later = Account(later);
        let read = later.count(&["/cache_read_input_tokens"]);
        let written = later.count(&["/cache_creation_input_tokens"]);
        Self {
            input_tokens: later.input().filter(|count| *count > 0).or(self.input_tokens),
            output_tokens: later.output().or(self.output_tokens),
            cache_read_input_tokens: read.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: written.or(self.cache_creation_input_tokens),
        }
    }

    /// The counts; `None` if there are none. The protocol counts input from the cache and input for
    /// it apart.
    fn tokens(self) -> Option<Tokens> {
        self.input_tokens.or(self.output_tokens)?;
        let read = self.cache_read_input_tokens.unwrap_or_default();
        let written = self.cache_creation_input_tokens.unwrap_or_default();
        let fresh = self.input_tokens.unwrap_or_default();
        let input = fresh.saturating_add(read).saturating_add(written);
        let output = self.output_tokens.unwrap_or_default();
        Some(Tokens::reported(input, output).cached(read).cache_written(written))
    }
}

impl Reader for AnthropicReader {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let kind = document.get("type").and_then(Value::as_str);
        let has_content = document.get("content").is_some_and(|content| !content.is_null());
        if kind == Some("message") || kind.is_none() && has_content {
            let message = structure(document)?;
            return self.read_message(message, progress);
        }
        self.turn.read(&document);
        let document: AnthropicDocument = structure(document)?;
        if let Some(error) = error_member(document.error) {
            return Err(Flaw::Refused(error));
        }
        // Not at a `ping`, which may come within a block.
        let ends_block =
            ["content_block_start", "content_block_stop", "message_delta", "message_stop"];
        if ends_block.contains(&document.kind.as_str()) {
            self.sign(progress);
        }
        match document.kind.as_str() {
            "message_start" => self.read_message(document.message.unwrap_or_default(), progress)?,
            "content_block_start" => {
                let block = document.content_block.unwrap_or_default();
                self.read_block(document.index.unwrap_or_default(), block, progress);
            }
            "content_block_delta" => {
                let index = document.index.unwrap_or_default();
                self.read_delta(index, &document.delta.unwrap_or_default(), progress)?;
            }
            "message_delta" => {
                self.usage = self.usage.updated(&document.usage);
                let cost = Account(&document.usage).cost_micro_usd();
                progress.cost_micro_usd = cost.or(progress.cost_micro_usd);
                self.read_stop(&document.delta.unwrap_or_default().stop_reason, progress)?;
            }
            "message_stop" => progress.is_over = true,
            // `ping`, `content_block_stop` and kinds that later versions add.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, progress: &mut Progress) {
        self.sign(progress);
        if progress.finish == Some(FinishReason::Paused) {
            let content = Value::from(std::mem::take(&mut self.turn).content());
            progress.sign(Format::AnthropicTurn, &content.to_string());
        }
    }
}

impl AnthropicReader {
    /// Ends the thinking that is being read with its signature. Some servers do not sign.
    fn sign(&mut self, progress: &mut Progress) {
        let signature = std::mem::take(&mut self.signature);
        let is_unsigned = std::mem::take(&mut self.is_unsigned);
        match signature.is_empty() {
            false => progress.sign(Format::Anthropic, &signature),
            true if is_unsigned => progress.mark(Format::AnthropicUnsigned),
            true => {}
        }
    }

    fn read_message(&mut self, message: Message, progress: &mut Progress) -> Result<(), Flaw> {
        progress.set_id(message.id);
        self.usage = self.usage.updated(&message.usage);
        let blocks = match message.content {
            Value::Array(blocks) => blocks,
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            _ => Vec::new(),
        };
        for (index, block) in (0..).zip(blocks) {
            self.turn.start(index.into(), block.clone());
            self.read_block(index, serde_json::from_value(block).unwrap_or_default(), progress);
        }
        self.read_stop(&message.stop_reason, progress)
    }

    fn read_block(&mut self, index: u64, block: Block, progress: &mut Progress) {
        self.sign(progress);
        if block.kind != "tool_use" {
            self.others.push(index);
        }
        match block.kind.as_str() {
            "text" => progress.text(&block.text),
            "thinking" => {
                progress.reasoning(&block.thinking);
                self.is_unsigned = !block.thinking.is_empty();
                self.signature = block.signature;
            }
            "redacted_thinking" => progress.sign(Format::AnthropicRedacted, &block.data),
            "tool_use" => {
                self.calls.push(ToolUse { index, has_own_index: None });
                let input = match &block.input {
                    Value::Object(input) if input.is_empty() => String::new(),
                    input => fragment(input),
                };
                progress.events.push_back(ChatEvent::ToolCallDelta {
                    index: self.calls.len() - 1,
                    id: Some(block.id),
                    name: Some(block.name),
                    args: input,
                });
            }
            // Tools that the provider runs itself are not offered to it.
            _ => {}
        }
    }

    fn read_delta(
        &mut self,
        index: u64,
        delta: &BlockDelta,
        progress: &mut Progress,
    ) -> Result<(), Flaw> {
        let args = fragment(&delta.partial_json);
        if !delta.text.is_empty() || !args.is_empty() {
            self.sign(progress);
        }
        progress.text(&delta.text);
        progress.reasoning(&delta.thinking);
        self.is_unsigned |= !delta.thinking.is_empty();
        self.signature.push_str(&delta.signature);
        // Some servers give all blocks the same index, and others count them differently.
        let own = self.calls.iter().rposition(|call| call.index == index);
        let last = || self.calls.len().checked_sub(1);
        let call = own.or_else(|| last().filter(|_| !self.others.contains(&index)));
        let Some(position) = call.filter(|_| !args.is_empty()) else { return Ok(()) };
        let known = self.calls[position].has_own_index.replace(own.is_some());
        if known.is_some_and(|known| known != own.is_some()) {
            // They may be those of another call, whose beginning was lost.
            let problem = "fragments of a call came without its beginning".to_owned();
            return Err(Flaw::Truncated(problem));
        }
        progress.events.push_back(ChatEvent::ToolCallDelta {
            index: position,
            id: None,
            name: None,
            args,
        });
        Ok(())
    }

    fn read_stop(&mut self, reason: &str, progress: &mut Progress) -> Result<(), Flaw> {
        progress.tokens = self.usage.tokens();
        progress.end(reason, None)
    }
}
