//! Events of one run, from its log and its frames. No I/O.

use super::blocks;
use super::event::{Channel, Event, NumberedEvent};
use super::message::{MessageEvent, Messages};
use super::number::EventPlace;
use super::tree::{Change, Status, Tree};
use crate::translate::partial::PartialMessages;
use crate::translate::{ids, state};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weftwork_graph::run_loop::{
    MessagePart, MessageWrite, Modes, StreamEvent, StreamItem, TaskEnded, TaskStarted, Written,
};
use weftwork_runtime::{Frame, FrameContent, RunOutput};
use weftwork_types::event::{AiEvent, CheckpointSource, CheckpointStored, Position, RunEvent};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::{InterruptId, RunId, Timestamp};

/// Turns the output of a run into events.
#[derive(Debug)]
pub(crate) struct Encoder {
    run: RunId,
    /// Index of the run in its thread.
    index: u64,
    tree: Tree,
    /// `None` if messages are not selected.
    messages: Option<Messages>,
    /// Values when the run stopped at a question. They follow the event that says so.
    held: Option<Value>,
    /// Namespaces of questions.
    asked: BTreeMap<InterruptId, String>,
    /// Reason of a run that failed.
    failure: Option<String>,
    /// Place of the last event, and number of the last event that has one.
    last: Option<EventPlace>,
    number: u64,
    /// Text that the client has of unfinished messages after the last event.
    received: String,
}

/// An event without its place.
struct Content {
    channel: Channel,
    ns: String,
    node: Option<String>,
    /// Name within the run; `None` for an event that is named by its place.
    key: Option<String>,
    data: Value,
}

impl Content {
    fn new(channel: Channel, ns: &str, data: Value) -> Self {
        Self { channel, ns: ns.to_owned(), node: None, key: None, data }
    }
}

impl Encoder {
    /// Creates an encoder for the run with this index in its thread, whose frames are in these
    /// modes.
    pub(crate) fn new(run: RunId, index: u64, graph: String, modes: Modes) -> Self {
        let messages = modes.any_of(Modes::MESSAGES).then(Messages::default);
        Self {
            run,
            index,
            tree: Tree::new(graph),
            messages,
            held: None,
            asked: BTreeMap::new(),
            failure: None,
            last: None,
            number: 0,
            received: String::new(),
        }
    }

    /// Sets the text that the client has of messages that were not finished when it left.
    pub(crate) fn resume(&mut self, received: PartialMessages) {
        self.received = received.to_string();
        if let Some(messages) = &mut self.messages {
            messages.resume(received);
        }
    }

    /// Sets the reason for which the run failed, before its last event.
    pub(crate) fn fail(&mut self, reason: String) {
        self.failure = Some(reason);
    }

    /// Returns the events of the next output. Each has its number, if it has one.
    pub(crate) fn output(&mut self, output: &RunOutput) -> Vec<NumberedEvent> {
        match output {
            RunOutput::Event(event) => {
                let Some(at) = event.position() else { return Vec::new() };
                let contents = self.contents_of_event(event);
                let time = event.at.unwrap_or_default();
                let placed = contents.into_iter().zip(0..).map(|(content, index)| {
                    // The index of an event of partial text does not depend on earlier ones.
                    let index = if at.bytes > 0 { order_of_text(&content.data) } else { index };
                    (content, EventPlace { run: self.index, at, frame: (0, 0), index })
                });
                let placed = placed.collect();
                self.number_contents(time, placed)
            }
            RunOutput::Frame(frame) => self.encode_frame(frame),
            // Texts are read as the log has them.
            RunOutput::Text(_) | RunOutput::Reset(_) => Vec::new(),
        }
    }

