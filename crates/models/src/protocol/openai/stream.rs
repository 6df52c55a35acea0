//! Reads the documents of an answer.

use super::response::{CallDelta, Choice, Chunk, Delta, tokens};
use super::returned::Returned;
use crate::chat::ChatEvent;
use crate::protocol::account::Account;
use crate::protocol::decoder::{Flaw, Progress, Reader, structure};
use crate::protocol::fields::error_member;
use crate::protocol::signature::Format;
use serde_json::{Map, Value};

/// Places of the account beside `usage`: Groq, llama.cpp, Ollama.
const ACCOUNTS: [&str; 3] = ["/x_groq/usage", "/timings", ""];

/// A reader for one answer. `[DONE]` ends it, or the end of the body after a `finish_reason`.
#[derive(Debug, Default)]
pub(in crate::protocol) struct OpenaiReader {
    calls: Vec<Call>,
    /// `true` once a call was received in the newer form.
    has_list: bool,
    /// Index of the choice that has the calls.
    calls_from: Option<u64>,
    /// `true` once a part of the text was received in a fragment.
    has_delta: bool,
    returned: Returned,
}

/// A tool call of this answer.
#[derive(Debug, Default)]
struct Call {
    wire_index: Option<u64>,
    id: String,
    name: String,
    args: String,
}

impl Call {
    /// Returns `true` if a fragment with a name is another call than this one, which has the index
    /// or the id of the fragment.
    fn is_followed_by(&self, delta: &CallDelta) -> bool {
        let function = delta.function();
        if function.name.is_empty() {
            return false;
        }
        if !delta.id.is_empty() && !self.id.is_empty() && delta.id != self.id {
            return true;
        }
        // Some servers give all calls the same index, and no ids: whole arguments begin again.
        let args = function.arguments();
        if !args.trim_start().starts_with('{') {
            return false;
        }
        let Some(known) = object(&self.args) else { return false };
        let is_another_input = || !known.is_empty() && Some(&known) != object(&args).as_ref();
        function.name != self.name || delta.id.is_empty() && is_another_input()
    }
}

