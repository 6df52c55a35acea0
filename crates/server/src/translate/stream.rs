//! Frames of runs as server-sent events.

use super::partial::{Missing, PartialMessages};
use super::records::{EventNode, MessageEnd, Records};
use super::rows::RunView;
use super::{ids, messages, state, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use weftwork_graph::run_loop::{
    MessagePart, MessageWrite, Modes, StreamEvent, StreamItem, TaskEnded, TaskStarted,
};
use weftwork_runtime::{Frame, FrameContent, RunOutput};
use weftwork_types::event::{AiEvent, NoPosition, Position, RunEvent};
use weftwork_types::run::RunInput;
use weftwork_types::usage::{UsageFact, UsageStatus};

/// An event: its name and its data.
pub(crate) type NamedEvent = (String, Value);

/// The stream modes of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requested {
    pub(crate) modes: Modes,
    /// Messages as `messages/metadata` and `messages/partial`.
    pub(crate) accumulated: bool,
    /// Messages as pairs of chunk and metadata.
    pub(crate) tuples: bool,
    /// Records of LangChain's callbacks.
    pub(crate) events: bool,
}

/// A stream that a client follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) requested: Requested,
    /// Frames of subgraphs are part of it.
    pub(crate) subgraphs: bool,
    /// The client has nothing of it.
    pub(crate) from_start: bool,
}

impl Requested {
    /// Adds the mode of a name; `false` if there is none.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        let mode = match name {
            "messages" => {
                self.accumulated = true;
                Modes::MESSAGES
            }
            "messages-tuple" => {
                self.tuples = true;
                Modes::MESSAGES
            }
            "events" => {
                self.events = true;
                Modes::NONE
            }
            name => match Modes::parse(name) {
                Some(mode) => mode,
                None => return false,
            },
        };
        self.modes = self.modes | mode;
        true
    }

    /// Returns the modes of the frames that are read for these, of which some are not sent.
    pub(crate) fn read(self) -> Modes {
        if self.events { self.modes | Records::MODES } else { self.modes }
    }

    /// Returns `true` if the run is read from its beginning: of a message that is not final, it must
    /// be known which text the client has, and of an end, its beginning.
    pub(crate) fn needs_beginning(self) -> bool {
        self.accumulated || self.tuples || self.events
    }

    /// Returns the names of the modes, separated by commas. [`Self::add`] takes each.
    pub(crate) fn names(self) -> String {
        let has = |mode: Modes| mode != Modes::MESSAGES && self.modes.any_of(mode);
        let named = Modes::NAMED.into_iter().filter(|named| has(named.1));
        let of_messages = [(self.accumulated, "messages"), (self.tuples, "messages-tuple")];
        let others = of_messages.into_iter().chain([(self.events, "events")]);
        let others = others.filter_map(|requested| requested.0.then_some(requested.1));
        named.map(|named| named.0).chain(others).collect::<Vec<_>>().join(",")
    }
}

/// Translates the output of one run. It holds the texts of messages that are not final.
#[derive(Debug)]
pub(crate) struct Translator {
    run: RunView,
    requested: Requested,
    /// Frames of subgraphs are sent.
    subgraphs: bool,
    received: Received,
    from_start: bool,
    /// Usage of the model calls that produced messages, by their ids.
    usage: BTreeMap<String, UsageFact>,
    /// `None` unless the mode `events` is requested.
    records: Option<Records>,
}

/// The events that a client has received: all up to a position, and the text of messages that were
/// not final then. It is the id of the last event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    /// Position of the last frame.
    pub(crate) position: Position,
    /// Clients append chunks and cannot take them back. A message of which the client has other
    /// text is sent when it is final, as a whole that replaces them.
    messages: PartialMessages,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.position, self.messages)
    }
}

