//! The updates of a run: its status and its artifacts, made from the events of the log in their order.
//!
//! Each message of the agent is an artifact, whose text comes in parts. Only messages of the outermost
//! graph are part of it: the agents that an agent asks are its own matter. The text of an attempt that
//! failed is replaced, and never continued.

use crate::content::{parts_of_content, parts_of_message};
use crate::send::AnswerForm;
use crate::wire::{self, Artifact, Part, TaskState, TaskStatus, timestamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weftwork_types::MessageId;
use weftwork_types::Timestamp;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, BegunCalls, PieceAt, RunEvent};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::TurnRun;
use weftwork_types::run::RunOutcome;

/// The subject of texts about a cancellation.
const TASK: &str = "the task";

/// A change of a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Update {
    Status(TaskStatus),
    Artifact {
        /// The artifact, or a part of it.
        artifact: Artifact,
        append: bool,
        last: bool,
        /// The complete artifact, with its last part.
        whole: Option<Artifact>,
    },
}

impl Update {
    /// Returns the status if the update ends the run.
    pub(crate) fn ends(&self) -> Option<&TaskStatus> {
        match self {
            Self::Status(status) if status.state.is_terminal() || status.state.asks() => {
                Some(status)
            }
            _ => None,
        }
    }
}

/// The text of a message that was emitted.
#[derive(Debug, Default)]
struct Emitted {
    text: String,
    /// Origin of its last part.
    at: Option<PieceAt>,
    /// `true` if its text is void: the next part replaces it.
    is_void: bool,
    is_final: bool,
}

/// Reads the events of a run.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: String,
    context: String,
    task: String,
    messages: BTreeMap<MessageId, Emitted>,
    /// Calls of tools without a known outcome.
    begun: BegunCalls,
    /// The last complete artifact.
    last: Option<Artifact>,
    /// Time of the last event.
    at: Timestamp,
}

impl RunReader {
    pub(crate) fn new(turn: &TurnRun, task: &str) -> Self {
        Self {
            run: turn.at.run.to_string(),
            context: turn.conversation.clone(),
            task: task.to_owned(),
            messages: BTreeMap::new(),
            begun: BegunCalls::default(),
            last: None,
            at: turn.created_at,
        }
    }

    /// The update with which the run begins.
    pub(crate) fn begin(&self) -> Update {
        Update::Status(self.status(TaskState::Working, None))
    }

    /// Reads the next event.
    pub(crate) fn read(&mut self, event: &RunEvent) -> Vec<Update> {
        self.begun.read(event);
        if let (Some(_), Some(at)) = (event.seq, event.at) {
            self.at = at;
        }
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(at)) => self.piece(at, delta).into_iter().collect(),
            (AiEvent::AttemptReset(reset), _) => {
                self.make_void(|at| reset.voids(at));
                Vec::new()
            }
            (AiEvent::TakenOver { .. } | AiEvent::Requeued { .. }, _) => {
                self.make_void(|_| true);
                Vec::new()
            }
            (AiEvent::MessageFinal { message }, _) => self.finish(message).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Reads the outcome, after all events. `ended` is the time at which the run ended.
    pub(crate) fn end(mut self, outcome: &RunOutcome, ended: Option<Timestamp>) -> Vec<Update> {
        self.at = ended.unwrap_or(self.at);
        let mut updates: Vec<_> = match outcome {
            RunOutcome::Completed { output } => self.answer(output).into_iter().collect(),
            _ => Vec::new(),
        };
        updates.extend(self.withdraw());
        let status = match outcome {
            RunOutcome::Completed { .. } => self.status(TaskState::Completed, None),
            RunOutcome::Interrupted { questions, .. } => self.asks(questions),
            RunOutcome::Cancelled { .. } => {
                let text = self.begun.cancelled_in_progress(TASK);
                self.status(TaskState::Canceled, Some(self.message("end", vec![Part::text(text)])))
            }
            RunOutcome::Failed { fault } => self.failed(fault),
            RunOutcome::LimitReached { step_limit } => {
                let text = format!("the run reached its limit of {step_limit} supersteps");
                let message = self.message("end", vec![Part::text(text)]);
                self.status(TaskState::Failed, Some(message))
            }
        };
        updates.push(Update::Status(status));
        updates
    }

    /// The message of a task that is cancelled at these questions, if a call was begun.
    pub(crate) fn canceled_at(mut self, questions: &[Interrupt]) -> Option<wire::Message> {
        questions.iter().for_each(|question| self.begun.read_question(question));
        let has_begun = !self.begun.to_string().is_empty();
        let text = Part::text(self.begun.cancelled_at_wait(TASK));
        has_begun.then(|| self.message("end", vec![text]))
    }

    fn status(&self, state: TaskState, message: Option<wire::Message>) -> TaskStatus {
        TaskStatus { state, message, timestamp: timestamp(self.at) }
    }

