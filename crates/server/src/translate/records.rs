//! Mode `events`: records of LangChain's callbacks, as `astream_events` version 2 has them, of what the
//! log and the frames of a run have: its graph, its tasks, the text and the messages of its models, its
//! tool calls and the values that its nodes emit.
//!
//! A call of a model begins with its first text, or with its message if none was streamed, and ends
//! with its message; its prompt is not part of a log.

use super::partial::Missing;
use super::rows::RunView;
use super::{ids, messages, state};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_graph::run_loop::{Modes, StreamEvent, TaskEnded, TaskStarted};
use weftwork_types::TaskId;
use weftwork_types::event::AiEvent;
use weftwork_types::message::Message;
use weftwork_types::run::{RunInput, RunStatus};
use weftwork_types::usage::UsageFact;

/// Name of calls of models whose usage is not known yet.
const MODEL: &str = "ChatModel";
/// Name of values that nodes emit without one.
const CUSTOM: &str = "custom";

/// The node that an event comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventNode<'a> {
    /// Namespace of its graph, as clients see it.
    pub(crate) ns: &'a str,
    pub(crate) node: &'a str,
    pub(crate) step: Option<i64>,
}

/// The end of a message.
pub(crate) struct MessageEnd<'a> {
    pub(crate) message: &'a Message,
    /// The message in LangChain's shape.
    pub(crate) shown: &'a Value,
    /// Usage of the call that produced it.
    pub(crate) usage: Option<&'a UsageFact>,
}

/// Open calls of a run, for the records of their ends.
#[derive(Debug, Default)]
pub(crate) struct Records {
    input: Value,
    /// Newest values of the outermost graph.
    output: Value,
    tasks: BTreeMap<TaskId, Task>,
    /// Messages of which a client has the beginning.
    open: BTreeSet<String>,
    /// Open tool calls by the ids of their records.
    tools: BTreeMap<String, Tool>,
}

/// A task that runs.
#[derive(Debug)]
struct Task {
    ns: String,
    name: String,
    step: i64,
    triggers: Vec<String>,
    input: Value,
}

/// A tool call that runs.
#[derive(Debug)]
struct Tool {
    name: String,
    args: Value,
}

/// The subject of a record: a graph, a task, a model or a tool, and the node that runs it.
struct Subject {
    name: String,
    id: String,
    tags: Vec<String>,
    metadata: Map<String, Value>,
    parents: Vec<String>,
}

impl Subject {
    fn record(&self, event: &str, data: Value) -> Value {
        json!({
            "event": event,
            "data": data,
            "name": self.name,
            "tags": self.tags,
            "run_id": self.id,
            "metadata": self.metadata,
            "parent_ids": self.parents,
        })
    }
}

impl EventNode<'_> {
    /// Returns the metadata of a message.
    pub(crate) fn metadata_of_message(&self, run: &RunView) -> Map<String, Value> {
        let ns = if self.ns.is_empty() { self.node } else { self.ns };
        self.metadata(run, ns, &[format!("branch:to:{}", self.node)])
    }

    fn metadata(&self, run: &RunView, ns: &str, triggers: &[String]) -> Map<String, Value> {
        let mut metadata = of_run(run);
        let own = json!({
            "langgraph_step": self.step,
            "langgraph_node": self.node,
            "langgraph_triggers": triggers,
            "langgraph_path": ["__pregel_pull", self.node],
            "langgraph_checkpoint_ns": ns,
            "checkpoint_ns": ns,
        });
        metadata.extend(own.as_object().cloned().unwrap_or_default());
        metadata
    }
}

/// Returns the metadata of a run as a whole.
fn of_run(run: &RunView) -> Map<String, Value> {
    let mut metadata = run.with_server();
    metadata.insert("run_id".to_owned(), json!(run.at.run));
    metadata.insert("thread_id".to_owned(), json!(run.at.thread));
    metadata
}

impl Task {
    fn event_node(&self) -> EventNode<'_> {
        EventNode { ns: &self.ns, node: &self.name, step: Some(self.step) }
    }

    /// Returns the namespace of a graph that the task runs.
    fn subgraph_namespace(&self, id: TaskId) -> String {
        let own = format!("{}:{}", self.name, ids::to_hyphenated(id.0));
        if self.ns.is_empty() { own } else { format!("{}|{own}", self.ns) }
    }

    fn metadata(&self, run: &RunView, id: TaskId) -> Map<String, Value> {
        self.event_node().metadata(run, &self.subgraph_namespace(id), &self.triggers)
    }

    fn subject(&self, run: &RunView, id: TaskId) -> Subject {
        Subject {
            name: self.name.clone(),
            id: ids::to_hyphenated(id.0),
            tags: vec![format!("graph:step:{}", self.step)],
            metadata: self.metadata(run, id),
            parents: vec![run.at.run.to_string()],
        }
    }
}

