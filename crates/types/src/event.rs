//! What a run tells while it goes: one stream, from which every protocol's stream is made.

mod piece;

pub use piece::{Piece, PieceAt, PieceKind, Position};

use crate::code::Fault;
use crate::interrupt::{Ask, Interrupt};
use crate::message::Message;
use crate::run::RunStatus;
use crate::usage::UsageFact;
use crate::{InterruptId, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event of a run.
///
/// `text_delta`, `tool_call_start`, `tool_call_result`, `usage_report`, `human_input_required` and
/// `done` are the core; the others are extensions. Every run has exactly one `done`, its last
/// event, whatever fails; one that is requeued after it failed goes on to another. Where a worker
/// stops in order, its stream ends with `released` and the log goes on elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AiEvent {
    /// The run began.
    RunStarted {
        /// The graph's id.
        graph: String,
    },
    /// A worker goes on with the run, whose worker before is gone.
    TakenOver {
        /// Which claim of the run this is, from 2.
        claim: u64,
    },
    /// The worker that had the run stopped in order and put it back; another one goes on with it.
    Released {
        /// Which claim of the run was given up.
        claim: u64,
    },
    /// The run had failed and was put back; it goes on after its `done`.
    Requeued {
        /// Who put it back: the subject of the principal.
        by: String,
    },
    /// A piece of a model's answer. It is told at once, and kept only until what the node made of
    /// it is on record; the durable log has the final message.
    TextDelta {
        /// The piece.
        delta: String,
    },
    /// A piece of a model's thinking, kept as long as one of the answer.
    ReasoningDelta {
        /// The piece.
        delta: String,
    },
    /// An attempt died after it had shown something; what it showed is void.
    AttemptReset {
        /// The node whose attempt died.
        node: String,
    },
    /// A whole message was added to the thread.
    MessageFinal {
        /// The message.
        message: Message,
    },
    /// A tool call was accepted.
    ToolCallStart {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool's wire name.
        tool_name: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool call ended.
    ToolCallResult {
        /// The call.
        tool_call_id: ToolCallId,
        /// The members of the result that may be shown, or an error object.
        result: Value,
        /// Whether it failed.
        #[serde(default)]
        is_error: bool,
    },
    /// What one attempt of a model call used.
    UsageReport {
        /// The fact.
        fact: UsageFact,
    },
    /// A recorded call was used again instead of being made a second time.
    CallReused {
        /// `model` or `tool`.
        kind: String,
        /// The model or tool.
        name: String,
    },
    /// A question is open; the run ends here and an answer starts the next.
    HumanInputRequired {
        /// The question's id.
        interrupt_id: InterruptId,
        /// What is asked.
        ask: Ask,
    },
    /// A superstep was committed.
    Step {
        /// Its number within the thread.
        step: i64,
        /// The nodes that ran in it, in task order.
        nodes: Vec<String>,
    },
    /// Whatever a node chose to tell.
    Custom {
        /// What it told.
        value: Value,
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
        /// How.
        outcome: RunStatus,
    },
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
                | Self::StoreUnavailable { .. }
                | Self::StoreAvailable
        )
    }

    /// The event for an open question.
    #[must_use]
    pub fn asked(interrupt: &Interrupt) -> Self {
        Self::HumanInputRequired { interrupt_id: interrupt.id, ask: interrupt.ask.clone() }
    }
}

/// An event with its place in what the run tells.
///
/// Durable events have their number in the log, pieces of text stand between them. What neither has
/// was told by a run whose log is out of reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its place in the durable log, from 1 without gaps; `None` for pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Where a piece of text stands, and who told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<PieceAt>,
    /// The event.
    #[serde(flatten)]
    pub event: AiEvent,
}

impl RunEvent {
    /// An event of the durable log.
    #[must_use]
    pub fn durable(seq: u64, event: AiEvent) -> Self {
        Self { seq: Some(seq), piece: None, event }
    }

    /// An event that has no place.
    #[must_use]
    pub fn placeless(event: AiEvent) -> Self {
        Self { seq: None, piece: None, event }
    }

    /// How far somebody is who has seen this event and all before it.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match (&self.seq, &self.piece) {
            (Some(seq), _) => Some(Position::after(*seq)),
            (None, Some(piece)) => Some(piece.end),
            (None, None) => None,
        }
    }
}
