//! The events of a thread over all its runs.

use super::encode::Encoder;
use super::event::NumberedEvent;
use super::filter::Filter;
use super::number;
use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::translate::partial::PartialMessages;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde_json::Value;
use std::collections::VecDeque;
use weftwork_graph::run_loop::Modes;
use weftwork_runtime::{FollowFrom, Output, OutputStream, RunOutput};
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{BoxStream, RunId, ThreadId};

/// The last event that a client received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Since {
    /// Its number.
    Number(u64),
    /// Its id: the run, and its name within the run.
    Id(RunId, String),
}

impl Since {
    /// Reads the number or the id of an event.
    pub(crate) fn read(value: &Value) -> Result<Self> {
        let number = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if let Some(number) = number {
            return Ok(Self::Number(number));
        }
        let id = value.as_str().and_then(|text| {
            let (run, name) = text.split_once(':')?;
            Some(Self::Id(RunId::new(run).ok()?, name.to_owned()))
        });
        id.ok_or_else(|| {
            ApiError::invalid(format!("`since` is `{value}`; expected the `seq` of an event"))
        })
    }
}

/// The begin of the events of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) from: FollowFrom,
    /// Index of the first run.
    pub(crate) run: u64,
    /// Number of the last event that the client received.
    pub(crate) after: Option<u64>,
    /// Text that it has of each message that was not finished then, as in the id of that event.
    pub(crate) received: String,
}

/// The selection of the events that a client receives, after a begin.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) filter: Filter,
    pub(crate) begin: Begin,
}

impl Selection {
    /// Returns `true` if the client receives an event.
    pub(crate) fn has(&self, NumberedEvent { event, number }: &NumberedEvent) -> bool {
        let is_known = |number: &u64| self.begin.after.is_some_and(|after| *number <= after);
        !number.as_ref().is_some_and(is_known) && self.filter.selects(event)
    }
}

/// Follows the events of a thread.
struct Tape {
    service: Service,
    output: OutputStream,
    modes: Modes,
    /// Positions at which texts are split, because a client received the part before.
    cuts: Vec<Position>,
    /// Text that the only client has of messages of its first run.
    received: PartialMessages,
    current: Option<Current>,
    /// Events that wait for the client.
    next: VecDeque<NumberedEvent>,
}

/// The run that is followed, with its encoder; `None` for a run that clients deleted.
struct Current {
    run: RunRef,
    encoder: Option<Encoder>,
}

/// Returns the events of a thread in order, including all that one of the selections has. The stream
/// ends when the server stops, or with an error.
pub(crate) fn follow_events(
    service: Service,
    thread: &ThreadId,
    from: FollowFrom,
    selections: &[Selection],
) -> BoxStream<'static, Result<NumberedEvent>> {
    let modes = selections.iter().fold(Modes::NONE, |all, of| all | of.filter.modes());
    let cuts = selections.iter().filter_map(|of| number::text_of(of.begin.after?));
    let mut cuts: Vec<_> = cuts.collect();
    cuts.sort_unstable();
    let output = service.output(thread, from, modes);
    let received = match selections {
        [one] => PartialMessages::read(&one.begin.received).unwrap_or_default(),
        // Several clients have several parts of a text.
        _ => PartialMessages::default(),
    };
    let next = VecDeque::new();
    let tape = Tape { service, output, modes, cuts, received, current: None, next };
    let events = unfold(Some(tape), async |tape| {
        let mut tape = tape?;
        match tape.event().await {
            Ok(event) => Some((Ok(event?), Some(tape))),
            Err(error) => Some((Err(error), None)),
        }
    });
    events.boxed()
}

impl Tape {
    async fn event(&mut self) -> Result<Option<NumberedEvent>> {
        loop {
            if let Some(event) = self.next.pop_front() {
                return Ok(Some(event));
            }
            let Some(output) = self.output.next().await else { return Ok(None) };
            self.read(output?).await?;
        }
    }

    async fn read(&mut self, Output { run, output, .. }: Output) -> Result<()> {
        if self.current.as_ref().is_none_or(|current| current.run != run) {
            let place = self.service.place_of(&run).await?;
            let modes = self.modes;
            let received = std::mem::take(&mut self.received);
            let encoder = place.map(|(index, graph)| {
                let mut encoder = Encoder::new(run.run.clone(), index, graph, modes);
                encoder.resume(received);
                encoder
            });
            self.current = Some(Current { run, encoder });
        }
        let Some(Current { run, encoder: Some(encoder) }) = &mut self.current else {
            return Ok(());
        };
        if ends_in_failure(&output)
            && let Some(reason) = self.service.failure(run).await?
        {
            encoder.fail(reason);
        }
        let mut rest = output;
        for at in &self.cuts {
            let (known, output) = split_text(rest, *at);
            rest = output;
            if let Some(known) = known {
                self.next.extend(encoder.output(&known));
            }
        }
        self.next.extend(encoder.output(&rest));
        Ok(())
    }
}