impl Records {
    /// Modes of the frames that records are derived from.
    pub(crate) const MODES: Modes = Modes::DEBUG.and(Modes::VALUES).and(Modes::MESSAGES);

    /// Creates the records of a run with this input.
    pub(crate) fn new(input: &RunInput) -> Self {
        let input = match input {
            RunInput::Start { input } => messages::into_shown(input.clone()),
            _ => json!({}),
        };
        Self { input, output: json!({}), ..Self::default() }
    }

    /// Returns the records of an event of the log.
    pub(crate) fn of_log(&mut self, run: &RunView, event: &AiEvent) -> Vec<Value> {
        match event {
            AiEvent::RunStarted { .. } => {
                let data = json!({"input": self.input});
                vec![graph_subject(run).record("on_chain_start", data)]
            }
            AiEvent::Done { outcome: RunStatus::Completed | RunStatus::Interrupted } => {
                let data = json!({"output": self.output, "input": self.input});
                vec![graph_subject(run).record("on_chain_end", data)]
            }
            AiEvent::ToolCallStart {
                tool_call_id, tool_name, args, charged: true, task, ..
            } => {
                let id = tool_id(run, *task, tool_call_id.as_str());
                let tool = Tool { name: tool_name.clone(), args: args.clone() };
                let data = json!({"input": args});
                let record =
                    self.tool_subject(run, *task, &id, &tool).record("on_tool_start", data);
                self.tools.insert(id, tool);
                vec![record]
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, task } => {
                let id = tool_id(run, *task, tool_call_id.as_str());
                let Some(tool) = self.tools.remove(&id) else { return Vec::new() };
                let text =
                    |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let (event, data) = if *is_error {
                    let error = text(result.get("message").unwrap_or(result));
                    let data = json!({"error": error, "input": tool.args,
                        "tool_call_id": tool_call_id});
                    ("on_tool_error", data)
                } else {
                    let output = json!({
                        "content": text(result),
                        "additional_kwargs": {},
                        "response_metadata": {},
                        "type": "tool",
                        "name": tool.name,
                        "tool_call_id": tool_call_id,
                        "artifact": null,
                        "status": "success",
                    });
                    ("on_tool_end", json!({"output": output, "input": tool.args}))
                };
                vec![self.tool_subject(run, *task, &id, &tool).record(event, data)]
            }
            AiEvent::Custom { ns, node, value, .. } => {
                let ns = ids::split_namespace(ns).join("|");
                let place = EventNode { ns: &ns, node, step: None };
                let (name, data) = name_and_data(value);
                let subject = self.subject(run, &place, name);
                vec![subject.record("on_custom_event", messages::into_shown(data))]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the records of an event of a graph with this namespace.
    pub(crate) fn of_frame(&mut self, run: &RunView, ns: &str, event: &StreamEvent) -> Vec<Value> {
        match event {
            StreamEvent::Values { values, .. } if ns.is_empty() => {
                self.output = messages::into_shown(values.clone());
                Vec::new()
            }
            StreamEvent::Debug { step, event } => match &**event {
                StreamEvent::TaskStarted(task) => vec![self.start_task(run, ns, *step, task)],
                StreamEvent::TaskEnded(task) => self.end_task(run, task),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn start_task(&mut self, run: &RunView, ns: &str, step: i64, started: &TaskStarted) -> Value {
        let task = Task {
            ns: ns.to_owned(),
            name: started.name.clone(),
            step,
            triggers: started.triggers.clone(),
            input: messages::into_shown(started.input.clone()),
        };
        let data = json!({"input": task.input});
        let record = task.subject(run, started.id).record("on_chain_start", data);
        self.tasks.insert(started.id, task);
        record
    }

    fn end_task(&mut self, run: &RunView, ended: &TaskEnded) -> Vec<Value> {
        let Some(task) = self.tasks.remove(&ended.id) else { return Vec::new() };
        if ended.error.is_some() || !ended.interrupts.is_empty() {
            return Vec::new();
        }
        let subject = task.subject(run, ended.id);
        let output = state::writes_to_json(ended.result.clone());
        vec![
            subject.record("on_chain_stream", json!({"chunk": output})),
            subject.record("on_chain_end", json!({"output": output, "input": task.input})),
        ]
    }

    /// Notes that a client has the beginning of a message.
    pub(crate) fn note_open(&mut self, id: &str) {
        self.open.insert(id.to_owned());
    }

    /// Notes that a client has the end of a message.
    pub(crate) fn note_end(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Returns the records of partial text that a client lacks.
    pub(crate) fn chunk(
        &mut self,
        run: &RunView,
        place: &EventNode<'_>,
        id: &str,
        chunk: Value,
    ) -> Vec<Value> {
        let model = self.model_subject(run, place, id, None);
        let mut records = Vec::new();
        if self.open.insert(id.to_owned()) {
            records.push(model.record("on_chat_model_start", json!({"input": {}})));
        }
        records.push(model.record("on_chat_model_stream", json!({"chunk": chunk})));
        records
    }

    /// Returns the records of a message that a node returned; none if no model produced it.
    pub(crate) fn end(
        &mut self,
        run: &RunView,
        place: &EventNode<'_>,
        end: &MessageEnd<'_>,
        missing: &Missing<'_>,
    ) -> Vec<Value> {
        let id = end.message.id.as_str();
        let was_open = self.open.remove(id);
        // The log has the partial text no more, of which the client has a part.
        let has_begun = was_open || !matches!(missing, Missing::Whole);
        if !has_begun && end.usage.is_none() {
            return Vec::new();
        }
        let model = self.model_subject(run, place, id, end.usage);
        let mut records = Vec::new();
        if !has_begun {
            records.push(model.record("on_chat_model_start", json!({"input": {}})));
        }
        let known = match missing {
            Missing::Whole => Some(""),
            Missing::Rest { received } => Some(*received),
            // Clients append chunks and cannot take them back.
            Missing::Other => None,
        };
        let usage = end.usage.map(|usage| &usage.tokens);
        let chunks = known.map(|known| messages::rest_in_parts(end.message, known, usage));
        let chunk = |chunk| model.record("on_chat_model_stream", json!({"chunk": chunk}));
        records.extend(chunks.into_iter().flatten().map(chunk));
        let data = json!({"output": end.shown, "input": {}});
        records.push(model.record("on_chat_model_end", data));
        records
    }

    fn model_subject(
        &self,
        run: &RunView,
        place: &EventNode<'_>,
        message: &str,
        usage: Option<&UsageFact>,
    ) -> Subject {
        let mut subject = self.subject(run, place, MODEL);
        // Ids of messages of models are 128 bits.
        subject.id = match u128::from_str_radix(message, 16) {
            Ok(bits) if message.len() == 32 => ids::to_hyphenated(bits),
            _ => ids::derive_uuid(&format!("{}/{message}", run.at.run)),
        };
        subject.metadata.insert("ls_model_type".to_owned(), json!("chat"));
        if let Some(usage) = usage {
            subject.metadata.insert("ls_provider".to_owned(), json!(usage.provider));
            subject.metadata.insert("ls_model_name".to_owned(), json!(usage.model));
        }
        subject
    }

    fn tool_subject(&self, run: &RunView, task: Option<TaskId>, id: &str, tool: &Tool) -> Subject {
        let found = task.and_then(|id| Some((id, self.tasks.get(&id)?)));
        let metadata = found.map_or_else(|| of_run(run), |(id, task)| task.metadata(run, id));
        let task = found.map(|(id, _)| ids::to_hyphenated(id.0));
        Subject {
            name: tool.name.clone(),
            id: id.to_owned(),
            tags: Vec::new(),
            metadata,
            parents: [run.at.run.to_string()].into_iter().chain(task).collect(),
        }
    }

    /// Returns the subject of a record of a node, without an id of its own.
    fn subject(&self, run: &RunView, place: &EventNode<'_>, name: &str) -> Subject {
        let mut tasks = self.tasks.iter();
        let found = tasks.rfind(|(_, task)| task.ns == place.ns && task.name == place.node);
        let metadata = match found {
            Some((id, task)) => task.metadata(run, *id),
            None => place.metadata_of_message(run),
        };
        let id = found.map_or_else(|| run.at.run.to_string(), |(id, _)| ids::to_hyphenated(id.0));
        let task = found.map(|_| id.clone());
        Subject {
            name: name.to_owned(),
            id,
            tags: Vec::new(),
            metadata,
            parents: [run.at.run.to_string()].into_iter().chain(task).collect(),
        }
    }
}

fn graph_subject(run: &RunView) -> Subject {
    Subject {
        name: run.graph.clone(),
        id: run.at.run.to_string(),
        tags: Vec::new(),
        metadata: of_run(run),
        parents: Vec::new(),
    }
}

/// Returns the id of the records of a tool call: calls of several tasks may have the same id.
fn tool_id(run: &RunView, task: Option<TaskId>, call: &str) -> String {
    let task = task.map(|task| ids::to_hyphenated(task.0)).unwrap_or_default();
    ids::derive_uuid(&format!("{}/{task}/{call}", run.at.run))
}

/// Returns the name and the data of a value that a node emits: the members of an object that has
/// exactly `name` and `data`.
fn name_and_data(value: &Value) -> (&str, Value) {
    let members = value.as_object().filter(|members| members.len() == 2);
    let name = members.and_then(|members| members.get("name")?.as_str());
    match (name, members.and_then(|members| members.get("data"))) {
        (Some(name), Some(data)) => (name, data.clone()),
        _ => (CUSTOM, value.clone()),
    }
}
