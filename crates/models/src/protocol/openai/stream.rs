//! Decodes the bytes of a response into events.

use super::failure::{self, Source};
use super::response::{CallDelta, Choice, Chunk, Delta};
use crate::ModelError;
use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::sse::SseParser;
use serde_json::Value;
use std::collections::VecDeque;
use weftwork_types::port::EgressError;
use weftwork_types::usage::Tokens;

/// A decoder for one answer.
///
/// An answer is complete once the provider has sent a `finish_reason`. If `[DONE]` or the usage is
/// missing after that, only the exact token counts are lost. An answer without a `finish_reason` is
/// truncated, with or without `[DONE]`.
#[derive(Debug)]
pub(super) struct Decoder {
    source: Source,
    status: u16,
    body: Body,
    calls: Vec<Call>,
    chunks: u64,
    id: Option<String>,
    tokens: Option<Tokens>,
    finish: Option<FinishReason>,
    done: bool,
}

#[derive(Debug)]
enum Body {
    /// Only white space was received so far.
    Unknown,
    /// An event stream.
    Events(SseParser),
    /// A single JSON document, from a server that does not stream or reports an error.
    Json(Vec<u8>),
}

/// A tool call of this answer and its wire index.
#[derive(Debug)]
struct Call {
    wire_index: Option<u64>,
    id: String,
    named: bool,
}

impl Decoder {
    pub(super) fn new(source: Source, status: u16) -> Self {
        Self {
            source,
            status,
            body: Body::Unknown,
            calls: Vec::new(),
            chunks: 0,
            id: None,
            tokens: None,
            finish: None,
            done: false,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns `true` once the final event was returned.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Decodes a chunk of the body.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        let mut events = Vec::new();
        match &mut self.body {
            Body::Unknown => match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{') => self.body = Body::Json(piece.to_vec()),
                Some(b'<') => {
                    return Err(self
                        .source
                        .malformed("expected an event stream, found a web page"));
                }
                Some(_) => {
                    self.body = Body::Events(SseParser::default());
                    return self.push(piece, out);
                }
            },
            Body::Json(bytes) => bytes.extend_from_slice(piece),
            Body::Events(parser) => parser
                .push(piece, &mut events)
                .map_err(|_| self.source.malformed("one event is larger than 1 MiB"))?,
        }
        for data in events {
            if self.done {
                break;
            }
            self.event(&data, out)?;
        }
        Ok(())
    }

    /// Handles the end of the body, with the transport error if there was one.
    pub(super) fn cut(
        &mut self,
        error: Option<EgressError>,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        if let (Body::Json(bytes), None) = (&mut self.body, &error) {
            let bytes = std::mem::take(bytes);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.chunk(&text, out)?;
        }
        match (self.finish, error) {
            (Some(_), _) => {
                self.end(out);
                Ok(())
            }
            (None, Some(source)) if self.chunks == 0 => {
                Err(ModelError::Transport { provider: self.source.provider().to_owned(), source })
            }
            (None, Some(error)) => Err(self.truncated(error.to_string())),
            (None, None) => Err(self.truncated("the stream ended without a finish reason".into())),
        }
    }

    fn event(&mut self, data: &str, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        match data.trim() {
            "" => Ok(()),
            "[DONE]" if self.finish.is_some() => {
                self.end(out);
                Ok(())
            }
            "[DONE]" => Err(self.truncated("the stream is done without a finish reason".into())),
            data => self.chunk(data, out),
        }
    }

    fn chunk(&mut self, data: &str, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        let value: Value = serde_json::from_str(data).map_err(|error| {
            let shown: String = data.chars().take(80).collect();
            let shown = self.source.quote(&shown);
            self.source.malformed(format!("a chunk is not JSON: {error}; it begins with `{shown}`"))
        })?;
        let chunk: Chunk = serde_json::from_value(value.clone()).map_err(|error| {
            self.source.malformed(format!("a chunk has an unexpected structure: {error}"))
        })?;
        if let Some(error) = chunk.error {
            return Err(failure::from_object(&self.source, self.status, &error));
        }
        if chunk.choices.is_empty() && chunk.usage.is_none() && is_error(&value) {
            return Err(failure::from_object(&self.source, self.status, &value));
        }
        self.chunks += 1;
        self.id = self.id.take().or(chunk.id.filter(|id| !id.is_empty()));
        if let Some(usage) = chunk.usage {
            self.tokens = Some(usage.into());
        }
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, out)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(&delta, out);
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(self.reason(&reason)?);
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta, out: &mut VecDeque<ChatEvent>) {
        let (reasoning, text) = (delta.reasoning(), delta.text());
        if !reasoning.is_empty() {
            out.push_back(ChatEvent::ReasoningDelta(reasoning));
        }
        if !text.is_empty() {
            out.push_back(ChatEvent::TextDelta(text));
        }
        for call in &delta.tool_calls {
            let index = self.place(call);
            let known = &mut self.calls[index];
            // Emitted once, with the first fragment that has it: some servers repeat them in each
            // fragment.
            let id = Some(&call.id).filter(|id| known.id.is_empty() && !id.is_empty()).cloned();
            let name = Some(&call.function.name).filter(|name| !known.named && !name.is_empty());
            known.named |= name.is_some();
            known.id.extend(id.as_deref());
            out.push_back(ChatEvent::ToolCallDelta {
                index,
                id,
                name: name.cloned(),
                args: call.function.arguments(),
            });
        }
    }