impl FromStr for Received {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let messages = text.match_indices('-').nth(1).map_or(text.len(), |found| found.0);
        let (position, messages) = text.split_at(messages);
        let unknown = || NoPosition { found: text.to_owned() };
        let messages = PartialMessages::read(messages).ok_or_else(unknown)?;
        Ok(Self { position: position.parse().map_err(|_| unknown())?, messages })
    }
}

impl Translator {
    /// Creates a translator for a run with this input.
    pub(crate) fn new(run: RunView, stream: Stream, received: Received, input: &RunInput) -> Self {
        let Stream { requested, subgraphs, from_start } = stream;
        let records = requested.events.then(|| Records::new(input));
        let usage = BTreeMap::new();
        Self { run, requested, subgraphs, received, from_start, usage, records }
    }

    /// Returns the event that precedes the frames; `None` if the client received it.
    pub(crate) fn metadata(&self) -> Option<NamedEvent> {
        self.from_start
            .then(|| ("metadata".to_owned(), json!({"run_id": self.run.at.run, "attempt": 1})))
    }

    /// Returns the events of the next output of the run; none if the client received them.
    pub(crate) fn events(&mut self, output: RunOutput) -> Vec<NamedEvent> {
        match output {
            RunOutput::Event(event) => self.of_log(&event),
            RunOutput::Frame(frame) => self.of_frame(Arc::unwrap_or_clone(frame)),
            // Texts are read as the log has them.
            RunOutput::Text(_) | RunOutput::Reset(_) => Vec::new(),
        }
    }

    /// Returns the id of the last events.
    pub(crate) fn id(&self) -> String {
        self.received.to_string()
    }

    /// Moves on to a position; `false` if the client received it.
    fn reach_position(&mut self, position: Position) -> bool {
        let is_new = position > self.received.position;
        if is_new {
            self.received.position = position;
        }
        is_new
    }

    /// Reads an event of the log, which precedes its frames.
    fn of_log(&mut self, event: &RunEvent) -> Vec<NamedEvent> {
        if let AiEvent::UsageReport { fact, message: Some(message), .. } = &event.event
            && fact.status == UsageStatus::Ok
        {
            self.usage.insert(message.to_string(), fact.clone());
        }
        let Some(records) = &mut self.records else { return Vec::new() };
        let Some(at) = event.position() else { return Vec::new() };
        let found = records.of_log(&self.run, &event.event);
        let is_new = !found.is_empty() && self.reach_position(at);
        if is_new { of_records(found) } else { Vec::new() }
    }

    fn of_frame(&mut self, frame: Frame) -> Vec<NamedEvent> {
        let is_new = self.reach_position(frame.position);
        let StreamItem { ns, event } = match frame.content {
            FrameContent::Item(item) => item,
            FrameContent::Dropped { ns, reason } => {
                let is_shown = is_new && (ns.is_empty() || self.subgraphs);
                let ns = ids::join_namespace(ns.split('|'));
                let event = ("dropped".to_owned(), json!({"ns": ns, "reason": reason}));
                return is_shown.then_some(event).into_iter().collect();
            }
        };
        let ns = ids::join_namespace(ns.iter().map(String::as_str));
        let is_shown = ns.is_empty() || self.subgraphs;
        if let StreamEvent::Message { part, node, step } = event {
            if !is_new {
                self.skip_part(part);
                return Vec::new();
            }
            let place = EventNode { ns: &ns, node: &node, step: Some(step) };
            return self.message_events(part, &place, is_shown);
        }
        let records = self.records.as_mut().map(|records| records.of_frame(&self.run, &ns, &event));
        if !is_new {
            return Vec::new();
        }
        let mut events = Vec::new();
        if is_shown && self.requested.modes.any_of(mode_of(&event)) {
            let (name, data) = event_of(&self.run, event, &time::format_time(frame.at));
            events.push((with_namespace(name, &ns), data));
        }
        events.extend(of_records(records.unwrap_or_default()));
        events
    }

