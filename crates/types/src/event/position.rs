//! Positions in the output of a run.

use super::piece::is_default;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A position in the output of a run. Positions of one run sort in the order of emission. They are
/// the same in a live stream and in the store, and in every process.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Number of the last durable event that was read; 0 if there was none.
    pub seq: u64,
    /// Bytes of partial text read since that event.
    #[serde(default)]
    pub bytes: u64,
    /// Part of the event that a frame is derived from, from 1; 0 is the event itself, which precedes
    /// its frames. Positions of events and of partial text have no part.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub part: u64,
}

/// Address of a frame within the event that it is derived from. Numbers are from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAddress {
    /// Number of the incident within the event.
    pub incident: u64,
    /// Number of the mode within the incident.
    pub mode: u64,
    /// Number of the frame within the mode.
    pub index: u64,
}

/// Parts of an event that belong to one incident, and to one mode of it.
const PARTS_OF_INCIDENT: u64 = 1 << 20;
const PARTS_OF_MODE: u64 = 1 << 16;

/// Part in the text form of positions after partial text: it is followed by the bytes of text.
const TEXT: u64 = 1 << 52;

impl Position {
    /// Position before the first event.
    pub const START: Self = Self { seq: 0, bytes: 0, part: 0 };
    /// Position after the last event.
    pub const END: Self = Self { seq: u64::MAX, bytes: u64::MAX, part: u64::MAX };

    /// Returns the position directly after a durable event, before any partial text that follows
    /// it.
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Self::in_text(seq, 0)
    }

    /// Returns the position after some bytes of the partial text that follows a durable event.
    #[must_use]
    pub fn in_text(seq: u64, bytes: u64) -> Self {
        Self { seq, bytes, part: 0 }
    }

    /// Returns the position `bytes` bytes of text later.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes as u64), ..self }
    }

    /// Returns the position of the event that a frame is derived from.
    #[must_use]
    pub fn event(self) -> Self {
        Self { part: 0, ..self }
    }

    /// Returns the position after all frames of the event.
    #[must_use]
    pub fn after_frames(self) -> Self {
        Self { part: u64::MAX, ..self }
    }

    /// Returns the position of a frame of the event.
    #[must_use]
    pub fn frame(self, address: FrameAddress) -> Self {
        let FrameAddress { incident, mode, index } = address;
        let index = index.min(PARTS_OF_MODE - 2);
        Self { part: incident * PARTS_OF_INCIDENT + mode * PARTS_OF_MODE + index + 1, ..self }
    }

    /// Returns the address of a frame within its event, as in [`frame`](Self::frame).
    #[must_use]
    pub fn address(self) -> FrameAddress {
        let part = self.part.saturating_sub(1);
        let of_incident = part % PARTS_OF_INCIDENT;
        FrameAddress {
            incident: part / PARTS_OF_INCIDENT,
            mode: of_incident / PARTS_OF_MODE,
            index: of_incident % PARTS_OF_MODE,
        }
    }
}

/// The number of the event and its part, as in `12-3`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, bytes, part } = *self;
        let part = if bytes == 0 { part } else { TEXT.saturating_add(bytes) };
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

impl FromStr for Position {
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
        Ok(Self { seq, bytes, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, bytes: u64, part: u64) -> Position {
        Position { seq, bytes, part }
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
        let first = FrameAddress { incident: 0, mode: 0, index: 0 };
        assert_eq!(at(12, 0, 1).address(), first);
        let later = FrameAddress { incident: 2, mode: 3, index: 4 };
        assert_eq!(at(12, 0, (2 << 20) + (3 << 16) + 5).address(), later);
        assert_eq!(at(12, 0, 0).frame(later), at(12, 0, (2 << 20) + (3 << 16) + 5));
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in ["", "1", "1-", "-1", "1-2-3", "+1-2", "a-b", "99999999999999999999-1"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
