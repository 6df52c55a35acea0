//! Tool calls of a message: one start and one result each, and arguments before the result.
//!
//! Models choose the ids of calls, and members of a team may choose equal ones at a time. A call is
//! that of the message that requests it, and of the task that makes it. Ids in frames of calls of
//! subgraphs have a mark of the subgraph: the members of a team speak in another order when their
//! messages are read again, and an answer to a call has to reach the same call then.

use super::cut::cut_value;
use super::part::ChatPart;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weftwork_types::canonical::first_128;
use weftwork_types::event::{TextSource, ToolCallPart};
use weftwork_types::tool::ToolFailure;
use weftwork_types::tool::code::OUTCOME_UNKNOWN;
use weftwork_types::{TaskId, Timestamp};

/// The calls of a message.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// In the order in which they began.
    known: Vec<Call>,
    /// Ids in frames. A call may have the id of a call that is void or has ended.
    used: BTreeSet<String>,
    /// Ids in frames of calls of earlier responses that the message has in the client.
    held: BTreeSet<String>,
}

/// The source of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) maker: Maker<'a>,
    /// Namespace of the graph, empty for the outermost one; `None` if it is not known.
    pub(super) ns: Option<&'a str>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Maker<'a> {
    /// The model that produces this message requests it.
    Model(&'a TextSource),
    /// It is made, or a person is asked about it, by this task; `None` if the event does not say.
    Run(Option<TaskId>),
}

/// A call as an event names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) args: &'a Value,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct CallEnd {
    /// Cut to the size that is shown.
    pub(super) value: Value,
    pub(super) is_error: bool,
    /// Time of the result, if it is known.
    pub(super) at: Option<Timestamp>,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// Id in frames.
    shown: String,
    name: String,
    /// JSON text of the arguments that pieces had.
    streamed: String,
    /// The arguments, once they are complete.
    args: Option<Value>,
    has_result: bool,
    /// `true` if the call began in an earlier response.
    is_earlier: bool,
    /// Message that requests the call; `None` for a call that a run makes by itself.
    by: Option<TextSource>,
    /// `true` once the message of the call is final, or the call is made.
    is_accepted: bool,
    /// Task that makes the call; `None` before it begins.
    task: Option<TaskId>,
    /// `true` once its tool may have been called.
    is_begun: bool,
    /// Namespace of the graph of the call, if it is known.
    ns: Option<String>,
    /// Time at which its tool was called last; `None` if a person gave the result.
    begun: Option<Timestamp>,
}

impl<'a> Origin<'a> {
    /// The model of a message.
    pub(super) fn model(by: &'a TextSource, ns: Option<&'a str>) -> Self {
        Self { maker: Maker::Model(by), ns }
    }

    /// A task.
    pub(super) fn task(task: TaskId, ns: Option<&'a str>) -> Self {
        Self { maker: Maker::Run(Some(task)), ns }
    }
}

impl Calls {
    pub(super) fn hold(&mut self, held: BTreeSet<String>) {
        self.held = held;
    }

    /// Returns the id in frames of a call that waits for the answer to a question of a task.
    pub(super) fn asked(&mut self, asked: Named<'_>, at: Origin<'_>) -> Option<String> {
        let Maker::Run(Some(task)) = at.maker else { return None };
        let index = self.find_made(asked, Some(task), at.ns)?;
        let call = &mut self.known[index];
        call.task = Some(task);
        Some(call.shown.clone())
    }

    /// Returns `true` if the message has the call with this id in frames in the client.
    pub(super) fn is_with_client(&self, shown: &str) -> bool {
        let call = self.known.iter().find(|call| call.shown == shown);
        call.is_some_and(|call| call.is_with_client(&self.held))
    }

    /// Returns the id in frames of the last call with an id in a graph.
    pub(super) fn shown_in(&self, id: &str, ns: &str) -> Option<&str> {
        let index = self.find_last(id, |call| call.is_in(Some(ns)))?;
        Some(&self.known[index].shown)
    }

