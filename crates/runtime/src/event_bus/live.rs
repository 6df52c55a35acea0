//! The queue of live events that all watchers of a run in this process share.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use weftwork_types::event::{AiEvent, RunEvent};

/// Maximum size of the events that a watcher has not received, in bytes. A watcher that lags by
/// more is detached and continues from the store.
pub(crate) const LAG_BYTES_MAX: usize = 64 << 10;

/// A queue of events with many receivers. An event is stored once, until all receivers that are
/// attached have received it. The queue never waits for a receiver: it detaches the slowest ones
/// when its limit is exceeded.
#[derive(Debug, Default)]
pub(super) struct LiveQueue {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    bytes: usize,
    /// Number of attached receivers.
    receivers: usize,
    closed: bool,
}

#[derive(Debug)]
struct Slot {
    event: Arc<RunEvent>,
    bytes: usize,
    /// Number of attached receivers that have not received it. Those that have not received an
    /// event have received none of the later ones.
    unread: usize,
}

/// A receiver of the events of a run.
#[derive(Debug)]
pub(crate) struct LiveReceiver {
    queue: Arc<LiveQueue>,
    /// Number of the next slot to read.
    next: u64,
    attached: bool,
}

/// The result of waiting for a live event.
#[derive(Debug, PartialEq)]
pub(crate) enum Live {
    Event(Arc<RunEvent>),
    /// The receiver was too slow, and is detached.
    Lagged,
    /// No more events follow.
    Ended,
}

impl LiveQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a receiver of the events from now on.
    pub(super) fn attach(self: &Arc<Self>) -> LiveReceiver {
        let mut state = self.lock();
        state.receivers += 1;
        let next = state.first + state.slots.len() as u64;
        LiveReceiver { queue: Arc::clone(self), next, attached: true }
    }

    /// Appends an event for the attached receivers.
    pub(super) fn push(&self, event: RunEvent) {
        let mut state = self.lock();
        // A receiver that attaches later begins after this event.
        if state.receivers == 0 || state.closed {
            return;
        }
        let bytes = event_size(&event);
        let unread = state.receivers;
        state.slots.push_back(Slot { event: Arc::new(event), bytes, unread });
        state.bytes += bytes;
        // The receivers of the first event lag most. They continue from the store, so no event is
        // lost.
        while state.bytes > LAG_BYTES_MAX {
            state.detach_slowest();
        }
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Ends the queue; receivers still get the events in it.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }
}

impl State {
    fn pop_slot(&mut self) -> usize {
        let Some(slot) = self.slots.pop_front() else { return 0 };
        self.first += 1;
        self.bytes -= slot.bytes;
        slot.unread
    }

    /// Detaches the receivers of the first event.
    fn detach_slowest(&mut self) {
        let lagging = self.pop_slot();
        self.receivers -= lagging;
        for slot in &mut self.slots {
            slot.unread -= lagging;
        }
        self.pop_read();
    }

    fn pop_read(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.unread == 0) {
            self.pop_slot();
        }
    }

    /// Returns the index of a slot; `None` if it was dropped.
    fn index(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok())
    }
}

impl LiveReceiver {
    /// Waits for the next event. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Live {
        let queue = Arc::clone(&self.queue);
        loop {
            // Created before the check: `notify_waiters` leaves no permit, and wakes only waits
            // that exist.
            let arrived = queue.arrived.notified();
            if let Some(live) = self.try_recv() {
                return live;
            }
            arrived.await;
        }
    }

    /// Returns the next event; `None` if there is none yet.
    pub(crate) fn try_recv(&mut self) -> Option<Live> {
        let mut state = self.queue.lock();
        let Some(index) = state.index(self.next).filter(|_| self.attached) else {
            self.attached = false;
            return Some(Live::Lagged);
        };
        let closed = state.closed;
        let Some(slot) = state.slots.get_mut(index) else {
            return closed.then_some(Live::Ended);
        };
        slot.unread -= 1;
        let event = Arc::clone(&slot.event);
        self.next += 1;
        // A later event is dropped with those before it, which another receiver has not read.
        if index == 0 {
            state.pop_read();
        }
        Some(Live::Event(event))
    }
}

impl Drop for LiveReceiver {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        // A receiver that was detached is not counted any more.
        let Some(index) = state.index(self.next).filter(|_| self.attached) else { return };
        state.receivers -= 1;
        for slot in state.slots.iter_mut().skip(index) {
            slot.unread -= 1;
        }
        state.pop_read();
    }
}

/// Returns the approximate size of an event: that of the record, and of its JSON.
pub(crate) fn event_size(event: &RunEvent) -> usize {
    /// Counts the bytes that are written.
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let content = match &event.event {
        AiEvent::TextDelta { delta } | AiEvent::ReasoningDelta { delta } => delta.len(),
        event => {
            let mut counter = Counter(0);
            // An event that cannot be converted is not stored either; what was counted is enough.
            serde_json::to_writer(&mut counter, event).map_or(counter.0, |()| counter.0)
        }
    };
    size_of::<RunEvent>() + content
}
