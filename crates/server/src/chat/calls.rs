//! Tool calls of a message: one start and one result each, and arguments before the result.

use super::cut::cut;
use super::part::ChatPart;
use super::speech::Speaker;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The calls of a message by the ids that runs have for them.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: BTreeMap<String, Call>,
    /// Ids in frames. A call may have the id of one that is void or has ended.
    used: BTreeSet<String>,
    /// Ids in frames of calls of earlier responses that the message has in the client.
    held: BTreeSet<String>,
}

/// The source of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A model requests it.
    Model,
    /// It is made, or a person is asked about it.
    Run,
}

#[derive(Debug)]
struct Call {
    /// Id in frames.
    shown: String,
    name: String,
    /// JSON text of the arguments that pieces had.
    streamed: String,
    is_ready: bool,
    has_result: bool,
    /// `true` if the call began in an earlier response.
    is_earlier: bool,
    /// Message that a model is producing, with the call; `None` once the call is accepted.
    by: Option<Speaker>,
}

impl Calls {
    pub(super) fn hold(&mut self, held: BTreeSet<String>) {
        self.held = held;
    }

    /// Returns the id of a call in frames, if the message has the call in the client.
    pub(super) fn shown_to_client(&self, id: &str) -> Option<&str> {
        let known = self.known.get(id).filter(|call| call.is_with_client(&self.held));
        known.map(|call| call.shown.as_str())
    }