impl Reader for OpenaiReader {
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw> {
        let chunk: Chunk = structure(document.clone())?;
        if let Some(error) = error_member(chunk.error) {
            return Err(Flaw::Refused(error));
        }
        if chunk.choices.is_empty() && chunk.usage.is_null() && is_error(&document) {
            return Err(Flaw::Refused(document));
        }
        progress.set_id(chunk.id);
        let cost = Account(&chunk.usage).cost_micro_usd();
        let cost = cost.or_else(|| Account(&document).gateway_cost_micro_usd());
        progress.cost_micro_usd = cost.or(progress.cost_micro_usd);
        let elsewhere = || {
            let mut accounts = ACCOUNTS.iter().filter_map(|path| document.pointer(path));
            accounts.find_map(tokens)
        };
        let counted = tokens(&chunk.usage).or_else(elsewhere);
        // Some servers have a second account at the end, of nothing.
        let counted = counted.filter(|tokens| tokens.total() > 0 || progress.tokens.is_none());
        progress.tokens = counted.or(progress.tokens);
        // Several answers are not asked for, but some servers have the calls in another choice than the
        // text.
        for (position, choice) in (0..).zip(chunk.choices) {
            let index = choice.index.unwrap_or(position);
            let is_first = index == 0;
            let mut deltas = choice.delta.iter().chain(&choice.message);
            let has_calls = deltas.any(|delta| !delta.tool_calls.is_empty());
            // Calls of one choice only: others are other answers.
            let from = if has_calls { *self.calls_from.get_or_insert(index) } else { 0 };
            if is_first && !has_calls || has_calls && from == index {
                self.read_choice(choice, progress)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, progress: &mut Progress) {
        let has_calls = !self.calls.is_empty();
        let model = progress.model.clone();
        if let Some(issued) = std::mem::take(&mut self.returned).issued(&model, has_calls) {
            progress.sign(Format::Chat, &issued);
        }
    }
}

impl OpenaiReader {
    fn read_choice(&mut self, choice: Choice, progress: &mut Progress) -> Result<(), Flaw> {
        if let Some(error) = error_member(choice.error) {
            return Err(Flaw::Refused(error));
        }
        progress.tokens = tokens(&choice.usage).or(progress.tokens);
        match (choice.delta, choice.message) {
            (Some(delta), _) => {
                self.has_delta |= !delta.text().is_empty();
                self.read_delta(delta, progress);
            }
            (None, Some(mut message)) => {
                // The whole message after its fragments.
                if !self.calls.is_empty() {
                    message.tool_calls.clear();
                    message.function_call = None;
                }
                if self.has_delta {
                    message.forget_text();
                }
                self.read_delta(message, progress);
            }
            (None, None) => {}
        }
        progress.text(choice.text.as_str().unwrap_or_default());
        progress.end(choice.finish_reason.as_str().unwrap_or_default(), None)
    }

    fn read_delta(&mut self, mut delta: Delta, progress: &mut Progress) {
        progress.reasoning(&delta.reasoning());
        progress.text(&delta.text());
        self.returned.read(&delta);
        // Some servers send a call in both forms.
        self.has_list |= !delta.tool_calls.is_empty();
        let only = delta.function_call.take().filter(|_| !self.has_list).map(CallDelta::only);
        for call in delta.tool_calls.iter().chain(&only) {
            self.read_call(call, progress);
        }
    }

    fn read_call(&mut self, delta: &CallDelta, progress: &mut Progress) {
        if delta.is_empty() {
            return;
        }
        let index = self.place_of_call(delta);
        self.returned.read_call(index, &delta.rest);
        let known = &mut self.calls[index];
        let function = delta.function();
        // Emitted once, with the first fragment that has it: some servers repeat them in each
        // fragment.
        let id = Some(&delta.id).filter(|id| known.id.is_empty() && !id.is_empty()).cloned();
        known.id.extend(id.as_deref());
        // Others send a name in pieces, before the arguments.
        let is_new = !function.name.is_empty() && function.name != known.name;
        let may_go_on = known.args.is_empty() || known.name.is_empty();
        let name = match may_go_on && is_new {
            true => function.name.strip_prefix(known.name.as_str()).unwrap_or(&function.name),
            false => "",
        };
        known.name.push_str(name);
        let mut args = function.arguments();
        // The whole input after its pieces.
        if object(&args).is_some_and(|whole| Some(whole) == object(&known.args)) {
            args.clear();
        }
        known.args.push_str(&args);
        progress.events.push_back(ChatEvent::ToolCallDelta {
            index,
            id,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            args,
        });
    }

    /// Returns the position of the call that a fragment belongs to, adding a new call if needed.
    ///
    /// The index decides. Some servers send no index, or 0 for every call; then a new id, or a name
    /// without an id, starts a new call. A fragment without a name belongs to the last call, if no
    /// call has its index.
    fn place_of_call(&mut self, delta: &CallDelta) -> usize {
        let has_name = !delta.function().name.is_empty();
        let has_id = |call: &Call| !delta.id.is_empty() && call.id == delta.id;
        let mut calls = self.calls.iter();
        let found = match delta.index {
            // Some servers count fragments in place of calls.
            Some(index) => calls
                .rposition(|call| call.wire_index == Some(index))
                .or_else(|| self.calls.iter().rposition(|call| !has_name && has_id(call))),
            None if delta.id.is_empty() => calls.rposition(|_| !has_name),
            None => calls.rposition(|call| call.id == delta.id),
        };
        let last = || self.calls.len().checked_sub(1).filter(|_| !has_name && delta.id.is_empty());
        match found.or_else(last) {
            Some(at) if !self.calls[at].is_followed_by(delta) => at,
            _ => {
                self.calls.push(Call { wire_index: delta.index, ..Call::default() });
                self.calls.len() - 1
            }
        }
    }
}

/// Returns whole arguments.
fn object(args: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(args).ok()
}

/// Returns `true` if an object without choices is an error in the form of servers that send no
/// `error` member.
fn is_error(value: &Value) -> bool {
    let named = |name| value.get(name).is_some_and(Value::is_string);
    let is_named = ["message", "detail", "msg", "error_msg"].into_iter().any(named);
    let has_failed = value.pointer("/base_resp/status_code").is_some_and(|code| *code != 0);
    let list = value.get("errors").is_some_and(Value::is_array);
    value.get("choices").is_none_or(Value::is_null) && (is_named || has_failed || list)
}

#[cfg(test)]
mod tests;