fn ends_in_failure(output: &RunOutput) -> bool {
    let RunOutput::Event(event) = output else { return false };
    matches!(event.event, AiEvent::Done { outcome: RunStatus::Failed | RunStatus::LimitReached })
}

/// Splits a text at a position within it; returns the part before the position, if there is one.
fn split_text(output: RunOutput, at: Position) -> (Option<RunOutput>, RunOutput) {
    let RunOutput::Event(mut event) = output else { return (None, output) };
    let RunEvent { piece, event: body, .. } = &mut *event;
    let before = piece.as_ref().and_then(|piece| {
        let (AiEvent::TextDelta { delta }
        | AiEvent::ReasoningDelta { delta }
        | AiEvent::ToolCallDelta { delta, .. }) = body
        else {
            return None;
        };
        let start = piece.end.bytes.checked_sub(delta.len() as u64)?;
        let is_within = piece.end.seq == at.seq && start < at.bytes && at.bytes < piece.end.bytes;
        let length = usize::try_from(at.bytes.checked_sub(start)?).ok().filter(|_| is_within)?;
        let known = delta.get(..length)?.to_owned();
        delta.drain(..length);
        Some(known)
    });
    let Some(known) = before else { return (None, RunOutput::Event(event)) };
    let mut before = event.clone();
    if let Some(piece) = &mut before.piece {
        piece.end = at;
    }
    match &mut before.event {
        AiEvent::TextDelta { delta }
        | AiEvent::ReasoningDelta { delta }
        | AiEvent::ToolCallDelta { delta, .. } => *delta = known,
        _ => {}
    }
    (Some(RunOutput::Event(before)), RunOutput::Event(event))
}

/// Returns the begin of the events after the last event that a client received, among runs with these
/// ids; `None` if the event is of none of these runs.
pub(crate) fn begin_after(since: &Since, runs: &[RunId]) -> Option<Begin> {
    let (index, number) = match since {
        Since::Number(number) => (usize::try_from(number::run_of(*number)).ok()?, Some(*number)),
        Since::Id(run, name) => {
            let index = runs.iter().position(|known| known == run)?;
            let place = super::encode::read_name(name, index as u64);
            (index, place.map_or_else(|| number::of_run(index as u64), |at| at.number()))
        }
    };
    let run = runs.get(index)?.clone();
    // The run is read from its first event on, which its encoder needs.
    let from = FollowFrom::in_run(run, Position::START);
    Some(Begin { from, run: index as u64, after: number, received: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_found_by_number_and_by_id() {
        let runs = ["r0", "r1"].map(|run| RunId::new(run).expect("valid"));
        let find = |since: Value| begin_after(&Since::read(&since).expect("valid"), &runs);
        let of = |begin: Option<Begin>| {
            begin.map(|begin| match begin.from {
                FollowFrom::After(at) => (at.run.expect("of a run").to_string(), begin.after),
                other => panic!("{other:?}"),
            })
        };
        let first = number::of_run(1).expect("in limits");
        assert_eq!(of(find(json!(0))), Some(("r0".to_owned(), Some(0))));
        assert_eq!(of(find(json!(first + 5))), Some(("r1".to_owned(), Some(first + 5))));
        assert_eq!(of(find(json!((first + 5).to_string()))), of(find(json!(first + 5))));
        assert_eq!(find(json!(first * 2)), None, "there is no third run");
        let by_id = |name: &str| of(find(json!(name))).and_then(|found| found.1);
        assert_eq!(by_id("r1:3.1"), Some(first + (3 << 24) + 1));
        assert_eq!(by_id("r0:3.2.1.4"), Some((3 << 24) + (2 << 12) + (1 << 9) + 4));
        assert_eq!(by_id("r0:3+2.3"), Some((3 << 24) + (1 << 23) + 8));
        assert_eq!(by_id("r1:message/start"), Some(first), "the run is sent again");
        assert_eq!(find(json!("r9:3.1")), None);
        for bad in [json!(-1), json!({}), json!("x"), json!(null)] {
            assert!(Since::read(&bad).is_err(), "{bad}");
        }
    }
}
