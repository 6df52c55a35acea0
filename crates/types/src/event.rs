//! Events of a run: the one stream from which every protocol's stream is derived.

mod begun_calls;
mod checkpoint;
mod piece;
mod position;
mod received;
mod stored;
mod stream_position;
mod text_reader;
mod transcript;

pub use begun_calls::BegunCalls;
pub use checkpoint::{
    CheckpointSource, CheckpointStored, OutsideWrites, TaskDue, TaskEnd, TaskStatus,
};
pub use piece::{Piece, PieceAt, PieceKind, ToolCallPart};
pub use position::{FrameAddress, NoPosition, Position};
pub use received::{MissingText, ReceivedText};
pub use stored::{FromStored, StoredForm};
pub use stream_position::{NoStreamPosition, ReceivedTexts, StreamPosition};
pub use text_reader::{ReadText, TextChange, TextPart, TextReader};
pub use transcript::{MessageText, OpenText, TextSource, Transcript};

use crate::code::Fault;
use crate::interrupt::{Ask, Interrupt};
use crate::message::Message;
use crate::run::RunStatus;
use crate::shown::show;
use crate::usage::UsageFact;
use crate::{CheckpointId, InterruptId, MessageId, RunId, TaskId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event of a run.
///
/// `text_delta`, `tool_call_start`, `tool_call_result`, `usage_report`, `human_input_required` and
/// `done` are the core events; the others are extensions. Every run has exactly one `done`, its
/// last event, whatever fails. A failed run that is requeued continues after its `done` and ends
/// with another one. If a worker shuts down gracefully, its stream ends with `released` and the log
/// continues on another worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AiEvent {
    /// The run started.
    RunStarted {
        /// The graph's id.
        graph: String,
        /// Run of the thread that this one continues: it answers its questions, or goes on where it
        /// stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<RunId>,
    },
    /// A worker continues the run of a dead worker.
    TakenOver {
        /// Number of the claim, from 2.
        claim: u64,
    },
    /// The worker of the run shut down gracefully and requeued it; another worker continues it.
    Released {
        /// Number of the claim that was released.
        claim: u64,
    },
    /// The run had failed and was requeued. Its log continues after the `done`.
    Requeued {
        /// Subject of the principal that requeued it.
        by: String,
    },
    /// Partial text of a model's answer. It is emitted immediately and stored only until the result
    /// of the node is recorded. The durable log has the final message.
    TextDelta {
        /// The partial text.
        delta: String,
    },
    /// Partial text of a model's reasoning, stored as long as partial text of the answer.
    ReasoningDelta {
        /// The partial text.
        delta: String,
    },
    /// A part of the arguments of a tool call that a model is producing, stored as long as partial
    /// text of the answer.
    ToolCallDelta {
        /// The call.
        #[serde(flatten)]
        call: ToolCallPart,
        /// The part of the arguments' JSON text.
        delta: String,
    },
    /// An attempt failed after it had emitted partial text, which is void now.
    AttemptReset(AttemptReset),
    /// A complete message was added to the thread.
    MessageFinal {
        /// The message.
        message: Message,
    },
    /// Text of an answer that was being produced when the run was stopped. No message and no state
    /// has it.
    TextStopped {
        /// Origin of the text.
        at: PieceAt,
        /// The text.
        text: String,
    },
    /// A tool call was accepted.
    ToolCallStart {
        /// Id of the call.
        tool_call_id: ToolCallId,
        /// Wire name of the tool.
        tool_name: String,
        /// Arguments of the call.
        args: Value,
        /// `false` if the call takes nothing from the budget, because no tool runs for it: it was
        /// refused, or a person answers it.
        #[serde(default = "charged", skip_serializing_if = "Clone::clone")]
        charged: bool,
        /// Task that makes the call, by which calls of several members with one id differ; `None` in
        /// events of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        /// Namespace of the graph of the task; empty for the outermost graph.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ns: String,
    },
    /// A tool call ended.
    ToolCallResult {
        /// Id of the call.
        tool_call_id: ToolCallId,
        /// The members of the result that may be shown, or an error object.
        result: Value,
        /// `true` if the call failed.
        #[serde(default)]
        is_error: bool,
        /// Task that made the call, as at its start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// Usage of one attempt of a model call.
    UsageReport {
        /// The usage fact.
        fact: UsageFact,
        /// Message that the attempt produced or would have produced; `None` in events of older
        /// programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Reason for which the answer ended, such as `stop` or `tool_calls`; `None` without an answer,
        /// and in events of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish: Option<String>,
        /// Task that made the call; `None` in events of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// A recorded call was reused instead of being repeated.
    CallReused {
        /// `model` or `tool`.
        kind: String,
        /// Name of the model or tool.
        name: String,
    },
    /// A question is open. The run ends here, and an answer starts the next run.
    HumanInputRequired {
        /// Id of the question.
        interrupt_id: InterruptId,
        /// Content of the question.
        ask: Ask,
        /// Name of the subgraph whose node asked, such as the member of a team; absent if it is a
        /// node of the outermost graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        graph: Option<String>,
    },
    /// A checkpoint of one of the run's graphs was stored.
    Checkpoint(Box<CheckpointStored>),
    /// Tasks of a superstep that was open before the run are due in it, for example after a
    /// question was answered or a worker died.
    TasksStarted {
        /// Namespace of their graph; empty for the outermost graph.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ns: String,
        /// Checkpoint that the superstep starts from.
        checkpoint: CheckpointId,
        /// The tasks, those included that had finished before.
        tasks: Vec<TaskDue>,
        /// Part of the writes stored with the checkpoint that applies to its state in this run.
        #[serde(default, skip_serializing_if = "OutsideWrites::is_none")]
        outside: OutsideWrites,
    },
    /// Tasks ended, and no checkpoint closes their superstep yet: others of it still run, or the
    /// run stops at a question or a failure. The checkpoint that closes it reports them again.
    TasksEnded {
        /// Namespace of their graph; empty for the outermost graph.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ns: String,
        /// Checkpoint that the superstep starts from.
        checkpoint: CheckpointId,
        /// The tasks.
        ended: Vec<TaskEnd>,
    },
    /// A superstep of the outermost graph was committed. Only in logs of earlier versions, which
    /// have no [`Checkpoint`](Self::Checkpoint).
    Step {
        /// Number of the superstep within the thread.
        step: i64,
        /// Nodes that ran in the superstep, in task order.
        nodes: Vec<String>,
    },
    /// A value that a node or a tool emitted.
    Custom {
        /// Namespace of the graph that emitted it; empty for the outermost graph.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ns: String,
        /// The node; empty in logs of earlier versions.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        node: String,
        /// Tool call whose tool reports its progress; `None` for a value of the node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
        /// The value.
        value: Value,
    },
    /// A frame of the stream of a run on another server, which a node of this run started.
    RemoteFrame {
        /// Namespace of the graph it is about: that of the task, followed by its namespace there.
        ns: String,
        /// Stream mode: `values`, `updates` or `custom`.
        mode: String,
        /// Data of the frame in the form of that server.
        data: Value,
    },
    /// The run pauses: its store accepts no writes for now. Not in the log.
    StoreUnavailable {
        /// Reason, with its code: `W0207` for a store that is full.
        fault: Fault,
    },
    /// The store accepts writes again, and the run continues. Not in the log.
    StoreAvailable,
    /// The run ended.
    Done {
        /// Final status.
        outcome: RunStatus,
    },
}

/// The partial text of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<'a> {
    /// Kind of output.
    pub kind: PieceKind,
    /// The text.
    pub text: &'a str,
}

/// The end of an attempt whose partial text is void.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptReset {
    /// Node whose attempt failed.
    pub node: String,
    /// Namespace of the graph of the node; empty for the outermost graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ns: String,
    /// Task of the node; `None` in logs of earlier versions, where the text of all nodes of this name
    /// is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Message whose text is void; `None` if all text of the task is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

impl AttemptReset {
    /// Creates the reset of a node, as a model or a node reports it. Its run adds the task.
    #[must_use]
    pub fn of_node(node: impl Into<String>) -> Self {
        Self { node: node.into(), ns: String::new(), task: None, message: None }
    }

    /// Creates the reset of the task that emitted a text.
    #[must_use]
    pub fn of_task(at: &PieceAt) -> Self {
        Self { node: at.node.clone(), ns: at.ns.clone(), task: Some(at.task), message: None }
    }

    /// Returns `true` if a text is void: of the task or of tasks of subgraphs that it runs, and of
    /// the message if the reset names one.
    #[must_use]
    pub fn voids(&self, at: &PieceAt) -> bool {
        let Some(task) = self.task else { return at.node == self.node };
        at.is_of_task(task)
            && self.message.as_ref().is_none_or(|void| at.message.as_ref() == Some(void))
    }
}

fn charged() -> bool {
    true
}

impl AiEvent {
    /// Returns `true` if the durable log stores this event. It stores neither partial text nor
    /// the state of the store.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !matches!(
            self,
            Self::TextDelta { .. }
                | Self::ReasoningDelta { .. }
                | Self::ToolCallDelta { .. }
                | Self::StoreUnavailable { .. }
                | Self::StoreAvailable
        )
    }

    /// Returns the partial text of the event; `None` for other events.
    #[must_use]
    pub fn delta(&self) -> Option<Delta<'_>> {
        match self {
            Self::TextDelta { delta: text } => Some(Delta { kind: PieceKind::Text, text }),
            Self::ReasoningDelta { delta: text } => {
                Some(Delta { kind: PieceKind::Reasoning, text })
            }
            Self::ToolCallDelta { call, delta: text } => {
                Some(Delta { kind: PieceKind::ToolCall(call.clone()), text })
            }
            _ => None,
        }
    }

    /// Creates the event for a value that no node emitted.
    #[must_use]
    pub fn custom(value: Value) -> Self {
        Self::Custom { ns: String::new(), node: String::new(), tool_call_id: None, value }
    }

    /// Creates the event for the progress of a tool.
    #[must_use]
    pub fn progress(tool_call_id: ToolCallId, value: Value) -> Self {
        let tool_call_id = Some(tool_call_id);
        Self::Custom { ns: String::new(), node: String::new(), tool_call_id, value }
    }

    /// Returns the number of the superstep of the outermost graph whose commit the event reports.
    #[must_use]
    pub fn step(&self) -> Option<i64> {
        match self {
            Self::Step { step, .. } => Some(*step),
            Self::Checkpoint(stored) if stored.is_step() => Some(stored.step),
            _ => None,
        }
    }

    /// Returns the nodes that ran in that superstep, in task order.
    #[must_use]
    pub fn step_nodes(&self) -> Vec<&str> {
        match self {
            Self::Step { nodes, .. } => nodes.iter().map(String::as_str).collect(),
            Self::Checkpoint(stored) if stored.is_step() => {
                stored.ended.iter().map(|end| end.node.as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns `true` if the event reports that a superstep of the outermost graph was committed.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.step().is_some()
    }

    /// Returns the event with the shown form of results of tools. Every event that is stored or
    /// delivered has this form.
    #[must_use]
    pub fn into_shown(self) -> Self {
        match self {
            Self::MessageFinal { message } => Self::MessageFinal { message: message.into_shown() },
            Self::Custom { ns, node, tool_call_id, mut value } => {
                show(&mut value);
                Self::Custom { ns, node, tool_call_id, value }
            }
            Self::RemoteFrame { ns, mode, mut data } => {
                show(&mut data);
                Self::RemoteFrame { ns, mode, data }
            }
            Self::HumanInputRequired { interrupt_id, ask, graph } => {
                Self::HumanInputRequired { interrupt_id, ask: ask.into_shown(), graph }
            }
            other => other,
        }
    }

    /// Creates the event for an open question, in its shown form.
    #[must_use]
    pub fn asked(interrupt: &Interrupt) -> Self {
        Self::HumanInputRequired {
            interrupt_id: interrupt.id,
            ask: interrupt.ask.clone().into_shown(),
            graph: interrupt.graph.clone(),
        }
    }
}

/// An event with its position in the run.
///
/// Durable events have a number in the log; partial text has a position between them. An event with
/// neither was emitted by a run whose log is not accessible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEvent {
    /// Number in the durable log, from 1 without gaps; `None` for partial text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Position and origin of partial text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<PieceAt>,
    /// Time of the commit of a durable event, or time at which partial text was emitted; `None` for
    /// events without a position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The event.
    #[serde(flatten)]
    pub event: AiEvent,
}

impl RunEvent {
    /// Creates an event of the durable log.
    #[must_use]
    pub fn durable(seq: u64, at: Timestamp, event: AiEvent) -> Self {
        Self { seq: Some(seq), piece: None, at: Some(at), event }
    }

    /// Creates an event without a position.
    #[must_use]
    pub fn placeless(event: AiEvent) -> Self {
        Self { seq: None, piece: None, at: None, event }
    }

    /// Returns the position of a reader that has seen this event and all events before it.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match (&self.seq, &self.piece) {
            (Some(seq), _) => Some(Position::after(*seq)),
            (None, Some(piece)) => Some(piece.end),
            (None, None) => None,
        }
    }

    /// Returns the event for a reader at a position: of partial text, the part after it. `None` if
    /// nothing follows the position. A position inside a character is rounded down to its start.
    #[must_use]
    pub fn rest(mut self, after: Position) -> Option<Self> {
        let Some(at) = &self.piece else { return Some(self) };
        let text = match &mut self.event {
            AiEvent::TextDelta { delta }
            | AiEvent::ReasoningDelta { delta }
            | AiEvent::ToolCallDelta { delta, .. } => delta,
            _ => return Some(self),
        };
        let length = text.len() as u64;
        if at.end.seq == after.seq && !text.is_empty() {
            let unread = at.end.bytes.saturating_sub(after.bytes).min(length);
            if unread == 0 {
                return None;
            }
            let read = usize::try_from(length - unread).unwrap_or(usize::MAX);
            text.drain(..text.floor_char_boundary(read));
        }
        Some(self)
    }
}
