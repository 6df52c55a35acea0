//! Text of a claim that may be dead.
//!
//! After a kill, the store has text of the dead claim until another process takes the run over,
//! which makes that text void. A client that connects meanwhile must not see it, because most front
//! ends cannot take text back. So the text of a claim of another process waits until that process
//! shows that it is alive, by an event that is newer than the connection. After a takeover by this
//! process, the text of earlier claims waits for the events of the takeover, which make it void.

use weftwork_types::Timestamp;
use weftwork_types::event::{AiEvent, RunEvent};

/// Events that wait.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// Time of the connection.
    since: Timestamp,
    /// Claim of this process. Its takeover ends the doubt.
    own: Option<u64>,
    /// `true` after that takeover. Events that make text void follow it directly.
    is_taken_over: bool,
    /// Events from the first text on.
    held: Vec<RunEvent>,
}

impl Doubt {
    /// Returns the doubt about text of a run, of which this process has the given claim, or another
    /// process the newest one.
    pub(crate) fn new(since: Timestamp, own: Option<u64>) -> Self {
        Self { since, own, is_taken_over: false, held: Vec::new() }
    }

    /// Adds an event. Returns the events that need not wait, and `true` once none has to.
    pub(crate) fn add(&mut self, event: RunEvent) -> (Vec<RunEvent>, bool) {
        let is_text = event.piece.is_some();
        match &event.event {
            AiEvent::AttemptReset(reset) => {
                let is_void =
                    |held: &RunEvent| held.piece.as_ref().is_some_and(|piece| reset.voids(piece));
                self.held.retain(|held| !is_void(held));
                self.held.push(event);
            }
            AiEvent::TakenOver { claim } => {
                self.is_taken_over = self.own == Some(*claim);
                self.held.push(event);
            }
            last if self.is_taken_over
                || matches!(last, AiEvent::Done { .. })
                || event.at.is_some_and(|at| at > self.since) =>
            {
                self.held.push(event);
                return (std::mem::take(&mut self.held), true);
            }
            _ if is_text || !self.held.is_empty() => self.held.push(event),
            _ => return (vec![event], false),
        }
        let waits = self.held.iter().any(|held| held.piece.is_some());
        (if waits { Vec::new() } else { std::mem::take(&mut self.held) }, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::TaskId;
    use weftwork_types::event::AttemptReset;
    use weftwork_types::event::{PieceAt, Position};

    fn piece(node: &str, at: i64) -> RunEvent {
        let piece = Some(PieceAt::new(Position::in_text(1, 1), node, TaskId(1)));
        let event = AiEvent::TextDelta { delta: "a".to_owned() };
        RunEvent { seq: None, piece, at: Some(Timestamp(at)), event }
    }

    fn logged(event: AiEvent) -> RunEvent {
        RunEvent::durable(1, Timestamp(9), event)
    }

    #[test]
    fn text_of_a_dead_claim_is_not_shown() {
        let mut doubt = Doubt::new(Timestamp(10), None);
        let first = logged(AiEvent::RunStarted { graph: "g".to_owned(), continues: None });
        assert_eq!(doubt.add(first.clone()), (vec![first], false));
        assert_eq!(doubt.add(piece("model", 8)), (vec![], false));
        let taken = logged(AiEvent::TakenOver { claim: 2 });
        assert_eq!(doubt.add(taken.clone()), (vec![], false));
        let reset = logged(AiEvent::AttemptReset(AttemptReset::of_node("model")));
        assert_eq!(doubt.add(reset.clone()), (vec![taken, reset], false));
        let next = piece("model", 12);
        assert_eq!(doubt.add(next.clone()), (vec![next], true));
    }

    #[test]
    fn text_of_a_living_claim_is_shown_in_order() {
        let mut doubt = Doubt::new(Timestamp(10), None);
        let first = piece("model", 8);
        assert_eq!(doubt.add(first.clone()), (vec![], false));
        let second = piece("model", 11);
        assert_eq!(doubt.add(second.clone()), (vec![first, second], true));
    }

    #[test]
    fn text_after_the_takeover_of_this_process_is_shown_at_once() {
        let mut doubt = Doubt::new(Timestamp(10), Some(3));
        for claim in [2, 3] {
            assert_eq!(doubt.add(piece("model", 8)), (vec![], false));
            let taken = logged(AiEvent::TakenOver { claim });
            assert_eq!(doubt.add(taken.clone()), (vec![], false));
            let reset = logged(AiEvent::AttemptReset(AttemptReset::of_node("model")));
            assert_eq!(doubt.add(reset.clone()), (vec![taken, reset], false));
        }
        let next = piece("model", 9);
        assert_eq!(doubt.add(next.clone()), (vec![next], true));
    }
}