    /// Returns the position of the call that a fragment belongs to, adding a new call if needed.
    ///
    /// The index decides. Some servers send no index, or 0 for every call; then a new id, or a name
    /// without an id, starts a new call, and any other fragment belongs to the last call.
    fn place(&mut self, delta: &CallDelta) -> usize {
        let found = self.calls.iter().rposition(|call| match delta.index {
            Some(index) => call.wire_index == Some(index),
            None if delta.id.is_empty() => delta.function.name.is_empty(),
            None => call.id == delta.id,
        });
        let another =
            |call: &Call| !delta.id.is_empty() && !call.id.is_empty() && call.id != delta.id;
        match found {
            Some(at) if !another(&self.calls[at]) => at,
            _ => {
                let (wire_index, id) = (delta.index, String::new());
                self.calls.push(Call { wire_index, id, named: false });
                self.calls.len() - 1
            }
        }
    }

    fn reason(&self, reason: &str) -> Result<FinishReason, ModelError> {
        match reason {
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" | "complete" => {
                Ok(FinishReason::Stop)
            }
            "tool_calls" | "function_call" => Ok(FinishReason::ToolCalls),
            "length" | "max_tokens" | "model_length" => Ok(FinishReason::Length),
            "content_filter" => Ok(FinishReason::ContentFilter),
            "error" | "abort" | "insufficient_system_resource" => {
                Err(self.truncated(format!("the provider gave up: `{reason}`")))
            }
            other => {
                let other = self.source.quote(other);
                Err(self.source.malformed(format!("unknown finish reason `{other}`")))
            }
        }
    }

    fn end(&mut self, out: &mut VecDeque<ChatEvent>) {
        let Some(reason) = self.finish else { return };
        out.extend(self.tokens.map(ChatEvent::Usage));
        out.push_back(ChatEvent::Finish { reason, provider_call_id: self.id.take() });
        self.done = true;
    }

    fn truncated(&self, reason: String) -> ModelError {
        let provider = self.source.provider().to_owned();
        ModelError::Truncated { provider, events: self.chunks, reason }
    }
}

/// Returns `true` if an object without choices is an error in the form of servers that send no
/// `error` member.
fn is_error(value: &Value) -> bool {
    let named = |name| value.get(name).is_some_and(Value::is_string);
    value.get("choices").is_none() && (named("message") || named("detail"))
}

#[cfg(test)]
mod tests;
