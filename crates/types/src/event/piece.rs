//! Partial text, emitted between two durable events.

use super::{AiEvent, Position, RunEvent};
use crate::{MessageId, TaskId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};

/// Position and origin of partial text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PieceAt {
    /// Position after the text.
    pub end: Position,
    /// Node that emitted the text.
    pub node: String,
    /// Task of the node. It distinguishes tasks that emit text at the same time.
    pub task: TaskId,
    /// Namespace of the graph that emitted the text; empty for the outermost graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ns: String,
    /// Superstep of that graph; 0 in pieces of earlier versions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub step: i64,
    /// Message that the text is part of, if its source names one. The final message has the same
    /// id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

impl PieceAt {
    /// Creates the position of a text of the outermost graph that is part of no message.
    #[must_use]
    pub fn new(end: Position, node: impl Into<String>, task: TaskId) -> Self {
        Self { end, node: node.into(), task, ns: String::new(), step: 0, message: None }
    }

    /// Returns `true` for a text of a task, or of a task of a subgraph that it runs.
    #[must_use]
    pub fn is_of_task(&self, task: TaskId) -> bool {
        let id = task.to_string();
        let runs = |part: &str| part.rsplit_once(':').is_some_and(|(_, of)| of == id);
        self.task == task || self.ns.split('|').any(runs)
    }

    /// Returns `true` for texts of the same message and task, or of the same task and no message.
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        self.task == other.task && self.message == other.message && self.node == other.node
    }
}

/// The kind of output that a text is part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// An answer.
    Text,
    /// The reasoning before an answer.
    Reasoning,
    /// The arguments of a tool call.
    ToolCall(ToolCallPart),
}

/// Tool call that a part of its arguments belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallPart {
    /// Id of the call.
    pub tool_call_id: ToolCallId,
    /// Wire name of the tool.
    pub tool_name: String,
    /// Position of the call in the message, from 0.
    pub index: usize,
}

/// Consecutive partial text of one node. Several deltas may be merged into one piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Position and origin.
    pub at: PieceAt,
    /// Time at which the first part of it was emitted; 0 in pieces of earlier versions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub told_at: Timestamp,
    /// Kind of output.
    pub kind: PieceKind,
    /// The text.
    pub text: String,
}

impl Piece {
    /// Appends a text that directly follows this one, with the same origin and kind. Returns `false`
    /// for any other text, which is a piece of its own.
    pub fn extend(&mut self, at: &PieceAt, kind: &PieceKind, text: &str) -> bool {
        let continues = self.kind == *kind
            && self.at.has_origin_of(at)
            && self.at.end.plus(text.len()) == at.end;
        if continues {
            self.text.push_str(text);
            self.at.end = at.end;
        }
        continues
    }

    /// Returns the position before the text.
    #[must_use]
    pub fn start(&self) -> Position {
        let end = self.at.end;
        Position { bytes: end.bytes.saturating_sub(self.text.len() as u64), ..end }
    }

    /// Returns the part of the text after a position, or `None` if there is none. A position inside
    /// a character is rounded down to the start of the character.
    #[must_use]
    pub fn rest(mut self, after: Position) -> Option<Self> {
        let start = self.start();
        if self.at.end <= after {
            return None;
        }
        if start < after {
            let seen = usize::try_from(after.bytes - start.bytes).unwrap_or(usize::MAX);
            self.text.drain(..self.text.floor_char_boundary(seen));
        }
        Some(self)
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<Piece> for RunEvent {
    fn from(Piece { at, told_at, kind, text: delta }: Piece) -> Self {
        let event = match kind {
            PieceKind::Text => AiEvent::TextDelta { delta },
            PieceKind::Reasoning => AiEvent::ReasoningDelta { delta },
            PieceKind::ToolCall(call) => AiEvent::ToolCallDelta { call, delta },
        };
        Self { seq: None, piece: Some(at), at: Some(told_at), event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seq: u64, bytes: u64, text: &str) -> Piece {
        let end = Position::in_text(seq, bytes);
        let at = PieceAt::new(end, "a", TaskId(1));
        Piece { at, told_at: Timestamp(5), kind: PieceKind::Text, text: text.to_owned() }
    }

    #[test]
    fn the_rest_of_a_piece_is_what_was_not_seen() {
        let rest =
            |seq, bytes| piece(3, 9, "aüzk").rest(Position::in_text(seq, bytes)).map(|p| p.text);
        assert_eq!(piece(3, 9, "aüzk").start(), Position::in_text(3, 4));
        for (seq, bytes, expected) in [
            (2, 99, Some("aüzk")),
            (3, 0, Some("aüzk")),
            (3, 4, Some("aüzk")),
            (3, 5, Some("üzk")),
            (3, 6, Some("üzk")),
            (3, 8, Some("k")),
            (3, 9, None),
            (4, 0, None),
        ] {
            assert_eq!(rest(seq, bytes).as_deref(), expected, "after {seq}, {bytes}");
        }
    }

    #[test]
    fn a_piece_is_told_with_its_place() {
        let told = RunEvent::from(piece(3, 9, "aüzk"));
        assert_eq!(told.position(), Some(Position::in_text(3, 9)));
        let json = serde_json::to_string(&told).expect("json");
        let task = TaskId(1);
        let expected = format!(
            r#"{{"piece":{{"end":{{"seq":3,"bytes":9}},"node":"a","task":"{task}"}},"at":5,"type":"text_delta","delta":"aüzk"}}"#
        );
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<RunEvent>(&json).expect("reads"), told);
        let done = RunEvent::durable(7, Timestamp(9), AiEvent::Released { claim: 1 });
        assert_eq!(done.position(), Some(Position::after(7)));
    }
}