    /// Returns `true` for a call that was opened and has no result.
    pub(super) fn awaits_result(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|call| !call.has_result)
    }

    /// Adds a piece of the arguments of a call.
    pub(super) fn delta(
        &mut self,
        (id, name): (&str, &str),
        delta: &str,
        by: &Speaker,
        to: &mut Vec<ChatPart>,
    ) {
        let call = self.open((id, name), (Origin::Model, Some(by)), to);
        if call.is_ready || delta.is_empty() {
            return;
        }
        call.streamed.push_str(delta);
        let pieces = super::cut::pieces(delta);
        to.extend(
            pieces.map(|piece| ChatPart::CallDelta {
                id: call.shown.clone(),
                delta: piece.to_owned(),
            }),
        );
    }

    /// Completes the arguments of a call, which is opened if it is not known.
    pub(super) fn ready(
        &mut self,
        origin: Origin,
        (id, name, args): (&str, &str, &Value),
        (reference, to): (&str, &mut Vec<ChatPart>),
    ) {
        let call = self.open((id, name), (origin, None), to);
        call.by = None;
        if std::mem::replace(&mut call.is_ready, true) {
            return;
        }
        let args = cut(args.clone(), reference);
        let rest = rest(&args, &call.streamed);
        call.streamed = String::new();
        let (id, name) = (call.shown.clone(), call.name.clone());
        to.push(ChatPart::CallReady { id, name, args, rest });
    }

    /// Adds the result of a call. Further results have no effect.
    pub(super) fn result(
        &mut self,
        id: &str,
        (result, is_error): (Value, bool),
        (reference, to): (&str, &mut Vec<ChatPart>),
    ) {
        let Some(call) = self.known.get_mut(id) else { return };
        if std::mem::replace(&mut call.has_result, true) {
            return;
        }
        call.close(to);
        let result = cut(result, reference);
        let id = call.shown.clone();
        if !call.is_with_client(&self.held) {
            // Readers refuse a result of a call that this response does not have.
            let data = json!({
                "toolCallId": id, "toolName": call.name, "result": result, "isError": is_error,
            });
            to.push(ChatPart::Data { name: "tool-result", data, lasting: true });
        } else {
            to.push(ChatPart::CallResult { id, result, is_error });
        }
    }

    /// Marks a call of an earlier response as answered by its client, which has the result.
    pub(super) fn answered(&mut self, id: &str) {
        let known = self.known.get_mut(id);
        if let Some(call) = known.filter(|call| !call.is_with_client(&self.held)) {
            call.has_result = true;
        }
    }

    /// Ends the calls of a message that is void.
    pub(super) fn reset(&mut self, by: &Speaker, to: &mut Vec<ChatPart>) {
        let void: Vec<_> = self
            .known
            .iter()
            .filter(|(_, call)| call.by.as_ref() == Some(by) && !call.is_earlier)
            .map(|(id, _)| id.clone())
            .collect();
        for id in void {
            if let Some(mut call) = self.known.remove(&id) {
                call.fail("the attempt that requested the call failed", to);
            }
        }
    }

    /// Ends all calls without a result: the run ended, and makes them no more.
    pub(super) fn end(&mut self, to: &mut Vec<ChatPart>) {
        for call in self.known.values_mut().filter(|call| !call.has_result) {
            if call.is_with_client(&self.held) {
                call.fail("the run ended before the call was made", to);
            } else {
                call.has_result = true;
            }
        }
    }

    /// Completes the arguments of all calls: the run pauses, and the response ends.
    pub(super) fn pause(&mut self, to: &mut Vec<ChatPart>) {
        self.known.values_mut().for_each(|call| call.close(to));
    }

    /// Returns `true` if calls have no result.
    pub(super) fn are_open(&self) -> bool {
        self.known.values().any(|call| !call.has_result)
    }

    /// A further response begins: calls up to now are earlier ones.
    pub(super) fn begin_response(&mut self) {
        self.known.values_mut().for_each(|call| call.is_earlier = true);
    }

    fn open(
        &mut self,
        (id, name): (&str, &str),
        (origin, by): (Origin, Option<&Speaker>),
        to: &mut Vec<ChatPart>,
    ) -> &mut Call {
        // Some models count their calls from 1 in each answer.
        let is_over = self.known.get(id).is_some_and(|call| call.has_result);
        if origin == Origin::Model && is_over {
            self.known.remove(id);
        }
        let used = &mut self.used;
        self.known.entry(id.to_owned()).or_insert_with(|| {
            let mut shown = id.to_owned();
            let mut number = 1;
            while !used.insert(shown.clone()) {
                number += 1;
                shown = format!("{id}.{number}");
            }
            to.push(ChatPart::CallStart { id: shown.clone(), name: name.to_owned() });
            Call {
                shown,
                name: name.to_owned(),
                streamed: String::new(),
                is_ready: false,
                has_result: false,
                is_earlier: false,
                by: by.cloned(),
            }
        })
    }
}

impl Call {
    /// Returns `true` if a reader accepts a result of the call: this response began it, or the client
    /// has it from an earlier one.
    fn is_with_client(&self, held: &BTreeSet<String>) -> bool {
        !self.is_earlier || held.contains(&self.shown)
    }

    /// Completes arguments of which nothing more follows.
    fn close(&mut self, to: &mut Vec<ChatPart>) {
        if std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        let streamed = std::mem::take(&mut self.streamed);
        let args = serde_json::from_str(&streamed).unwrap_or_else(|_| json!({}));
        let rest = if streamed.is_empty() { "{}".to_owned() } else { String::new() };
        let (id, name) = (self.shown.clone(), self.name.clone());
        to.push(ChatPart::CallReady { id, name, args, rest });
    }

    fn fail(&mut self, reason: &str, to: &mut Vec<ChatPart>) {
        self.close(to);
        self.has_result = true;
        let result = json!({"error_code": "unavailable", "safe_message": reason});
        to.push(ChatPart::CallResult { id: self.shown.clone(), result, is_error: true });
    }
}

/// Returns the part of the JSON text of arguments that pieces did not have; nothing if the pieces
/// are another text of them.
fn rest(args: &Value, streamed: &str) -> String {
    let whole = args.to_string();
    match whole.strip_prefix(streamed) {
        Some(rest) => rest.to_owned(),
        None => String::new(),
    }
}