    /// Returns `true` for a call that was opened and has no result.
    pub(super) fn awaits_result(&self, id: &str, task: Option<TaskId>) -> bool {
        self.find_ended(id, task).is_some()
    }

    /// Adds a piece of the arguments of a call.
    pub(super) fn delta(
        &mut self,
        called: &ToolCallPart,
        delta: &str,
        by: Origin<'_>,
        to: &mut Vec<ChatPart>,
    ) {
        let id = called.tool_call_id.as_str();
        let name = called.tool_name.as_str();
        let call = self.open_call(Named { id, name, args: &Value::Null }, by, to);
        if call.args.is_some() || delta.is_empty() {
            return;
        }
        call.streamed.push_str(delta);
        let pieces = super::cut::split_text(delta);
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
        origin: Origin<'_>,
        named: Named<'_>,
        reference: &str,
        to: &mut Vec<ChatPart>,
    ) {
        let call = self.open_call(named, origin, to);
        call.is_accepted = true;
        if call.args.is_some() {
            return;
        }
        call.args = Some(named.args.clone());
        let args = cut_value(named.args.clone(), reference);
        let rest = rest_of_args(&args, &std::mem::take(&mut call.streamed));
        to.push(ChatPart::CallReady {
            id: call.shown.clone(),
            name: call.name.clone(),
            args,
            rest,
        });
    }

    /// Adds the result of a call. Further results have no effect.
    pub(super) fn result(
        &mut self,
        id: &str,
        task: Option<TaskId>,
        end: CallEnd,
        to: &mut Vec<ChatPart>,
    ) {
        let Some(index) = self.find_ended(id, task) else { return };
        let call = &mut self.known[index];
        call.has_result = true;
        call.close(to);
        let CallEnd { value: result, is_error, at } = end;
        let id = call.shown.clone();
        let mut took = at.zip(call.begun).map(|(end, begun)| end.since(begun).as_millis());
        if is_error && result["code"] == OUTCOME_UNKNOWN.0 {
            to.push(call.unknown_outcome());
            took = None;
        }
        if !call.is_with_client(&self.held) {
            // Readers refuse a result of a call that this response does not have.
            let data = json!({
                "toolCallId": id, "toolName": call.name, "result": result, "isError": is_error,
            });
            to.push(ChatPart::Data { name: "tool-result", data, lasting: true });
        } else {
            to.push(ChatPart::CallResult { id: id.clone(), result, is_error });
        }
        // A client that joins late did not see the beginning.
        if let Some(took) = took {
            let data = json!({"toolCallId": id, "durationMs": took});
            to.push(ChatPart::Data { name: "tool-duration", data, lasting: true });
        }
    }

    /// Marks a call of an earlier response as answered by its client, which has the result.
    pub(super) fn answered(&mut self, id: &str, task: TaskId) {
        let Some(index) = self.find_ended(id, Some(task)) else { return };
        let call = &mut self.known[index];
        call.has_result |= !call.is_with_client(&self.held);
    }

    /// Ends the calls of a message that is void.
    pub(super) fn reset(&mut self, by: &TextSource, to: &mut Vec<ChatPart>) -> Vec<String> {
        let mut ids = Vec::new();
        let is_void =
            |call: &Call| call.by.as_ref() == Some(by) && !call.is_accepted && !call.is_earlier;
        self.known.retain_mut(|call| {
            let void = is_void(call);
            if void {
                call.fail(not_made("the attempt that requested the call failed"), to);
                ids.push(call.shown.clone());
            }
            !void
        });
        ids
    }

    /// Ends all calls without a result: the run ended, and makes them no more.
    pub(super) fn end(&mut self, to: &mut Vec<ChatPart>) {
        for call in self.known.iter_mut().filter(|call| !call.has_result) {
            let failure = match call.is_begun {
                true => json!(ToolFailure::outcome_unknown(&call.name)),
                false => not_made("the run ended before the call was made"),
            };
            if call.is_with_client(&self.held) {
                call.fail(failure, to);
            } else {
                call.has_result = true;
            }
            if call.is_begun {
                to.push(call.unknown_outcome());
            }
        }
    }