    fn contents_of_event(&mut self, event: &RunEvent) -> Vec<Content> {
        let changes = self.tree.follow(&event.event, self.failure.as_deref());
        let mut contents: Vec<_> =
            changes.into_iter().map(|at| self.lifecycle_content(at)).collect();
        match &event.event {
            AiEvent::Checkpoint(stored) => contents.extend(checkpoint_content(stored)),
            AiEvent::TasksEnded { ns, ended, .. } => {
                for question in ended.iter().flat_map(|end| &end.questions) {
                    let known = self.asked.entry(*question).or_default();
                    // Tasks around that of the question report it, too.
                    if known.len() < ns.len() {
                        *known = ns.clone();
                    }
                }
            }
            AiEvent::HumanInputRequired { interrupt_id, ask, .. } => {
                contents.push(self.question_content(*interrupt_id, ask));
            }
            AiEvent::Done { .. } => {
                let held = self.held.take();
                contents.extend(held.map(|values| Content::new(Channel::Values, "", values)));
            }
            event => contents.extend(tool_content(event)),
        }
        let Some(messages) = &mut self.messages else { return contents };
        let mut events = messages.follow(&event.event, event.piece.as_ref());
        if matches!(event.event, AiEvent::Done { .. }) {
            events = messages.end();
        }
        contents.extend(events.into_iter().map(|event| of_message(event).0));
        contents
    }

    fn lifecycle_content(&self, Change { ns, status, error }: Change) -> Content {
        let mut data = json!({"event": status.name(), "graph_name": self.tree.name(&ns)});
        if let Some(error) = error
            && matches!(status, Status::Failed)
        {
            data["error"] = json!(error);
        }
        Content::new(Channel::Lifecycle, &ns, data)
    }

    fn question_content(&self, id: InterruptId, ask: &Ask) -> Content {
        let payload = match ask {
            Ask::Value { value } => blocks::into_shown(value.clone()),
            other => json!(other),
        };
        let ns = self.asked.get(&id).map_or("", String::as_str);
        let data = json!({"interrupt_id": id, "payload": payload});
        Content::new(Channel::Input, ns, data)
    }

    fn encode_frame(&mut self, frame: &Frame) -> Vec<NumberedEvent> {
        let FrameContent::Item(StreamItem { ns, event }) = &frame.content else {
            let FrameContent::Dropped { ns, reason } = &frame.content else { return Vec::new() };
            let data = json!({"name": "dropped", "payload": {"reason": reason}});
            return self.at_frame(frame, Content::new(Channel::Custom, ns, data));
        };
        let ns = ns.join("|");
        let content = match event {
            StreamEvent::Message { part, node, .. } => {
                let MessagePart::Returned(MessageWrite::Put(message)) = part else {
                    // Partial text is part of the log.
                    return Vec::new();
                };
                let Some(messages) = &mut self.messages else { return Vec::new() };
                let events = messages.returned(message, &ns, node).into_iter();
                let placed = events.map(|event| {
                    let (content, order) = of_message(event);
                    (content, EventPlace::of_message(self.index, frame.position, order))
                });
                let placed = placed.collect();
                return self.number_contents(frame.at, placed);
            }
            StreamEvent::Values { values, interrupts } => {
                let values = blocks::into_shown(values.clone());
                if interrupts.is_some() && ns.is_empty() {
                    self.held = Some(values);
                    return Vec::new();
                }
                Content::new(Channel::Values, &ns, values)
            }
            StreamEvent::Updates { node, updates, returned, .. } => {
                let values = updates_to_json(updates, returned.as_ref());
                Content::new(Channel::Updates, &ns, json!({"node": node, "values": values}))
            }
            StreamEvent::TaskStarted(task) => {
                Content::new(Channel::Tasks, &ns, started_task_to_json(task))
            }
            StreamEvent::TaskEnded(task) => {
                Content::new(Channel::Tasks, &ns, ended_task_to_json(task))
            }
            StreamEvent::Custom(value) => {
                Content::new(Channel::Custom, &ns, custom_value_to_json(value))
            }
            StreamEvent::Data { mode, data } => data_content(*mode, &ns, data),
            // Questions are events of the log, and so are checkpoints.
            StreamEvent::Interrupts(_) | StreamEvent::Checkpoint(_) | StreamEvent::Debug { .. } => {
                return Vec::new();
            }
        };
        self.at_frame(frame, content)
    }

