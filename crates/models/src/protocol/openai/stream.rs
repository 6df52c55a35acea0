//! Reads the documents of an answer.

use super::response::{CallDelta, Choice, Chunk, Delta, tokens};
use crate::chat::{ChatEvent, FinishReason};
use crate::protocol::account::Account;
use crate::protocol::decoder::{Flaw, Progress, Reader, structure, unknown_reason};
use serde_json::Value;

/// A reader for one answer. `[DONE]` ends it, or the end of the body after a `finish_reason`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Answer {
    calls: Vec<Call>,
}

/// A tool call of this answer and its wire index.
#[derive(Debug)]
struct Call {
    wire_index: Option<u64>,
    id: String,
    named: bool,
}

impl Reader for Answer {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let chunk: Chunk = structure(document.clone())?;
        if let Some(error) = chunk.error {
            return Err(Flaw::Refused(error));
        }
        if chunk.choices.is_empty() && chunk.usage.is_null() && is_error(&document) {
            return Err(Flaw::Refused(document));
        }
        progress.set_id(chunk.id);
        let cost_micro_usd = Account(&chunk.usage).cost_micro_usd();
        progress.cost_micro_usd = cost_micro_usd.or(progress.cost_micro_usd);
        progress.tokens = tokens(&chunk.usage).or(progress.tokens);
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, progress)?;
        }
        Ok(())
    }
}

impl Answer {
    fn choice(&mut self, choice: Choice, progress: &mut Progress) -> Result<(), Flaw> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(&delta, progress);
        }
        if let Some(word) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            progress.finish = Some(reason(&word)?);
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta, progress: &mut Progress) {
        progress.reasoning(&delta.reasoning());
        progress.text(&delta.text());
        for call in &delta.tool_calls {
            let index = self.place(call);
            let known = &mut self.calls[index];
            // Emitted once, with the first fragment that has it: some servers repeat them in each
            // fragment.
            let id = Some(&call.id).filter(|id| known.id.is_empty() && !id.is_empty()).cloned();
            let name = Some(&call.function.name).filter(|name| !known.named && !name.is_empty());
            known.named |= name.is_some();
            known.id.extend(id.as_deref());
            progress.events.push_back(ChatEvent::ToolCallDelta {
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
}

fn reason(reason: &str) -> Result<FinishReason, Flaw> {
    match reason {
        "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" | "complete" => {
            Ok(FinishReason::Stop)
        }
        "tool_calls" | "function_call" => Ok(FinishReason::ToolCalls),
        "length" | "max_tokens" | "model_length" => Ok(FinishReason::Length),
        "content_filter" => Ok(FinishReason::ContentFilter),
        "error" | "abort" | "insufficient_system_resource" => {
            Err(Flaw::Truncated(format!("the provider gave up: `{reason}`")))
        }
        other => Err(unknown_reason(other)),
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