    /// Notes that the tool of a call may have been called, if it is `charged`. A call that is not has
    /// the result of a person, or of a policy.
    pub(super) fn begin(
        &mut self,
        id: &str,
        task: Option<TaskId>,
        at: Option<Timestamp>,
        charged: bool,
    ) {
        let Some(index) = self.find_ended(id, task) else { return };
        let call = &mut self.known[index];
        call.is_begun |= charged;
        call.begun = at.filter(|_| charged);
    }

    /// Completes the arguments of all calls: the run pauses, and the response ends.
    pub(super) fn pause(&mut self, to: &mut Vec<ChatPart>) {
        self.known.iter_mut().for_each(|call| call.close(to));
    }

    /// Returns `true` if this response began calls whose arguments are not complete.
    pub(super) fn await_arguments(&self) -> bool {
        self.known.iter().any(|call| call.args.is_none() && !call.is_earlier)
    }

    /// Returns `true` if calls have no result.
    pub(super) fn are_open(&self) -> bool {
        self.known.iter().any(|call| !call.has_result)
    }

    /// A further response begins: calls up to now are earlier ones.
    pub(super) fn begin_response(&mut self) {
        self.known.iter_mut().for_each(|call| call.is_earlier = true);
    }

    fn open_call(
        &mut self,
        named: Named<'_>,
        origin: Origin<'_>,
        to: &mut Vec<ChatPart>,
    ) -> &mut Call {
        let Origin { maker, ns } = origin;
        let found = match maker {
            Maker::Model(by) => self.find_requested(named, by, ns),
            Maker::Run(task) => self.find_made(named, task, ns),
        };
        let index = found.unwrap_or_else(|| {
            let shown = self.unused_id(named.id, ns);
            to.push(ChatPart::CallStart { id: shown.clone(), name: named.name.to_owned() });
            self.known.push(Call::new(named, shown));
            self.known.len() - 1
        });
        let call = &mut self.known[index];
        match maker {
            Maker::Model(by) => call.by = Some(by.clone()),
            Maker::Run(task) => call.task = task.or(call.task),
        }
        if call.ns.is_none() {
            call.ns = ns.map(str::to_owned);
        }
        call
    }

    /// Returns an id in frames that no call has: the call's own, with the mark of its subgraph.
    fn unused_id(&mut self, id: &str, ns: Option<&str>) -> String {
        let first = match ns {
            None | Some("") => id.to_owned(),
            Some(ns) => format!("{id}.{:08x}", first_128(ns) >> 96),
        };
        let mut shown = first.clone();
        let mut number = 1;
        while !self.used.insert(shown.clone()) {
            number += 1;
            shown = format!("{first}.{number}");
        }
        shown
    }

    /// The call that a message requests. Some models count their calls from 1 in each answer.
    fn find_requested(&self, named: Named<'_>, by: &TextSource, ns: Option<&str>) -> Option<usize> {
        self.find_last(named.id, |call| match &call.by {
            Some(known) => known == by,
            // The message of a call that a member made may become known after the call.
            None => call.is_in(ns) && (!call.has_result || call.is_same(named)),
        })
    }

    /// Returns the call that a task makes or asks about: the call of the task, otherwise a requested call
    /// that no task makes yet, of the same graph first.
    fn find_made(&self, named: Named<'_>, task: Option<TaskId>, ns: Option<&str>) -> Option<usize> {
        let id = named.id;
        if task.is_none() {
            return self
                .find_last(id, |call| !call.has_result)
                .or_else(|| self.find_last(id, |_| true));
        }
        let waits = |call: &Call| call.task.is_none() && !call.has_result;
        let own = self.find_last(id, |call| call.task == task && !call.has_result);
        let own = own.or_else(|| {
            self.find_last(id, |call| waits(call) && call.is_in(ns) && call.is_same(named))
        });
        let is_first = |call: &Call| call.id == id && waits(call) && call.is_in(ns);
        let own = own.or_else(|| self.known.iter().position(is_first));
        let own = own.or_else(|| self.find_last(id, |call| waits(call) && call.is_same(named)));
        let own = own.or_else(|| self.find_last(id, |call| call.task == task));
        // A branch of the thread makes the calls of a message in tasks of its own.
        own.or_else(|| {
            self.find_last(id, |call| call.by.is_some() && !call.has_result && call.is_in(ns))
        })
    }

