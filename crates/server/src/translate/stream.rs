//! Frames of runs as server-sent events.

use super::rows::RunView;
use super::{ids, messages, state, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_graph::run_loop::{
    MessagePart, MessageWrite, Modes, StreamEvent, StreamItem, TaskEnded, TaskStarted,
};
use weftwork_runtime::{Frame, FrameContent, FramePosition};

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
            // Records of LangChain's callbacks, which graphs here do not have.
            "events" => Modes::NONE,
            name => match Modes::parse(name) {
                Some(mode) => mode,
                None => return false,
            },
        };
        self.modes = self.modes | mode;
        true
    }
}

/// Translates the frames of one run. It holds the texts of messages that are not final.
#[derive(Debug)]
pub(crate) struct Translator {
    run: RunView,
    requested: Requested,
    /// Position of the last frame that the client received.
    after: FramePosition,
    from_start: bool,
    texts: BTreeMap<String, String>,
}

impl Translator {
    pub(crate) fn new(
        run: RunView,
        requested: Requested,
        after: FramePosition,
        from_start: bool,
    ) -> Self {
        Self { run, requested, after, from_start, texts: BTreeMap::new() }
    }

    /// Returns the event that precedes the frames; `None` if the client received it.
    pub(crate) fn metadata(&self) -> Option<Event> {
        self.from_start
            .then(|| ("metadata".to_owned(), json!({"run_id": self.run.at.run, "attempt": 1})))
    }

    /// Returns the events of a frame; none if the client received it.
    pub(crate) fn events(&mut self, frame: Frame) -> Vec<Event> {
        let is_new = frame.position > self.after;
        let events = self.translate(frame);
        if is_new { events } else { Vec::new() }
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
        let (id, whole, chunk) = match part {
            MessagePart::Chunk { id, text } => {
                let known = self.texts.entry(id.to_string()).or_default();
                known.push_str(&text);
                let mut whole = messages::chunk(&id, known);
                whole["type"] = json!("ai");
                if let Some(members) = whole.as_object_mut() {
                    members.remove("tool_call_chunks");
                    members.remove("chunk_position");
                }
                let first = known.len() == text.len();
                if first && self.requested.accumulated {
                    let data = json!({id.to_string(): {"metadata": metadata}});
                    events.push(("messages/metadata".to_owned(), data));
                }
                (id.clone(), whole, Some(messages::chunk(&id, &text)))
            }
            MessagePart::Reset { id } => {
                self.texts.remove(id.as_str());
                return Vec::new();
            }
            MessagePart::Returned(MessageWrite::Put(message)) => {
                let shown = messages::shown(&message);
                let chunk = match self.texts.get(message.id.as_str()) {
                    Some(known) => messages::rest(&message, known),
                    None => Some(shown.clone()),
                };
                (message.id, shown, chunk)
            }
            MessagePart::Returned(MessageWrite::Remove { remove }) => {
                let shown = json!({"type": "remove", "id": remove, "content": ""});
                (remove, shown.clone(), Some(shown))
            }
        };
        if self.requested.accumulated {
            if !self.texts.contains_key(id.as_str()) {
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
    use weftwork_types::run::RunRef;
    use weftwork_types::{MessageId, RunId, ThreadId, Timestamp};

    fn chunk(bytes: u64, text: &str) -> Frame {
        let id = MessageId::new("m").expect("valid");
        let part = MessagePart::Chunk { id, text: text.to_owned() };
        let event = StreamEvent::Message { part, node: "model".to_owned(), step: 1 };
        let item = StreamItem { ns: Vec::new(), event };
        let position = FramePosition { event: Position { seq: 4, bytes }, part: 1 };
        Frame { position, at: Timestamp(0), content: FrameContent::Item(item) }
    }

    fn events(mode: &str, after: FramePosition) -> Vec<Event> {
        let thread = ThreadId::new("t").expect("valid");
        let at = RunRef { thread, run: RunId::new("r").expect("valid") };
        let (graph, assistant, metadata) = ("chat".to_owned(), Value::Null, Map::new());
        let run = RunView { at, graph, assistant, created_ms: 0, metadata };
        let mut requested = Requested::default();
        assert!(requested.add(mode));
        let mut translator = Translator::new(run, requested, after, after == FramePosition::START);
        let frames = [chunk(2, "Go"), chunk(5, "od "), chunk(8, "day")];
        frames.into_iter().flat_map(|frame| translator.events(frame)).collect()
    }

    #[test]
    fn partial_messages_are_whole_also_after_a_reconnect() {
        let all = events("messages", FramePosition::START);
        let names: Vec<_> = all.iter().map(|event| event.0.as_str()).collect();
        let partial = "messages/partial";
        assert_eq!(names, ["messages/metadata", partial, partial, partial]);
        let texts: Vec<_> = all[1..].iter().map(|event| event.1[0]["content"].clone()).collect();
        assert_eq!(texts, ["Go", "Good ", "Good day"]);
        let rest = events("messages", chunk(5, "").position);
        assert_eq!(rest, all[3..]);
    }

    #[test]
    fn chunks_of_messages_have_their_node() {
        let all = events("messages-tuple", FramePosition::START);
        assert_eq!(all.len(), 3);
        assert_eq!((&*all[1].0, &all[1].1[0]["content"]), ("messages", &json!("od ")));
        assert_eq!(all[1].1[1]["langgraph_node"], "model");
    }
}