    fn message(&self, name: &str, parts: Vec<Part>) -> wire::Message {
        wire::Message {
            message_id: format!("{}-{name}", self.run),
            context_id: self.context.clone(),
            task_id: self.task.clone(),
            role: wire::Role::Agent,
            parts,
            metadata: Map::new(),
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    fn failed(&self, fault: &Fault) -> TaskStatus {
        let code = Part::data(json!({"code": fault.code, "retriable": fault.retriable}));
        let parts = vec![Part::text(fault.message.as_str()), code];
        self.status(TaskState::Failed, Some(self.message("end", parts)))
    }

    /// The status of a run that ended at questions: a timer alone asks nobody.
    fn asks(&self, questions: &[Interrupt]) -> TaskStatus {
        let asking: Vec<_> = questions.iter().filter(|question| question.asks()).collect();
        let Some(first) = asking.first() else { return self.status(TaskState::Working, None) };
        let state = match asking.iter().any(|question| question.approval().is_some()) {
            true => TaskState::AuthRequired,
            false => TaskState::InputRequired,
        };
        let texts: Vec<_> = asking.iter().map(|question| question.ask.to_string()).collect();
        let mut parts = vec![Part::text(texts.join("\n\n"))];
        let is_plain =
            asking.len() == 1 && first.answer_schema.is_none() && first.approval().is_none();
        if !is_plain {
            let questions: Vec<_> = asking.iter().map(|question| shown(question)).collect();
            parts.push(Part::data(json!({"questions": questions})));
        }
        self.status(state, Some(self.message("question", parts)))
    }

    fn piece(&mut self, at: &PieceAt, delta: &str) -> Option<Update> {
        let message = at.message.as_ref().filter(|_| at.ns.is_empty() && !delta.is_empty())?;
        let emitted = self.messages.entry(message.clone()).or_default();
        if emitted.is_final {
            return None;
        }
        if std::mem::take(&mut emitted.is_void) {
            emitted.text.clear();
        }
        let append = !emitted.text.is_empty();
        emitted.text.push_str(delta);
        emitted.at = Some(at.clone());
        Some(Update::Artifact {
            artifact: artifact(message, vec![Part::text(delta)]),
            append,
            last: false,
            whole: None,
        })
    }

    fn make_void(&mut self, is_void: impl Fn(&PieceAt) -> bool) {
        for emitted in self.messages.values_mut() {
            emitted.is_void |= !emitted.is_final && emitted.at.as_ref().is_some_and(&is_void);
        }
    }

    fn finish(&mut self, message: &Message) -> Option<Update> {
        if message.role != Role::Assistant {
            return None;
        }
        let parts = parts_of_message(message);
        let emitted = self.messages.entry(message.id.clone()).or_default();
        if std::mem::replace(&mut emitted.is_final, true) || parts.is_empty() {
            return None;
        }
        let is_begun = !emitted.text.is_empty() && !emitted.is_void;
        emitted.is_void = false;
        let whole = artifact(&message.id, parts);
        self.last = Some(whole.clone());
        // A message of one text, the first part of which was emitted.
        let rest = match whole.parts.as_slice() {
            [Part { content: wire::PartContent::Text(text), .. }] if is_begun => {
                text.strip_prefix(&emitted.text).map(str::to_owned)
            }
            _ => None,
        };
        Some(match rest {
            Some(rest) => Update::Artifact {
                artifact: artifact(&message.id, vec![Part::text(rest)]),
                append: true,
                last: true,
                whole: Some(whole),
            },
            None => complete(whole),
        })
    }

    /// The content of the answer, unless the last message is the same: data, a record with its version,
    /// or the text of an agent without messages.
    fn answer(&mut self, output: &Value) -> Option<Update> {
        let answer = output.get("answer")?;
        let parts = parts_of_content(answer.get("content")?);
        let mut metadata = Map::new();
        for kind in ["deliverable", "plan"] {
            if let Some(record) = answer.pointer(&format!("/metadata/{kind}")) {
                metadata.insert(kind.to_owned(), record.clone());
            }
        }
        let is_text =
            matches!(parts.as_slice(), [Part { content: wire::PartContent::Text(_), .. }]);
        let is_emitted = is_text && metadata.is_empty() && self.last.is_some();
        if parts.is_empty() || is_emitted {
            return None;
        }
        let artifact_id = match self.last.take() {
            Some(last) => last.artifact_id,
            None => format!("{}-answer", self.run),
        };
        let title = metadata.values().find_map(|record| record.get("title")?.as_str());
        let name = title.unwrap_or_default().to_owned();
        Some(complete(Artifact { artifact_id, name, parts, metadata }))
    }

    /// Empties the artifacts whose text is void at the end.
    fn withdraw(&mut self) -> Vec<Update> {
        let void = self.messages.iter().filter(|(_, emitted)| {
            emitted.is_void && !emitted.is_final && !emitted.text.is_empty()
        });
        let empty = |(id, _): (&MessageId, _)| Update::Artifact {
            artifact: artifact(id, vec![Part::text("")]),
            append: false,
            last: true,
            whole: None,
        };
        void.map(empty).collect()
    }
}

/// The update with a complete artifact, which replaces what was emitted of it.
fn complete(whole: Artifact) -> Update {
    Update::Artifact { artifact: whole.clone(), append: false, last: true, whole: Some(whole) }
}

fn artifact(message: &MessageId, parts: Vec<Part>) -> Artifact {
    Artifact { artifact_id: message.to_string(), name: String::new(), parts, metadata: Map::new() }
}

/// A question as a client sees it.
fn shown(question: &Interrupt) -> Value {
    let mut shown = json!({"id": question.id, "text": question.ask.to_string()});
    match question.approval() {
        Some(call) => {
            shown["tool"] = json!(call.tool);
            shown["arguments"] = json!(call.args);
        }
        None => {
            if let Some(schema) = AnswerForm::of(question).schema {
                shown["schema"] = schema;
            }
        }
    }
    shown
}
