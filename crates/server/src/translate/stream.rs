//! Frames of runs as server-sent events.

use super::partial::{Missing, PartialMessages};
use super::rows::RunView;
use super::{ids, messages, state, time};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use weftwork_graph::run_loop::{
    MessagePart, MessageWrite, Modes, StreamEvent, StreamItem, TaskEnded, TaskStarted,
};
use weftwork_runtime::{Frame, FrameContent, FramePosition, NoPosition};

/// An event: its name and its data.
pub(crate) type Event = (String, Value);

/// The stream modes of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requested {
    pub(crate) modes: Modes,
    /// Messages as `messages/metadata` and `messages/partial`.
    pub(crate) accumulated: bool,
    /// Messages as pairs of chunk and metadata.
    pub(crate) tuples: bool,
    /// Records of LangChain's callbacks, which graphs here do not have.
    events: bool,
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

    /// Returns the names of the modes, separated by commas. [`Self::add`] takes each.
    pub(crate) fn names(self) -> String {
        const NAMES: [&str; 6] = ["values", "updates", "tasks", "checkpoints", "custom", "debug"];
        let has = |name: &&str| Modes::parse(name).is_some_and(|mode| self.modes.any_of(mode));
        let of_messages = [(self.accumulated, "messages"), (self.tuples, "messages-tuple")];
        let others = of_messages.into_iter().chain([(self.events, "events")]);
        let others = others.filter_map(|requested| requested.0.then_some(requested.1));
        NAMES.into_iter().filter(has).chain(others).collect::<Vec<_>>().join(",")
    }
}

/// Translates the frames of one run. It holds the texts of messages that are not final.
#[derive(Debug)]
pub(crate) struct Translator {
    run: RunView,
    requested: Requested,
    received: Received,
    from_start: bool,
}

