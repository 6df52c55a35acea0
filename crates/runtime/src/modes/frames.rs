//! Frames of one event.

use super::frame::{Frame, FrameContent};
use super::incident::Incident;
use super::messages::{EventMessages, OfMessage, PartialText};
use super::progress::Progress;
use super::{checkpoints, custom, debug, tasks, updates, values};
use std::fmt::Write;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Modes, StateForm, StoredStep, StreamEvent, StreamItem};
use weftwork_types::event::{FrameAddress, Position, RunEvent};
use weftwork_types::{MessageId, Timestamp};

/// A frame and its mode; `None` for frames that replace those of all modes.
pub(super) type OfMode = (Option<Modes>, Arc<Frame>);

/// Frame of an incident in one mode; `None` if it has none.
type ModeFrame = fn(&StoredStep, &Incident) -> Option<StreamEvent>;

/// Modes whose frames follow from single incidents, in the order of these frames. Positions have the
/// number of the mode, so that new modes come last.
const PROJECTIONS: [(Modes, ModeFrame); 5] = [
    (Modes::UPDATES, updates::event),
    (Modes::VALUES, values::event),
    (Modes::CHECKPOINTS, checkpoints::event),
    (Modes::TASKS, tasks::event),
    (Modes::DEBUG, debug::event),
];

/// The frames of an event that refers to checkpoints, in order, and what a follower needs for the
/// next event. All followers share them.
#[derive(Debug)]
pub(super) struct EventFrames {
    /// Modes whose frames were computed.
    pub(super) modes: Modes,
    pub(super) frames: Vec<OfMode>,
    /// Messages that are final with this event.
    pub(super) returned: Vec<MessageId>,
    /// Progress after the event.
    pub(super) next: Arc<Progress>,
}

/// Position of a frame within its incident: the number of its mode, and its index among the frames
/// of this mode.
#[derive(Debug, Clone, Copy, Default)]
struct FrameSlot {
    slot: u64,
    index: u64,
}

/// Frames of an event as they are found.
pub(super) struct Frames<'a> {
    pub(super) modes: Modes,
    pub(super) messages: EventMessages<'a>,
    pub(super) list: FrameList,
}

/// Frames of an event, with their positions.
pub(super) struct FrameList {
    form: StateForm,
    event: Position,
    at: Timestamp,
    /// Number of incidents so far.
    incidents: u64,
    found: Vec<OfMode>,
}

impl EventFrames {
    /// Returns the approximate size of the frames, in bytes of text.
    pub(super) fn size(&self) -> usize {
        /// Counts the bytes that are written.
        struct Counter(usize);
        impl Write for Counter {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0 += text.len();
                Ok(())
            }
        }
        let mut counter = Counter(0);
        for (_, frame) in &self.frames {
            // A value that cannot be formatted is counted as far as it was.
            write!(counter, "{frame:?}").unwrap_or_default();
        }
        counter.0
    }
}

impl Frames<'_> {
    /// Adds the frames of an incident, one mode after another.
    pub(super) fn incident(&mut self, ns: &str, step: &StoredStep, incident: &Incident) {
        if self.modes.any_of(Modes::MESSAGES) {
            let messages = self.messages.events(step, incident);
            self.list.of_messages(messages);
        }
        for ((mode, event), slot) in PROJECTIONS.into_iter().zip(1..) {
            if self.modes.any_of(mode)
                && let Some(event) = event(step, incident)
            {
                self.list.push(mode, ns, FrameSlot { slot, index: 0 }, event);
            }
        }
        self.list.incidents += 1;
    }

    /// Returns the superstep that was found, and adds a frame if there is none.
    pub(super) fn found_or_dropped(
        &mut self,
        ns: &str,
        found: Result<Option<StoredStep>, RuntimeError>,
    ) -> Result<Option<StoredStep>, RuntimeError> {
        let reason = match found {
            Ok(Some(step)) => return Ok(Some(step)),
            Ok(None) => "the checkpoint is not stored any more".to_owned(),
            Err(error @ RuntimeError::UnknownNamespace { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.list.add(
            None,
            FrameSlot::default(),
            FrameContent::Dropped { ns: ns.to_owned(), reason },
        );
        self.list.incidents += 1;
        Ok(None)
    }
}

impl FrameList {
    /// Creates an empty list for an event; `None` if it has no position, because it is not in the
    /// log.
    pub(super) fn new(event: &RunEvent, form: StateForm) -> Option<Self> {
        let at = event.at.unwrap_or_default();
        let event = event.position()?;
        Some(Self { form, event, at, incidents: 0, found: Vec::new() })
    }

    /// Adds the frames of an event that refers to no checkpoint.
    pub(super) fn event(&mut self, event: &RunEvent, text: &mut PartialText) {
        self.of_messages(text.events(event));
        if let Some((mode, ns, event)) = custom::event(&event.event) {
            self.push(mode, ns, FrameSlot { slot: 1, index: 0 }, event);
        }
    }

    /// Returns the frames.
    pub(super) fn into_frames(self) -> Vec<OfMode> {
        self.found
    }

    fn of_messages(&mut self, messages: Vec<OfMessage>) {
        for ((ns, event), index) in messages.into_iter().zip(0..) {
            self.push(Modes::MESSAGES, &ns, FrameSlot { slot: 0, index }, event);
        }
    }

    fn push(&mut self, mode: Modes, ns: &str, slot: FrameSlot, event: StreamEvent) {
        let item = StreamItem { ns: namespace_parts(ns), event }.in_form(self.form);
        self.add(Some(mode), slot, FrameContent::Item(item));
    }

    fn add(&mut self, mode: Option<Modes>, slot: FrameSlot, content: FrameContent) {
        let FrameSlot { slot, index } = slot;
        let address = FrameAddress { incident: self.incidents, mode: slot, index };
        let position = self.event.frame(address);
        self.found.push((mode, Arc::new(Frame { position, at: self.at, content })));
    }
}

/// The parts of a namespace.
fn namespace_parts(ns: &str) -> Vec<String> {
    if ns.is_empty() { Vec::new() } else { ns.split('|').map(str::to_owned).collect() }
}