    /// The open call that ends with a result of a task. A message of results does not say which task it
    /// is of: it ends calls that no task made.
    fn find_ended(&self, id: &str, task: Option<TaskId>) -> Option<usize> {
        match task {
            Some(_) => {
                let own = self.find_last(id, |call| call.task == task && !call.has_result);
                own.or_else(|| self.find_last(id, |call| call.task.is_none() && !call.has_result))
            }
            None if self.find_last(id, |call| call.task.is_some()).is_some() => None,
            None => self.find_last(id, |call| !call.has_result),
        }
    }

    fn find_last(&self, id: &str, is_meant: impl Fn(&Call) -> bool) -> Option<usize> {
        self.known.iter().rposition(|call| call.id == id && is_meant(call))
    }
}

impl Call {
    fn new(named: Named<'_>, shown: String) -> Self {
        Self {
            id: named.id.to_owned(),
            shown,
            name: named.name.to_owned(),
            streamed: String::new(),
            args: None,
            has_result: false,
            is_earlier: false,
            by: None,
            is_accepted: false,
            task: None,
            is_begun: false,
            ns: None,
            begun: None,
        }
    }

    /// Returns `true` if the call may be of a graph.
    fn is_in(&self, ns: Option<&str>) -> bool {
        ns.is_none() || self.ns.is_none() || self.ns.as_deref() == ns
    }

    fn is_same(&self, named: Named<'_>) -> bool {
        self.name == named.name && self.args.as_ref() == Some(named.args)
    }

    /// Returns `true` if a reader accepts a result of the call: this response began it, or the client
    /// has it from an earlier one.
    fn is_with_client(&self, held: &BTreeSet<String>) -> bool {
        !self.is_earlier || held.contains(&self.shown)
    }

    /// Completes arguments of which nothing more follows.
    fn close(&mut self, to: &mut Vec<ChatPart>) {
        if self.args.is_some() {
            return;
        }
        let streamed = std::mem::take(&mut self.streamed);
        let args: Value = serde_json::from_str(&streamed).unwrap_or_else(|_| json!({}));
        self.args = Some(args.clone());
        let rest = if streamed.is_empty() { "{}".to_owned() } else { String::new() };
        to.push(ChatPart::CallReady {
            id: self.shown.clone(),
            name: self.name.clone(),
            args,
            rest,
        });
    }

    fn fail(&mut self, result: Value, to: &mut Vec<ChatPart>) {
        self.close(to);
        self.has_result = true;
        to.push(ChatPart::CallResult { id: self.shown.clone(), result, is_error: true });
    }

    /// Returns the fact that nobody knows if the call took effect.
    fn unknown_outcome(&self) -> ChatPart {
        let data = json!({"toolCallId": self.shown, "toolName": self.name});
        ChatPart::Data { name: "unknown-outcome", data, lasting: true }
    }
}

/// Returns the error object of a call that was not made.
fn not_made(reason: &str) -> Value {
    json!({"error_code": "unavailable", "safe_message": reason})
}

/// Returns the part of the JSON text of arguments that pieces did not have; nothing if the pieces
/// are another text of them.
fn rest_of_args(args: &Value, streamed: &str) -> String {
    let whole = args.to_string();
    match whole.strip_prefix(streamed) {
        Some(rest) => rest.to_owned(),
        None => String::new(),
    }
}
