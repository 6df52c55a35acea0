//! Reads the documents of an answer.

use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{
    Flaw, Progress, Reader, if_readable, or_default, structure, unknown_reason,
};
use crate::protocol::signature::Format;
use serde::Deserialize;
use serde_json::Value;
use weftwork_types::usage::Tokens;

/// A reader for one answer. `message_stop` ends it; the reason comes with `message_delta`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Answer {
    /// Indices of the blocks that are tool calls, in order.
    calls: Vec<u64>,
    usage: Usage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    index: u64,
    message: Option<Message>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Value,
    error: Option<Value>,
}

/// A message at its beginning, or the whole of one that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(deserialize_with = "if_readable")]
    id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    text: String,
    #[serde(deserialize_with = "or_default")]
    thinking: String,
    #[serde(deserialize_with = "or_default")]
    signature: String,
    #[serde(deserialize_with = "or_default")]
    data: String,
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    input: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    #[serde(deserialize_with = "or_default")]
    text: String,
    #[serde(deserialize_with = "or_default")]
    thinking: String,
    #[serde(deserialize_with = "or_default")]
    signature: String,
    #[serde(deserialize_with = "or_default")]
    partial_json: String,
    stop_reason: Option<String>,
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
            input_tokens: later.input().or(self.input_tokens),
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

impl Reader for Answer {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        if document.get("type").and_then(Value::as_str) == Some("message") {
            let message = structure(document)?;
            return self.message(message, progress);
        }
        let document: Document = structure(document)?;
        if let Some(error) = document.error {
            return Err(Flaw::Refused(error));
        }
        match document.kind.as_str() {
            "message_start" => self.message(document.message.unwrap_or_default(), progress)?,
            "content_block_start" => {
                self.block(document.index, document.content_block.unwrap_or_default(), progress);
            }
            "content_block_delta" => {
                self.delta(document.index, &document.delta.unwrap_or_default(), progress);
            }
            "message_delta" => {
                self.usage = self.usage.updated(&document.usage);
                self.stop(document.delta.and_then(|delta| delta.stop_reason), progress)?;
            }
            "message_stop" => progress.is_over = true,
            // `ping`, `content_block_stop` and kinds that later versions add.
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    fn message(&mut self, message: Message, progress: &mut Progress) -> Result<(), Flaw> {
        progress.set_id(message.id);
        self.usage = self.usage.updated(&message.usage);
        for (index, block) in (0..).zip(message.content) {
            self.block(index, block, progress);
        }
        self.stop(message.stop_reason, progress)
    }

    fn block(&mut self, index: u64, block: Block, progress: &mut Progress) {
        match block.kind.as_str() {
            "text" => progress.text(&block.text),
            "thinking" => {
                progress.reasoning(&block.thinking);
                sign(Format::Anthropic, &block.signature, progress);
            }
            "redacted_thinking" => sign(Format::AnthropicRedacted, &block.data, progress),
            "tool_use" => {
                self.calls.push(index);
                let has_input = block.input.as_object().is_some_and(|input| !input.is_empty());
                progress.events.push_back(ChatEvent::ToolCallDelta {
                    index: self.calls.len() - 1,
                    id: Some(block.id),
                    name: Some(block.name),
                    args: if has_input { block.input.to_string() } else { String::new() },
                });
            }
            // Tools that the provider runs itself are not offered to it.
            _ => {}
        }
    }

    fn delta(&mut self, index: u64, delta: &Delta, progress: &mut Progress) {
        progress.text(&delta.text);
        progress.reasoning(&delta.thinking);
        sign(Format::Anthropic, &delta.signature, progress);
        let call = self.calls.iter().position(|call| *call == index);
        if let Some(index) = call.filter(|_| !delta.partial_json.is_empty()) {
            let args = delta.partial_json.clone();
            progress.events.push_back(ChatEvent::ToolCallDelta {
                index,
                id: None,
                name: None,
                args,
            });
        }
    }

    fn stop(&mut self, reason: Option<String>, progress: &mut Progress) -> Result<(), Flaw> {
        progress.tokens = self.usage.tokens();
        let Some(reason) = reason else { return Ok(()) };
        progress.finish = Some(match reason.as_str() {
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::ContentFilter,
            other => return Err(unknown_reason(other)),
        });
        Ok(())
    }
}

fn sign(format: Format, signature: &str, progress: &mut Progress) {
    if !signature.is_empty() {
        progress.events.push_back(format.event(signature));
    }
}
