//! Numbers of events.
//!
//! The number of an event, `seq`, is its position in the thread: the index of the run, the number
//! of the event in the log of the run, and the place within that. It does not depend on the
//! channels that a client selects, and it is the same in every process. A client that reconnects
//! with the last number it received continues after it. Clients read numbers as IEEE doubles, which
//! are exact up to 53 bits.

use weftwork_types::event::{FrameAddress, Position};

const PLACE_BITS: u32 = 24;
const LOG_BITS: u32 = 17;
const RUN_BITS: u32 = 12;
const INDEX_BITS: u32 = 9;
const MODE_BITS: u32 = 3;
const INCIDENT_BITS: u32 = PLACE_BITS - 1 - MODE_BITS - INDEX_BITS;
/// Bits for the events of one byte of partial text: a text causes at most four.
const TEXT_BITS: u32 = 2;
/// Bits for the events of one message of a frame.
const MESSAGE_BITS: u32 = 5;

/// Index of the event that finishes a message.
pub(crate) const MESSAGE_FINISH: u64 = (1 << MESSAGE_BITS) - 1;

/// The place of an event of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventPlace {
    /// Index of the run.
    pub(crate) run: u64,
    /// Position of the event of the log.
    pub(crate) at: Position,
    /// Incident of the event, and mode of the frame from 1; 0 for the event itself.
    pub(crate) frame: (u64, u64),
    /// Index within that.
    pub(crate) index: u64,
}

impl EventPlace {
    /// Returns the place of an event that a frame causes.
    pub(crate) fn of_frame(run: u64, position: Position, index: u64) -> Self {
        let FrameAddress { incident, mode, .. } = position.address();
        Self { run, at: position.event(), frame: (incident, mode + 1), index }
    }

    /// Returns the place of an event of a message of a frame. It is the same if other events of the
    /// message were sent before.
    pub(crate) fn of_message(run: u64, position: Position, order: u64) -> Self {
        let frame = position.address().index;
        let order = if order > MESSAGE_FINISH { u64::MAX >> 1 } else { order };
        Self::of_frame(run, position, (frame << MESSAGE_BITS).saturating_add(order))
    }

    /// Returns the number. `None` if the place exceeds a limit; its event is sent again after a
    /// reconnect, under the same id.
    pub(crate) fn number(self) -> Option<u64> {
        let Self { run, at, frame: (incident, mode), index } = self;
        let fits = |value: u64, bits: u32| (value < 1 << bits).then_some(value);
        let base = of_run(run)? + (fits(at.seq, LOG_BITS)? << PLACE_BITS);
        if at.bytes > 0 {
            let spare = (1 << TEXT_BITS) - 1;
            let bytes = fits(at.bytes, PLACE_BITS - 1 - TEXT_BITS)? << TEXT_BITS;
            return Some(base + (1 << (PLACE_BITS - 1)) + bytes - spare + fits(index, TEXT_BITS)?);
        }
        let incident = fits(incident, INCIDENT_BITS)? << (MODE_BITS + INDEX_BITS);
        Some(base + incident + (fits(mode, MODE_BITS)? << INDEX_BITS) + fits(index, INDEX_BITS)?)
    }
}

/// Returns the number before the first event of a run; `None` for a run beyond the limit.
pub(crate) fn of_run(run: u64) -> Option<u64> {
    (run < 1 << RUN_BITS).then_some(run << (LOG_BITS + PLACE_BITS))
}

/// Returns the position of the partial text of a number.
pub(crate) fn text_of(number: u64) -> Option<Position> {
    let place = number & ((1 << PLACE_BITS) - 1);
    let text = place.checked_sub(1 << (PLACE_BITS - 1))?;
    let bytes = (text + (1 << TEXT_BITS) - 1) >> TEXT_BITS;
    let seq = (number >> PLACE_BITS) & ((1 << LOG_BITS) - 1);
    Some(Position::in_text(seq, bytes))
}

/// Returns the index of the run of a number.
pub(crate) fn run_of(number: u64) -> u64 {
    number >> (LOG_BITS + PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_in_the_order_of_events_and_are_exact_in_doubles() {
        let mut all = Vec::new();
        for run in [0, 1, (1 << RUN_BITS) - 1] {
            for seq in [1, 2, (1 << LOG_BITS) - 1] {
                let event = Position::after(seq);
                let of_log = |index| EventPlace { run, at: event, frame: (0, 0), index };
                all.extend([0, 1, 2].map(of_log));
                let frame = |part| Position { part, ..event };
                for part in [1, 2] {
                    for order in [0, 1, 2, MESSAGE_FINISH] {
                        all.push(EventPlace::of_message(run, frame(part), order));
                    }
                }
                for part in [1 + (1 << 16), 1 + (5 << 16), 1 + (1 << 20), 1 + (2047 << 20)] {
                    all.extend([0, 1].map(|index| EventPlace::of_frame(run, frame(part), index)));
                }
                for bytes in [1, 2, 7, (1 << 21) - 1] {
                    let at = Position::in_text(seq, bytes);
                    all.extend([0, 1, 2, 3].map(|index| EventPlace {
                        run,
                        at,
                        frame: (0, 0),
                        index,
                    }));
                }
            }
        }
        let numbers: Vec<_> = all.iter().map(|place| place.number().expect("in limits")).collect();
        assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
        assert!(numbers.iter().all(|number| *number < 1 << 53));
        for (place, number) in all.iter().zip(numbers) {
            assert_eq!(run_of(number), place.run);
            assert_eq!(text_of(number), Some(place.at).filter(|at| at.bytes > 0));
        }
        assert_eq!(of_run(0), Some(0));
    }

    #[test]
    fn places_beyond_a_limit_have_no_number() {
        let event = Position::after(1);
        let usual = EventPlace { run: 0, at: event, frame: (0, 0), index: 0 };
        assert!(usual.number().is_some());
        let frame = |part| Position { part, ..event };
        for place in [
            EventPlace { index: 512, ..usual },
            EventPlace { run: 1 << 12, ..usual },
            EventPlace { at: Position::after(1 << 17), ..usual },
            EventPlace { at: Position::in_text(1, 1 << 21), ..usual },
            EventPlace { at: Position::in_text(1, 1), index: 4, ..usual },
            EventPlace::of_frame(0, frame(1 + (2048 << 20)), 0),
            EventPlace::of_message(0, frame(1), MESSAGE_FINISH + 1),
            EventPlace::of_message(0, frame(17), 0),
        ] {
            assert_eq!(place.number(), None, "{place:?}");
        }
    }
}
