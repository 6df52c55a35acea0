//! Frames of a stream, and their positions.

use std::fmt;
use std::str::FromStr;
use weftwork_graph::run_loop::StreamItem;
use weftwork_types::Timestamp;
use weftwork_types::event::Position;

/// An event of a stream with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Position of the frame. A client that received it continues after it.
    pub position: FramePosition,
    /// Time of the commit of its event, or time at which partial text was emitted.
    pub at: Timestamp,
    /// Content of the frame.
    pub content: FrameContent,
}

/// Content of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameContent {
    /// An event of the stream.
    Item(StreamItem),
    /// Events of the stream that cannot be computed any more, or not for this graph.
    Dropped {
        /// Namespace of their graph; empty for the outermost graph.
        ns: String,
        /// Reason, for example that retention deleted the checkpoint.
        reason: String,
    },
}

impl Frame {
    /// Returns the event of the stream; `None` for events that were dropped.
    #[must_use]
    pub fn item(&self) -> Option<&StreamItem> {
        match &self.content {
            FrameContent::Item(item) => Some(item),
            FrameContent::Dropped { .. } => None,
        }
    }
}

/// Position of a frame: the event of the log that it is derived from, and its part of that. The
/// positions of a run sort in the order of the frames, and are the same in every process and for
/// every set of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FramePosition {
    /// Position of the event.
    pub event: Position,
    /// Part of the event, from 1; 0 is the position before the first part.
    pub part: u64,
}

/// Parts of an event that belong to one incident, and to one mode of it.
pub(super) const PARTS_OF_INCIDENT: u64 = 1 << 20;
pub(super) const PARTS_OF_MODE: u64 = 1 << 16;

/// Part in the text form of positions after partial text: it is followed by the bytes of text.
const TEXT: u64 = 1 << 52;

impl FramePosition {
    /// Position before the first frame.
    pub const START: Self = Self { event: Position::START, part: 0 };

    /// Returns the place of the part within its event: the numbers of the incident, of the mode
    /// within it, and of the frame within that, all from 0.
    #[must_use]
    pub fn place(self) -> (u64, u64, u64) {
        let part = self.part.saturating_sub(1);
        let of_incident = part % PARTS_OF_INCIDENT;
        (part / PARTS_OF_INCIDENT, of_incident / PARTS_OF_MODE, of_incident % PARTS_OF_MODE)
    }
}

/// The number of the event and its part, as in `12-3`.
impl fmt::Display for FramePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { seq, bytes } = self.event;
        let part = if bytes == 0 { self.part } else { TEXT.saturating_add(bytes) };
        write!(f, "{seq}-{part}")
    }
}

/// Error of a text that is no position of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPosition {
    /// The text.
    pub found: String,
}

impl fmt::Display for NoPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.found;
        write!(
            f,
            "`{found}` is no position of a frame; expected the one of a frame, such as `12-3`"
        )
    }
}

impl std::error::Error for NoPosition {}

impl FromStr for FramePosition {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let digits = |text: &str| -> Option<u64> {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let numbers =
            text.split_once('-').and_then(|(seq, part)| Some((digits(seq)?, digits(part)?)));
        let (seq, part) = numbers.ok_or_else(|| NoPosition { found: text.to_owned() })?;
        let (bytes, part) = if part > TEXT { (part - TEXT, 1) } else { (0, part) };
        Ok(Self { event: Position { seq, bytes }, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, bytes: u64, part: u64) -> FramePosition {
        FramePosition { event: Position { seq, bytes }, part }
    }

    #[test]
    fn positions_sort_and_survive_as_text() {
        let all =
            [at(0, 0, 0), at(1, 0, 1), at(1, 0, 1 << 40), at(1, 7, 1), at(1, 9, 1), at(2, 0, 1)];
        assert!(all.is_sorted());
        for position in all {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        assert_eq!(at(12, 0, 3).to_string(), "12-3");
        assert_eq!(at(12, 0, 1).place(), (0, 0, 0));
        assert_eq!(at(12, 0, (2 << 20) + (3 << 16) + 5).place(), (2, 3, 4));
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in ["", "1", "1-", "-1", "1-2-3", "+1-2", "a-b", "99999999999999999999-1"] {
            assert!(text.parse::<FramePosition>().is_err(), "{text}");
        }
    }
}