    /// Reads a part of a message that the client received.
    fn skip_part(&mut self, part: MessagePart) {
        let messages = &mut self.received.messages;
        match part {
            MessagePart::Chunk { id, text } => {
                messages.add_received(id.as_str(), &text);
                if let Some(records) = &mut self.records {
                    records.note_open(id.as_str());
                }
            }
            MessagePart::Reset { id } => messages.reset(id.as_str()),
            MessagePart::Returned(MessageWrite::Put(message)) => {
                messages.end(message.id.as_str(), "");
                if let Some(records) = &mut self.records {
                    records.note_end(message.id.as_str());
                }
            }
            MessagePart::Returned(MessageWrite::Remove { .. }) => {}
        }
    }

    fn message_events(
        &mut self,
        part: MessagePart,
        place: &EventNode<'_>,
        is_shown: bool,
    ) -> Vec<NamedEvent> {
        let run = &self.run;
        let known = &mut self.received.messages;
        let mut records = Vec::new();
        let (id, is_first, whole, chunk) = match part {
            MessagePart::Chunk { id, text } => {
                let is_first = known.text(id.as_str()).is_empty();
                let missing = known.add(id.as_str(), &text).filter(|missing| !missing.is_empty());
                let chunk = missing.map(|missing| messages::chunk(&id, missing));
                if let Some(open) = &mut self.records
                    && let Some(chunk) = &chunk
                {
                    records = open.chunk(run, place, id.as_str(), chunk.clone());
                }
                let mut whole = messages::chunk(&id, known.text(id.as_str()));
                whole["type"] = json!("ai");
                if let Some(members) = whole.as_object_mut() {
                    members.remove("tool_call_chunks");
                    members.remove("chunk_position");
                }
                (id, is_first, whole, chunk)
            }
            MessagePart::Reset { id } => {
                known.reset(id.as_str());
                return Vec::new();
            }
            MessagePart::Returned(MessageWrite::Put(message)) => {
                let usage = self.usage.remove(message.id.as_str());
                let tokens = usage.as_ref().map(|usage| &usage.tokens);
                let mut shown = messages::shown(&message);
                if let Some(tokens) = tokens {
                    shown["usage_metadata"] = messages::usage_metadata(tokens);
                }
                let is_first = known.text(message.id.as_str()).is_empty();
                let text = message.joined_text();
                let missing = known.end(message.id.as_str(), &text);
                if let Some(open) = &mut self.records {
                    let end =
                        MessageEnd { message: &message, shown: &shown, usage: usage.as_ref() };
                    records = open.end(run, place, &end, &missing);
                }
                let chunk = match missing {
                    Missing::Rest { received } => messages::rest(&message, received, tokens),
                    Missing::Whole | Missing::Other => shown.clone(),
                };
                (message.id, is_first, shown, Some(chunk))
            }
            MessagePart::Returned(MessageWrite::Remove { remove }) => {
                let shown = json!({"type": "remove", "id": remove, "content": ""});
                (remove, true, shown.clone(), Some(shown))
            }
        };
        let mut events = Vec::new();
        let metadata = || Value::Object(place.metadata_of_message(run));
        if is_shown && self.requested.accumulated {
            if is_first {
                let data = json!({id.to_string(): {"metadata": metadata()}});
                events.push((with_namespace("messages/metadata", place.ns), data));
            }
            events.push((with_namespace("messages/partial", place.ns), json!([whole])));
        }
        if let Some(chunk) = chunk
            && is_shown
            && self.requested.tuples
        {
            events.push((with_namespace("messages", place.ns), json!([chunk, metadata()])));
        }
        events.extend(of_records(records));
        events
    }
}

/// Returns the name of an event of a graph with a namespace.
fn with_namespace(name: &str, ns: &str) -> String {
    if ns.is_empty() { name.to_owned() } else { format!("{name}|{ns}") }
}

fn of_records(records: Vec<Value>) -> Vec<NamedEvent> {
    records.into_iter().map(|record| ("events".to_owned(), record)).collect()
}