/// The events that a client has received: all up to a position, and the text of messages that were
/// not final then. It is the id of the last event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    /// Position of the last frame.
    pub(crate) position: FramePosition,
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
    pub(crate) fn new(
        run: RunView,
        requested: Requested,
        received: Received,
        from_start: bool,
    ) -> Self {
        Self { run, requested, received, from_start }
    }

    /// Returns the event that precedes the frames; `None` if the client received it.
    pub(crate) fn metadata(&self) -> Option<Event> {
        self.from_start
            .then(|| ("metadata".to_owned(), json!({"run_id": self.run.at.run, "attempt": 1})))
    }

    /// Returns the events of a frame; none if the client received it.
    pub(crate) fn events(&mut self, frame: Frame) -> Vec<Event> {
        if frame.position <= self.received.position {
            self.pass(frame);
            return Vec::new();
        }
        self.received.position = frame.position;
        self.translate(frame)
    }

    /// Returns the id of the last events.
    pub(crate) fn id(&self) -> String {
        self.received.to_string()
    }

    /// Reads a frame that the client received.
    fn pass(&mut self, frame: Frame) {
        let FrameContent::Item(StreamItem { event, .. }) = frame.content else { return };
        let StreamEvent::Message { part, .. } = event else { return };
        let messages = &mut self.received.messages;
        match part {
            MessagePart::Chunk { id, text } => messages.add_received(id.as_str(), &text),
            MessagePart::Reset { id } => messages.reset(id.as_str()),
            MessagePart::Returned(MessageWrite::Put(message)) => {
                messages.end(message.id.as_str(), "");
            }
            MessagePart::Returned(MessageWrite::Remove { .. }) => {}
        }
    }

    fn translate(&mut self, frame: Frame) -> Vec<Event> {
        let item = match frame.content {
            FrameContent::Item(item) => item,
            FrameContent::Dropped { ns, reason } => {
                let ns = ids::namespace(ns.split('|'));
                return vec![("dropped".to_owned(), json!({"ns": ns, "reason": reason}))];
            }
        };
        let StreamItem { ns, event } = item;
        let suffix = match ns.is_empty() {
            true => String::new(),
            false => format!("|{}", ids::namespace(ns.iter().map(String::as_str))),
        };
        if let StreamEvent::Message { part, node, step } = event {
            let events = self.message(part, &node, step, &suffix);
            return events.into_iter().map(|(name, data)| (name + &suffix, data)).collect();
        }
        let at = time::text(frame.at);
        let (name, data) = event_of(&self.run, event, &at);
        vec![(format!("{name}{suffix}"), data)]
    }

    fn message(&mut self, part: MessagePart, node: &str, step: i64, suffix: &str) -> Vec<Event> {
        let ns = suffix.strip_prefix('|').unwrap_or(node);
        let mut metadata = self.run.with_server();
        let of_message = json!({
            "run_id": self.run.at.run,
            "thread_id": self.run.at.thread,
            "langgraph_step": step,
            "langgraph_node": node,
            "langgraph_triggers": [format!("branch:to:{node}")],
            "langgraph_path": ["__pregel_pull", node],
            "langgraph_checkpoint_ns": ns,
            "checkpoint_ns": ns,
        });
        metadata.extend(of_message.as_object().cloned().unwrap_or_default());
        let metadata = Value::Object(metadata);
        let mut events = Vec::new();
        let known = &mut self.received.messages;
        let (id, is_first, whole, chunk) = match part {
            MessagePart::Chunk { id, text } => {
                let is_first = known.text(id.as_str()).is_empty();
                let missing = known.add(id.as_str(), &text).filter(|missing| !missing.is_empty());
                let chunk = missing.map(|missing| messages::chunk(&id, missing));
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
                let shown = messages::shown(&message);
                let is_first = known.text(message.id.as_str()).is_empty();
                let text = message.joined_text();
                let chunk = match known.end(message.id.as_str(), &text) {
                    Missing::Rest { received } => messages::rest(&message, received),
                    Missing::Whole => Some(shown.clone()),
                };
                (message.id, is_first, shown, chunk)
            }
            MessagePart::Returned(MessageWrite::Remove { remove }) => {
                let shown = json!({"type": "remove", "id": remove, "content": ""});
                (remove, true, shown.clone(), Some(shown))
            }
        };
        if self.requested.accumulated {
            if is_first {
                let data = json!({id.to_string(): {"metadata": metadata}});
                events.push(("messages/metadata".to_owned(), data));
            }
            events.push(("messages/partial".to_owned(), json!([whole])));
        }
        if let (true, Some(chunk)) = (self.requested.tuples, chunk) {
            events.push(("messages".to_owned(), json!([chunk, metadata])));
        }
        events
    }
}

fn event_of(run: &RunView, event: StreamEvent, at: &str) -> (&'static str, Value) {
    match event {
        StreamEvent::Values { values, interrupts } => {
            let mut values = messages::into_shown(values);
            if let (Some(questions), Some(members)) = (interrupts, values.as_object_mut()) {
                let questions = questions.iter().map(state::asked).collect();
                members.insert("__interrupt__".to_owned(), questions);
            }
            ("values", values)
        }
        StreamEvent::Updates { node, updates, returned, .. } => {
            let mut updates: Vec<_> = updates.into_iter().map(state::written).collect();
            let update = match (returned, updates.len()) {
                (Some(value), _) => messages::into_shown(value),
                (None, 0) => Value::Null,
                (None, 1) => updates.swap_remove(0),
                (None, _) => updates.into(),
            };
            ("updates", json!({node: update}))
        }
        StreamEvent::Interrupts(questions) => {
            let questions: Vec<_> = questions.iter().map(state::asked).collect();
            ("updates", json!({"__interrupt__": questions}))
        }
        StreamEvent::TaskStarted(task) => ("tasks", started(run, task)),
        StreamEvent::TaskEnded(task) => ("tasks", ended(task)),
        StreamEvent::Checkpoint(snapshot) => {
            ("checkpoints", state::event(&run.configurable(), *snapshot))
        }
        StreamEvent::Custom(value) => ("custom", messages::into_shown(value)),
        StreamEvent::Remote { mode, data } => (mode.remote_name().unwrap_or("custom"), data),
        StreamEvent::Debug { step, event } => {
            let kind = match &*event {
                StreamEvent::TaskStarted(_) => "task",
                StreamEvent::TaskEnded(_) => "task_result",
                _ => "checkpoint",
            };
            let places = match &*event {
                StreamEvent::Checkpoint(at) => Some(state::places(&run.at.thread, at)),
                _ => None,
            };
            let mut payload = event_of(run, *event, at).1;
            if let Some((at, before)) = places {
                (payload["checkpoint"], payload["parent_checkpoint"]) = (at, before);
            }
            ("debug", json!({"step": step, "timestamp": at, "type": kind, "payload": payload}))
        }
        // Messages are translated with their texts.
        StreamEvent::Message { .. } => ("messages", Value::Null),
    }
}