    fn at_frame(&mut self, frame: &Frame, content: Content) -> Vec<NumberedEvent> {
        let mut place = EventPlace::of_frame(self.index, frame.position, 0);
        if let Some(last) =
            self.last.filter(|last| (last.at, last.frame) == (place.at, place.frame))
        {
            place.index = last.index + 1;
        }
        self.number_contents(frame.at, vec![(content, place)])
    }

    fn number_contents(
        &mut self,
        at: Timestamp,
        contents: Vec<(Content, EventPlace)>,
    ) -> Vec<NumberedEvent> {
        let mut events = Vec::new();
        // Only the last event of an output has its text: a client may leave before.
        let Some(last) = contents.len().checked_sub(1) else { return events };
        let before = std::mem::take(&mut self.received);
        self.received = self.messages.as_ref().map(Messages::received).unwrap_or_default();
        for (index, (Content { channel, ns, node, key, data }, place)) in
            contents.into_iter().enumerate()
        {
            let number = place.number();
            self.number = number.unwrap_or(self.number);
            self.last = Some(place);
            let name = key.unwrap_or_else(|| name_of_place(place));
            let id = format!("{}:{name}", self.run);
            let namespace = ids::split_namespace(&ns);
            let received = if index == last { &self.received } else { &before }.clone();
            let event =
                Event { seq: self.number, id, channel, namespace, at, node, data, received };
            events.push(NumberedEvent { event, number });
        }
        events
    }
}

/// Returns the name of an event that follows from its place.
fn name_of_place(
    EventPlace { at: Position { seq, bytes, .. }, frame: (incident, mode), index, .. }: EventPlace,
) -> String {
    match (bytes, mode) {
        (0, 0) => format!("{seq}.{index}"),
        (0, _) => format!("{seq}.{incident}.{mode}.{index}"),
        _ => format!("{seq}+{bytes}.{index}"),
    }
}

/// Returns the order among the events of a partial text.
fn order_of_text(data: &Value) -> u64 {
    match data["event"].as_str() {
        Some("content-block-finish") => 0,
        Some("message-start") => 1,
        Some("content-block-start") => 2,
        _ => 3,
    }
}

fn of_message(event: MessageEvent) -> (Content, u64) {
    let MessageEvent { ns, node, key, order, data } = event;
    (Content { channel: Channel::Messages, ns, node, key, data }, order)
}

fn checkpoint_content(stored: &CheckpointStored) -> Option<Content> {
    let source = match stored.source {
        CheckpointSource::Empty => return None,
        CheckpointSource::Input => "input",
        CheckpointSource::Loop => "loop",
        CheckpointSource::Update => "update",
        CheckpointSource::Fork => "fork",
    };
    let mut data = json!({"id": ids::to_hyphenated(stored.id.0)});
    if let Some(parent) = stored.parent {
        data["parent_id"] = json!(ids::to_hyphenated(parent.0));
    }
    data["step"] = json!(stored.step);
    data["source"] = json!(source);
    Some(Content::new(Channel::Checkpoints, &stored.ns, data))
}

fn tool_content(event: &AiEvent) -> Option<Content> {
    let data = match event {
        AiEvent::ToolCallStart { tool_call_id, tool_name, args, .. } => json!({
            "event": "tool-started",
            "tool_call_id": tool_call_id,
            "tool_name": tool_name,
            "input": args,
        }),
        AiEvent::ToolCallResult { tool_call_id, result, is_error: false, .. } => {
            let output = blocks::tool_output(tool_call_id, result);
            json!({"event": "tool-finished", "tool_call_id": tool_call_id, "output": output})
        }
        AiEvent::ToolCallResult { tool_call_id, result, is_error: true, .. } => {
            let text = result.get("message").and_then(Value::as_str).or(result.as_str());
            let message = text.map_or_else(|| result.to_string(), str::to_owned);
            json!({"event": "tool-error", "tool_call_id": tool_call_id, "message": message})
        }
        _ => return None,
    };
    Some(Content::new(Channel::Tools, "", data))
}

