//! The projection of a run: it turns the events of its log into the frames of its streams, once for
//! all followers of the run in this process.
//!
//! Each follower reads the log by itself, and asks the projection for the frames of an event. The
//! frames of the newest events are retained while several followers exist, so that the first one
//! that reads an event computes its frames, and the others receive them. A follower that lags by
//! more computes the frames it needs.

use super::frames::{EventFrames, FrameList, Frames};
use super::messages::{EventMessages, KnownMessages};
use super::progress::Progress;
use super::reader::{EventReader, Source};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Modes, StateForm};
use weftwork_types::event::RunEvent;
use weftwork_types::{OrgId, RunId};

/// Maximum size of the retained frames of a run, in bytes of text. The frames of the newest event
/// are retained if they are larger.
const RETAINED_BYTES_MAX: usize = 256 << 10;

/// The projections of the runs that are followed in this process.
#[derive(Debug, Default)]
pub(crate) struct Projections(Mutex<BTreeMap<Key, Weak<Projection>>>);

/// A run, and `true` for a projection with the whole state.
type Key = (OrgId, RunId, bool);

/// The projection of a run.
#[derive(Debug)]
struct Projection {
    source: Source,
    form: StateForm,
    state: Mutex<State>,
    messages: Mutex<KnownMessages>,
    registry: Weak<Projections>,
    key: Key,
}

#[derive(Debug, Default)]
struct State {
    /// Modes of each follower, by its number.
    followers: BTreeMap<u64, Modes>,
    /// Number of the next follower.
    next: u64,
    /// Events that were read, by their number.
    events: BTreeMap<u64, Retained>,
    /// Size of the retained frames.
    bytes: usize,
}

/// Frames of an event, and their size once they are computed.
#[derive(Debug, Default)]
struct Retained {
    slot: Arc<Slot>,
    bytes: usize,
}

/// Frames of an event. The lock is held while they are computed.
type Slot = tokio::sync::Mutex<Option<Arc<EventFrames>>>;

/// A follower of the frames of a run.
#[derive(Debug)]
pub(super) struct Membership {
    projection: Arc<Projection>,
    number: u64,
    modes: Modes,
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Projections {
    /// Joins the followers of a run.
    pub(super) fn join(
        self: &Arc<Self>,
        source: Source,
        run: &RunId,
        modes: Modes,
        form: StateForm,
    ) -> Membership {
        let key = (source.who.org.clone(), run.clone(), form == StateForm::Whole);
        let mut runs = lock_unpoisoned(&self.0);
        let known = runs.get(&key).and_then(Weak::upgrade);
        let projection = known.unwrap_or_else(|| {
            let state = Mutex::default();
            let messages = Mutex::default();
            let registry = Arc::downgrade(self);
            let key = key.clone();
            Arc::new(Projection { source, form, state, messages, registry, key })
        });
        runs.insert(key, Arc::downgrade(&projection));
        drop(runs);
        let number = lock_unpoisoned(&projection.state).join(modes);
        Membership { projection, number, modes }
    }
}

impl Drop for Projection {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let mut runs = lock_unpoisoned(&registry.0);
        // A follower may have joined since, with a projection of its own.
        if runs.get(&self.key).is_some_and(|known| known.strong_count() == 0) {
            runs.remove(&self.key);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock_unpoisoned(&self.projection.state).leave(self.number);
    }
}

impl Membership {
    /// Returns the frames of an event that refers to checkpoints, in the modes of all followers.
    /// `progress` is that before the event, and `before` the number of the event before it.
    pub(super) async fn frames(
        &self,
        progress: &Progress,
        before: u64,
        event: &RunEvent,
        seq: u64,
    ) -> Result<Arc<EventFrames>, RuntimeError> {
        let Projection { state, .. } = &*self.projection;
        let slot = lock_unpoisoned(state).slot(seq);
        let mut computed = slot.lock().await;
        if let Some(found) = computed.as_ref().filter(|found| found.modes.all_of(self.modes)) {
            return Ok(Arc::clone(found));
        }
        let modes = self.wanted_modes(before);
        let found = Arc::new(self.projection.compute(progress, event, seq, modes).await?);
        if modes.any_of(Modes::MESSAGES) {
            self.pass(before, seq);
        }
        *computed = Some(Arc::clone(&found));
        drop(computed);
        let is_shared = lock_unpoisoned(state).followers.len() > 1;
        let bytes = if is_shared { found.size() } else { 0 };
        lock_unpoisoned(state).retain(seq, slot, bytes);
        Ok(found)
    }

    /// Returns `true` if all messages up to this event are known.
    pub(super) fn knows_messages(&self, seq: u64) -> bool {
        lock_unpoisoned(&self.projection.messages).includes(seq)
    }

    /// Records an event without messages.
    pub(super) fn pass(&self, before: u64, seq: u64) {
        lock_unpoisoned(&self.projection.messages).pass(before, seq);
    }

    /// Modes whose frames are computed after an event: those of all followers. Messages are only
    /// computed when those of all earlier events are known.
    fn wanted_modes(&self, before: u64) -> Modes {
        let all = lock_unpoisoned(&self.projection.state).modes();
        if self.knows_messages(before) { all } else { all.without(Modes::MESSAGES) | self.modes }
    }
}

impl State {
    fn join(&mut self, modes: Modes) -> u64 {
        let number = self.next;
        self.next += 1;
        self.followers.insert(number, modes);
        number
    }

    fn leave(&mut self, follower: u64) {
        self.followers.remove(&follower);
    }

    fn modes(&self) -> Modes {
        self.followers.values().fold(Modes::NONE, |all, modes| all | *modes)
    }

    /// Returns the frames of an event, computed or not. A single follower does not need those of
    /// earlier events any more.
    fn slot(&mut self, seq: u64) -> Arc<Slot> {
        while self.followers.len() <= 1 && self.events.keys().next().is_some_and(|old| *old < seq) {
            self.drop_oldest();
        }
        Arc::clone(&self.events.entry(seq).or_default().slot)
    }

    /// Retains the frames of an event for other followers, and drops those of the oldest ones that
    /// exceed the limit.
    fn retain(&mut self, seq: u64, slot: Arc<Slot>, bytes: usize) {
        if self.followers.len() <= 1 {
            return;
        }
        let replaced = self.events.insert(seq, Retained { slot, bytes });
        self.bytes = self.bytes + bytes - replaced.map_or(0, |replaced| replaced.bytes);
        while self.bytes > RETAINED_BYTES_MAX && self.events.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.events.pop_first();
        self.bytes -= oldest.map_or(0, |(_, oldest)| oldest.bytes);
    }
}

impl Projection {
    async fn compute(
        &self,
        progress: &Progress,
        event: &RunEvent,
        seq: u64,
        modes: Modes,
    ) -> Result<EventFrames, RuntimeError> {
        let mut reader = EventReader { source: &self.source, progress: progress.clone() };
        let messages = EventMessages::new(&self.messages, seq);
        let Some(list) = FrameList::new(event, self.form) else {
            let frames = Vec::new();
            let returned = Vec::new();
            return Ok(EventFrames { modes, frames, returned, next: Arc::new(reader.progress) });
        };
        let mut frames = Frames { modes, messages, list };
        reader.read(&event.event, &mut frames).await?;
        let Frames { messages, list, .. } = frames;
        let frames = list.into_frames();
        let returned = messages.into_returned();
        Ok(EventFrames { modes, frames, returned, next: Arc::new(reader.progress) })
    }
}