fn started(run: &RunView, task: TaskStarted) -> Value {
    let mut metadata = run.with_server();
    metadata.insert("run_id".to_owned(), json!(run.at.run));
    json!({
        "id": ids::hyphenated(task.id.0),
        "name": task.name,
        "input": messages::into_shown(task.input),
        "triggers": task.triggers,
        "metadata": metadata,
    })
}

fn ended(task: TaskEnded) -> Value {
    json!({
        "id": ids::hyphenated(task.id.0),
        "name": task.name,
        "error": task.error.as_ref().map(state::error_text),
        "result": state::written(task.result),
        "interrupts": task.interrupts.iter().map(state::interrupt).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use weftwork_types::event::Position;
    use weftwork_types::message::{Message, Role};
    use weftwork_types::run::RunRef;
    use weftwork_types::{MessageId, RunId, ThreadId, Timestamp};

    fn id() -> MessageId {
        MessageId::new("m").expect("valid")
    }

    fn frame(event: Position, part: MessagePart) -> Frame {
        let event_of = StreamEvent::Message { part, node: "model".to_owned(), step: 1 };
        let item = StreamItem { ns: Vec::new(), event: event_of };
        let position = FramePosition { event, part: 1 };
        Frame { position, at: Timestamp(0), content: FrameContent::Item(item) }
    }

    fn chunk_at(seq: u64, bytes: u64, text: &str) -> Frame {
        let part = MessagePart::Chunk { id: id(), text: text.to_owned() };
        frame(Position { seq, bytes }, part)
    }

    fn chunk(bytes: u64, text: &str) -> Frame {
        chunk_at(4, bytes, text)
    }

    fn translator(mode: &str, received: Received) -> Translator {
        let thread = ThreadId::new("t").expect("valid");
        let at = RunRef { thread, run: RunId::new("r").expect("valid") };
        let (graph, assistant, metadata) = ("chat".to_owned(), Value::Null, Map::new());
        let run = RunView { at, graph, assistant, created_ms: 0, metadata };
        let mut requested = Requested::default();
        assert!(requested.add(mode));
        Translator::new(run, requested, received, false)
    }

    fn events_of(mode: &str, received: Received, frames: Vec<Frame>) -> Vec<Event> {
        let mut translator = translator(mode, received);
        frames.into_iter().flat_map(|frame| translator.events(frame)).collect()
    }

    /// The id that a client sends after these frames.
    fn after(frames: &[Frame]) -> Received {
        let mut translator = translator("messages-tuple", Received::default());
        frames.iter().for_each(|frame| drop(translator.events(frame.clone())));
        translator.id().parse().expect("its own form")
    }

    fn events(mode: &str, received: Received) -> Vec<Event> {
        events_of(mode, received, vec![chunk(2, "Go"), chunk(5, "od "), chunk(8, "day")])
    }

    #[test]
    fn partial_messages_are_whole_also_after_a_reconnect() {
        let all = events("messages", Received::default());
        let names: Vec<_> = all.iter().map(|event| event.0.as_str()).collect();
        let partial = "messages/partial";
        assert_eq!(names, ["messages/metadata", partial, partial, partial]);
        let texts: Vec<_> = all[1..].iter().map(|event| event.1[0]["content"].clone()).collect();
        assert_eq!(texts, ["Go", "Good ", "Good day"]);
        let rest = events("messages", after(&[chunk(2, "Go"), chunk(5, "od ")]));
        assert_eq!(rest, all[3..]);
    }

    #[test]
    fn chunks_of_messages_have_their_node() {
        let all = events("messages-tuple", Received::default());
        assert_eq!(all.len(), 3);
        assert_eq!((&*all[1].0, &all[1].1[0]["content"]), ("messages", &json!("od ")));
        assert_eq!(all[1].1[1]["langgraph_node"], "model");
    }

    #[test]
    fn a_message_whose_text_is_void_is_sent_whole() {
        let at = Position::after;
        let said = Message::text(id(), Role::Assistant, "Hello");
        let returned = || frame(at(7), MessagePart::Returned(MessageWrite::Put(said.clone())));
        let reset = frame(at(5), MessagePart::Reset { id: id() });
        let again = || [chunk_at(6, 3, "Hel"), chunk_at(6, 5, "lo"), returned()];
        let kinds = |events: &[Event]| -> Vec<(Value, Value)> {
            events
                .iter()
                .map(|event| (event.1[0]["type"].clone(), event.1[0]["content"].clone()))
                .collect()
        };
        let (part, whole) =
            (|text: &str| (json!("AIMessageChunk"), json!(text)), (json!("ai"), json!("Hello")));
        // The attempt fails while the client reads.
        let frames = [chunk(2, "Go"), reset.clone()].into_iter().chain(again());
        let found = events_of("messages-tuple", Received::default(), frames.collect());
        assert_eq!(kinds(&found), [part("Go"), whole.clone()]);
        // It failed before the client came back, and the log has nothing of its text.
        let found = events_of("messages-tuple", after(&[chunk(2, "Go")]), again().into());
        assert_eq!(kinds(&found), [whole]);
        // The client has nothing of it.
        let found = events_of("messages-tuple", after(&[reset]), again().into());
        assert_eq!(kinds(&found), [part("Hel"), part("lo")]);
        // A text that is not void goes on.
        let frames = vec![chunk(2, "Hel"), chunk(5, "lo"), returned()];
        let found = events_of("messages-tuple", after(&[chunk(2, "Hel")]), frames);
        assert_eq!(kinds(&found), [part("lo")]);
        // The message is final, and the log has nothing of its text.
        let found = events_of("messages-tuple", after(&[chunk(2, "Hel")]), vec![returned()]);
        assert_eq!(kinds(&found), [part("lo")]);
        let all = after(&[chunk(2, "Hel"), chunk(5, "lo")]);
        assert_eq!(kinds(&events_of("messages-tuple", all, vec![returned()])), []);
    }

    #[test]
    fn stored_text_is_cut_at_the_position_of_the_client() {
        let received = after(&[chunk(2, "Go"), chunk(5, "od ")]);
        let found = events_of("messages-tuple", received, vec![chunk(8, "Good day")]);
        assert_eq!(found[0].1[0]["content"], "day");
    }

    #[test]
    fn requested_modes_have_their_names() {
        let all = "values,updates,tasks,checkpoints,custom,debug,messages,messages-tuple,events";
        for names in [all, "events", "custom,messages-tuple"] {
            let mut requested = Requested::default();
            assert!(names.split(',').all(|name| requested.add(name)));
            assert_eq!(requested.names(), names);
        }
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in ["", "1", "x-1", "1-2-3", "1-2-0123", "1-2-01234567.1"] {
            let refused = text.parse::<Received>().expect_err(text);
            assert_eq!(refused.found, text);
        }
    }
}
