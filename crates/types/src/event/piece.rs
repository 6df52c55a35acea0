//! Pieces of text: what is told between two durable events.

use super::{AiEvent, RunEvent};
use crate::TaskId;
use serde::{Deserialize, Serialize};

/// How far somebody is in what a run tells. Positions of one run sort by what was told first; they
/// are the same whether it was seen live or in the store, in this process or in another one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The last durable event that was seen; 0 when there was none.
    pub seq: u64,
    /// How many bytes of text were seen since then.
    #[serde(default)]
    pub bytes: u64,
}

impl Position {
    /// Before everything.
    pub const START: Self = Self { seq: 0, bytes: 0 };
    /// After everything.
    pub const END: Self = Self { seq: u64::MAX, bytes: u64::MAX };

    /// After a durable event, and before any text that was told since.
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Self { seq, bytes: 0 }
    }

    /// So many bytes of text further.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        Self { seq: self.seq, bytes: self.bytes.saturating_add(bytes as u64) }
    }
}

/// Where a piece stands, and who told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceAt {
    /// The position after it.
    pub end: Position,
    /// The node.
    pub node: String,
    /// Its task, by which several that speak at the same time are told apart.
    pub task: TaskId,
}

/// What a piece is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// An answer.
    Text,
    /// The thinking before it.
    Reasoning,
}

/// Text that a node told in a row; what came as several deltas may be one piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Where it stands.
    pub at: PieceAt,
    /// What it is part of.
    pub kind: PieceKind,
    /// The text.
    pub text: String,
}

impl Piece {
    /// The position before it.
    #[must_use]
    pub fn start(&self) -> Position {
        let Position { seq, bytes } = self.at.end;
        Position { seq, bytes: bytes.saturating_sub(self.text.len() as u64) }
    }

    /// What of it comes after a position, if anything does. A position within a character is taken
    /// for the one before it.
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

impl From<Piece> for RunEvent {
    fn from(Piece { at, kind, text: delta }: Piece) -> Self {
        let event = match kind {
            PieceKind::Text => AiEvent::TextDelta { delta },
            PieceKind::Reasoning => AiEvent::ReasoningDelta { delta },
        };
        Self { seq: None, piece: Some(at), event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seq: u64, bytes: u64, text: &str) -> Piece {
        let end = Position { seq, bytes };
        let at = PieceAt { end, node: "a".to_owned(), task: TaskId(1) };
        Piece { at, kind: PieceKind::Text, text: text.to_owned() }
    }

    #[test]
    fn the_rest_of_a_piece_is_what_was_not_seen() {
        let rest = |seq, bytes| piece(3, 9, "aüzk").rest(Position { seq, bytes }).map(|p| p.text);
        assert_eq!(piece(3, 9, "aüzk").start(), Position { seq: 3, bytes: 4 });
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
        assert_eq!(told.position(), Some(Position { seq: 3, bytes: 9 }));
        let json = serde_json::to_string(&told).expect("json");
        let task = TaskId(1);
        let expected = format!(
            r#"{{"piece":{{"end":{{"seq":3,"bytes":9}},"node":"a","task":"{task}"}},"type":"text_delta","delta":"aüzk"}}"#
        );
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<RunEvent>(&json).expect("reads"), told);
        let done = RunEvent::durable(7, AiEvent::Released { claim: 1 });
        assert_eq!(done.position(), Some(Position::after(7)));
    }
}