fn updates_to_json(updates: &[Vec<(String, Written)>], returned: Option<&Value>) -> Value {
    let mut all: Vec<_> = updates.iter().cloned().map(writes_to_json).collect();
    match (all.len(), returned) {
        (0, Some(returned)) => blocks::into_shown(returned.clone()),
        (0, None) => json!({}),
        (1, _) => all.pop().unwrap_or_default(),
        _ => all.into(),
    }
}

fn writes_to_json(writes: Vec<(String, Written)>) -> Value {
    let write = |(channel, write)| match write {
        Written::Put(value) | Written::Overwrite(value) => (channel, blocks::into_shown(value)),
    };
    writes.into_iter().map(write).collect::<Map<_, _>>().into()
}

fn started_task_to_json(task: &TaskStarted) -> Value {
    json!({
        "id": ids::to_hyphenated(task.id.0),
        "name": task.name,
        "input": blocks::into_shown(task.input.clone()),
        "triggers": task.triggers,
    })
}

fn ended_task_to_json(task: &TaskEnded) -> Value {
    let interrupt = |question: &Interrupt| {
        let shown = state::interrupt_to_json(question);
        json!({"id": shown["id"], "value": shown["value"]})
    };
    json!({
        "id": ids::to_hyphenated(task.id.0),
        "name": task.name,
        "error": task.error.as_ref().map(|fault| &fault.message),
        "result": writes_to_json(task.result.clone()),
        "interrupts": task.interrupts.iter().map(interrupt).collect::<Vec<_>>(),
    })
}

/// Returns a frame of a remote run. A frame of updates has the update of one node.
fn data_content(mode: Modes, ns: &str, data: &Value) -> Content {
    match (mode, data.as_object().and_then(|nodes| nodes.iter().next())) {
        (Modes::VALUES, _) => Content::new(Channel::Values, ns, data.clone()),
        (Modes::UPDATES, Some((node, values))) => {
            Content::new(Channel::Updates, ns, json!({"node": node, "values": values}))
        }
        _ => Content::new(Channel::Custom, ns, custom_value_to_json(data)),
    }
}

/// Returns a custom value as `payload`. The members of an object with a text `name` are also members
/// of the event, because clients in Python read them there.
fn custom_value_to_json(value: &Value) -> Value {
    let value = blocks::into_shown(value.clone());
    match &value {
        Value::Object(members) if members.get("name").is_some_and(Value::is_string) => {
            let mut data = members.clone();
            data.entry("payload").or_insert_with(|| value.clone());
            data.into()
        }
        _ => json!({"payload": value}),
    }
}

/// Reads the place of an event from the part of its id after the run. An event that is named by a
/// message has none.
pub(crate) fn read_name(name: &str, run: u64) -> Option<EventPlace> {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let parse = |part: &str| part.parse().ok().filter(|_| is_number(part));
        text.split(['.', '+']).map(parse).collect()
    };
    let has_bytes = name.contains('+');
    match (numbers(name)?.as_slice(), has_bytes) {
        (&[seq, index], false) => {
            Some(EventPlace { run, at: Position::after(seq), frame: (0, 0), index })
        }
        (&[seq, incident, mode, index], false) if mode > 0 => {
            Some(EventPlace { run, at: Position::after(seq), frame: (incident, mode), index })
        }
        (&[seq, bytes, index], true) => {
            Some(EventPlace { run, at: Position::in_text(seq, bytes), frame: (0, 0), index })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