/// Returns the mode whose frames have an event.
fn mode_of(event: &StreamEvent) -> Modes {
    match event {
        StreamEvent::Values { .. } => Modes::VALUES,
        StreamEvent::Updates { .. } | StreamEvent::Interrupts(_) => Modes::UPDATES,
        StreamEvent::TaskStarted(_) | StreamEvent::TaskEnded(_) => Modes::TASKS,
        StreamEvent::Checkpoint(_) => Modes::CHECKPOINTS,
        StreamEvent::Custom(_) => Modes::CUSTOM,
        StreamEvent::Data { mode, .. } => *mode,
        StreamEvent::Message { .. } => Modes::MESSAGES,
        StreamEvent::Debug { .. } => Modes::DEBUG,
    }
}

fn event_of(run: &RunView, event: StreamEvent, at: &str) -> (&'static str, Value) {
    match event {
        StreamEvent::Values { values, interrupts } => {
            let mut values = messages::into_shown(values);
            if let Some(questions) = interrupts
                && let Some(members) = values.as_object_mut()
            {
                let questions = questions.iter().map(state::question_to_json).collect();
                members.insert("__interrupt__".to_owned(), questions);
            }
            ("values", values)
        }
        StreamEvent::Updates { node, updates, returned, .. } => {
            let mut updates: Vec<_> = updates.into_iter().map(state::writes_to_json).collect();
            let update = match (returned, updates.len()) {
                (Some(value), _) => messages::into_shown(value),
                (None, 0) => Value::Null,
                (None, 1) => updates.swap_remove(0),
                (None, _) => updates.into(),
            };
            ("updates", json!({node: update}))
        }
        StreamEvent::Interrupts(questions) => {
            let questions: Vec<_> = questions.iter().map(state::question_to_json).collect();
            ("updates", json!({"__interrupt__": questions}))
        }
        StreamEvent::TaskStarted(task) => ("tasks", started_task_to_json(run, task)),
        StreamEvent::TaskEnded(task) => ("tasks", ended_task_to_json(task)),
        StreamEvent::Checkpoint(snapshot) => {
            ("checkpoints", state::event_to_json(&run.configurable(), *snapshot))
        }
        StreamEvent::Custom(value) => ("custom", messages::into_shown(value)),
        StreamEvent::Data { mode, data } => (mode.name().unwrap_or("custom"), data),
        StreamEvent::Debug { step, event } => {
            let kind = match &*event {
                StreamEvent::TaskStarted(_) => "task",
                StreamEvent::TaskEnded(_) => "task_result",
                _ => "checkpoint",
            };
            let places = match &*event {
                StreamEvent::Checkpoint(at) => {
                    Some(state::checkpoint_and_parent(&run.at.thread, at))
                }
                _ => None,
            };
            let mut payload = event_of(run, *event, at).1;
            if let Some((at, before)) = places {
                payload["checkpoint"] = at;
                payload["parent_checkpoint"] = before;
            }
            ("debug", json!({"step": step, "timestamp": at, "type": kind, "payload": payload}))
        }
        // Messages are translated with their texts.
        StreamEvent::Message { .. } => ("messages", Value::Null),
    }
}

fn started_task_to_json(run: &RunView, task: TaskStarted) -> Value {
    let mut metadata = run.with_server();
    metadata.insert("run_id".to_owned(), json!(run.at.run));
    json!({
        "id": ids::to_hyphenated(task.id.0),
        "name": task.name,
        "input": messages::into_shown(task.input),
        "triggers": task.triggers,
        "metadata": metadata,
    })
}

fn ended_task_to_json(task: TaskEnded) -> Value {
    json!({
        "id": ids::to_hyphenated(task.id.0),
        "name": task.name,
        "error": task.error.as_ref().map(state::error_text),
        "result": state::writes_to_json(task.result),
        "interrupts": task.interrupts.iter().map(state::interrupt_to_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
