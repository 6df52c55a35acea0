//! Delivery of the events of one run to the log and to its watchers.

mod live;
#[cfg(test)]
mod tests;
mod text_buffer;

pub(crate) use live::{Live, LiveReceiver, event_size};
pub(crate) use text_buffer::LostText;

use live::LiveQueue;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use text_buffer::{Due, OpenAnswer, TextBuffer};
use tokio::sync::Notify;
use weftwork_graph::run_loop::EventSource;
use weftwork_types::Timestamp;
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, AttemptReset, Piece, PieceAt, Position, RunEvent};
use weftwork_types::port::Clock;

/// Delivers events in the order in which they were emitted: a piece of text that follows an event
/// which is not yet stored waits for it. Watchers receive durable events after they are committed,
/// with their sequence number, and text at once; slow or disconnected watchers block nothing: a
/// watcher that lags is detached, and reads the store until it attaches again. Text is stored a
/// little later, with the next commit or by itself.
#[derive(Debug)]
pub(crate) struct EventBus {
    state: Mutex<State>,
    arrived: Notify,
    /// Signals that the time at which text is due has changed.
    spoke: Notify,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Told>,
    live: Arc<LiveQueue>,
    text: TextBuffer,
    /// Contents of the commit in progress.
    flight: Option<Flight>,
    /// Number of queued events in the last failed commit.
    failed: usize,
    /// `true` if the next commit retries that one.
    again: bool,
    /// `true` if the numbers of the log are known.
    synced: bool,
    /// Reason why the store accepts no writes, while it accepts none.
    paused: Option<Fault>,
    /// Number of the first event that the claim committed.
    first_seq: Option<u64>,
    /// Last event, if it was emitted without a position.
    last: Option<AiEvent>,
    /// `true` if the last event was emitted; later events are discarded.
    over: bool,
}

#[derive(Debug)]
struct Told {
    event: AiEvent,
    by: EventSource,
}

#[derive(Debug)]
struct Flight {
    /// Number of queued events that it includes.
    taken: usize,
    /// Number of these that are durable.
    durable: usize,
    /// `true` if it has events of its own, for which later text must wait.
    own: bool,
    /// Positions of the pieces of text among these events.
    places: VecDeque<PieceAt>,
    /// Text buffer after the commit succeeds; `None` if the commit contains only text.
    after: Option<TextBuffer>,
}

/// Emitted events and text that a commit includes.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Events that waited for the log.
    pub(crate) events: Vec<AiEvent>,
    /// Position up to which text is void with this commit.
    pub(crate) void: Option<Position>,
    /// Text that is not in the store.
    pub(crate) pieces: Vec<Piece>,
}

/// State handed to a watcher that attaches in the middle of a run.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Everything before this position is stored or void. The end if the position of the run in
    /// its log is not known yet; then everything before the next event is stored.
    pub(crate) from: Position,
    /// Text that is not stored.
    pub(crate) unsaved: Vec<Piece>,
    /// `true` if other text is stored. The commit of an event that voids it removes it.
    pub(crate) has_stored_text: bool,
    /// Position of those who have received everything.
    pub(crate) at: Position,
    /// Texts of which a part was not retained: who has not received everything lacks it.
    pub(crate) lost: Vec<LostText>,
    /// Events from now on.
    pub(crate) live: LiveReceiver,
}

/// Maximum size of the text that a watcher gets when it attaches, in bytes.
const UNSAVED_BYTES_MAX: usize = 32 << 10;

impl EventBus {
    /// Creates the event bus of a claim with this number.
    pub(crate) fn new(clock: Arc<dyn Clock>, claim: u64) -> Self {
        let first = claim == 1;
        let state = State {
            queue: VecDeque::new(),
            live: Arc::default(),
            text: TextBuffer::new(!first),
            flight: None,
            failed: 0,
            again: false,
            synced: first,
            paused: None,
            first_seq: None,
            last: None,
            over: false,
        };
        Self { state: Mutex::new(state), arrived: Notify::new(), spoke: Notify::new(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watcher before the first event.
    pub(crate) fn watch(&self) -> LiveReceiver {
        self.lock().live.attach()
    }

    /// Adds a watcher in the middle of the run. Returns `None` if no more events follow, and while
    /// the store accepts no writes: another worker may continue the run meanwhile.
    pub(crate) fn attach(&self) -> Option<Attached> {
        let state = self.lock();
        if state.over || state.paused.is_some() {
            return None;
        }
        let unsaved_bytes: usize = state.text.unsaved().map(|piece| piece.text.len()).sum();
        // The follower reads the store until a commit has stored this text.
        if unsaved_bytes > UNSAVED_BYTES_MAX {
            return None;
        }
        // The snapshot and the receiver are taken under one lock: each event is in exactly one of
        // them.
        let from = if state.synced { state.text.unsaved_from() } else { Position::END };
        let unsaved = state.text.unsaved().cloned().collect();
        let has_stored_text = state.text.is_partly_stored();
        let at = state.text.at();
        let lost = state.text.lost().to_vec();
        Some(Attached { from, unsaved, has_stored_text, at, lost, live: state.live.attach() })
    }

    /// Returns the position before the first event of the claim.
    pub(crate) fn start(&self) -> Position {
        let first = self.lock().first_seq;
        first.map_or(Position::START, |first| Position::after(first.saturating_sub(1)))
    }

    /// Returns `true` if no more events follow.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Returns the last event if it was emitted without a position.
    pub(crate) fn last(&self) -> Option<RunEvent> {
        self.lock().last.clone().map(RunEvent::placeless)
    }

    /// Waits until an event waits to be committed. Cancel safe.
    pub(crate) async fn durable_arrived(&self) {
        loop {
            // `notify_one` leaves a permit if nobody waits: an event that is emitted after the
            // check ends the wait.
            let arrived = self.arrived.notified();
            if self.lock().has_durable() {
                return;
            }
            arrived.await;
        }
    }

    /// Waits until text is due to be stored. Does not read the clock as long as there is no text.
    /// Cancel safe.
    pub(crate) async fn text_due(&self) {
        loop {
            let spoke = self.spoke.notified();
            let due = self.lock().text.due();
            match due {
                Due::Now => return,
                Due::Never => spoke.await,
                Due::At(at) => {
                    let left = at.saturating_sub(self.clock.elapsed());
                    if left.is_zero() {
                        return;
                    }
                    tokio::select! {
                        () = spoke => {}
                        () = self.clock.sleep(left) => {}
                    }
                }
            }
        }
    }

    /// Returns `true` if events or text are due for a commit, even if nothing else is.
    pub(crate) fn waits(&self) -> bool {
        let state = self.lock();
        state.has_durable() || state.text.is_due(|| self.clock.elapsed())
    }

    /// Records that the store has no text of earlier claims.
    pub(crate) fn nothing_left(&self) {
        self.lock().text.nothing_left();
    }

    /// Returns the resets of the tasks whose text is not void.
    pub(crate) fn speaking(&self) -> BTreeSet<AttemptReset> {
        let state = self.lock();
        let held = state.queue.iter().filter(|told| !told.event.is_durable());
        let held = held.map(|told| AttemptReset { message: None, ..told.by.reset() });
        state.text.tasks().into_iter().chain(held).collect()
    }

    /// Returns the answers that are being produced, as events of a run that is stopped with other
    /// events: some of them may be final or void by these, or by events that wait for the log.
    pub(crate) fn stopped(&self, others: &[AiEvent]) -> Vec<AiEvent> {
        let state = self.lock();
        let waiting = state.queue.iter().map(|told| &told.event);
        let events: Vec<&AiEvent> = waiting.chain(others).collect();
        let is_over = |open: &OpenAnswer| {
            events.iter().any(|event| match event {
                AiEvent::AttemptReset(reset) => reset.voids(&open.at),
                AiEvent::MessageFinal { message } => open.at.message.as_ref() == Some(&message.id),
                event => event.step().is_some_and(|step| open.step <= step),
            })
        };
        let open = state.text.answers().into_iter().filter(|open| !is_over(open));
        open.map(|OpenAnswer { at, text, .. }| AiEvent::TextStopped { at, text }).collect()
    }

    /// Starts a commit with these events of its own, and returns the waiting ones that it includes.
    /// Until [`committed`](Self::committed) or [`failed`](Self::failed) is called, emitted text is
    /// ordered after them.
    pub(crate) fn begin(&self, own: &[AiEvent]) -> Carried {
        self.lock().begin(own, &*self.clock)
    }

    /// Emits, once, that the store accepts no writes; the next commit that succeeds emits that it
    /// does again.
    pub(crate) fn pause(&self, fault: Fault) {
        let mut state = self.lock();
        if state.paused.is_none() {
            state.paused = Some(fault.clone());
            state.tell(RunEvent::placeless(AiEvent::StoreUnavailable { fault }));
        }
    }

    /// Delivers the events that the commit included, which are stored from `first_seq` on with the
    /// time of the commit, and then its own events. After `done` or `released` no more events are
    /// delivered.
    pub(crate) fn committed(&self, first_seq: u64, at: Timestamp, own: Vec<AiEvent>) {
        let mut state = self.lock();
        if state.paused.take().is_some() {
            state.tell(RunEvent::placeless(AiEvent::StoreAvailable));
        }
        // From here on text waits for no commit; what waited is delivered below, in the order of
        // emission.
        let Some(flight) = state.flight.take() else { return };
        let own_seq = state.land(flight, first_seq, at, own.len(), self.clock.now());
        state.tell_own(own_seq, at, own);
        if state.tell_held(&*self.clock) {
            // Released first: the task that is woken takes this lock.
            drop(state);
            self.spoke.notify_one();
        }
    }

    /// Ends a commit that did not take effect. Text does not wait for it any more.
    pub(crate) fn failed(&self) {
        let mut state = self.lock();
        // Queued text is emitted below only if no durable event precedes it. In that case the
        // queue was empty when the commit began, so the events counted here stay in the queue.
        state.failed = state.flight.take().map_or(0, |flight| flight.taken);
        state.text.unseal();
        state.tell_held(&*self.clock);
    }

    /// Limits the next commit to the events of the failed one, which it repeats: events emitted
    /// since may belong to the superstep after it. A commit that ends the run includes all events,
    /// because none follow.
    pub(crate) fn tries_again(&self) {
        self.lock().again = true;
    }

    /// Delivers an event that was written to the log elsewhere.
    pub(crate) fn logged(&self, seq: u64, at: Timestamp, event: AiEvent) {
        self.lock().tell_own(seq, at, vec![event]);
    }

    /// Ends the delivery.
    pub(crate) fn end(&self) {
        self.lock().end();
    }

    /// Delivers all waiting events and then `last`, without positions, if the log cannot be
    /// written.
    pub(crate) fn give_up(&self, last: AiEvent) {
        let mut state = self.lock();
        while let Some(told) = state.queue.pop_front() {
            state.tell(RunEvent::placeless(told.event));
        }
        state.tell(RunEvent::placeless(last.clone()));
        state.last = Some(last);
        state.end();
    }

    /// Emits an event, in its shown form.
    pub(crate) fn emit(&self, by: &EventSource, event: AiEvent) {
        let value = match &event {
            AiEvent::Custom { value, .. } => Some(value),
            AiEvent::RemoteFrame { data, .. } => Some(data),
            _ => None,
        };
        if value.is_some_and(|value| !can_be_read_back(value)) {
            tracing::warn!("an event was dropped: it is nested too deeply for the log");
            return;
        }
        let event = event.into_shown();
        let mut state = self.lock();
        // The context of a node may outlive its run, and the log of the run has ended.
        if state.over {
            return;
        }
        // A durable event gets its position by the commit that stores it, and is delivered after
        // it: a crash takes back no position that a watcher has. Text behind it waits, so that
        // watchers get both in the order of emission.
        let notified = if event.is_durable() {
            state.queue.push_back(Told { event, by: by.clone() });
            &self.arrived
        } else if state.holds() {
            state.queue.push_back(Told { event, by: by.clone() });
            return;
        } else if state.say(by, event, &*self.clock) {
            &self.spoke
        } else {
            return;
        };
        drop(state);
        notified.notify_one();
    }
}

impl State {
    fn has_durable(&self) -> bool {
        self.queue.iter().any(|told| told.event.is_durable())
    }

    /// Returns `true` if text must wait for events that are not on disk yet.
    fn holds(&self) -> bool {
        !self.queue.is_empty() || self.flight.as_ref().is_some_and(|flight| flight.own)
    }

    fn tell(&self, event: RunEvent) {
        self.live.push(event);
    }

    /// Delivers text at once. Returns `true` if a task that waits for due text must check again.
    fn say(&mut self, by: &EventSource, event: AiEvent, clock: &dyn Clock) -> bool {
        let Some(delta) = event.delta() else { return false };
        let before = self.text.due();
        let at = self.text.say(by, delta, clock);
        let changed = self.text.due() != before;
        self.tell(RunEvent { seq: None, piece: Some(at), at: Some(clock.now()), event });
        changed
    }

    /// Delivers text that waits for no event any more.
    fn tell_held(&mut self, clock: &dyn Clock) -> bool {
        let mut changed = false;
        while let Some(told) = self.queue.pop_front_if(|told| !told.event.is_durable()) {
            changed |= self.say(&told.by, told.event, clock);
        }
        changed
    }

    fn begin(&mut self, own: &[AiEvent], clock: &dyn Clock) -> Carried {
        // Text emitted from now on belongs to the next commit.
        self.text.seal();
        let ends = own.iter().any(|event| matches!(event, AiEvent::Done { .. }));
        let again = std::mem::take(&mut self.again) && !ends;
        let taken = if again { self.failed } else { self.queue.len() };
        let mut carried = Carried::default();
        let mut places = VecDeque::new();
        let after = if taken == 0 && own.is_empty() {
            carried.pieces = self.text.unsaved().cloned().collect();
            None
        } else {
            // A copy, and the events stay in the queue: if the commit fails, nothing has changed.
            let mut after = self.text.clone();
            for Told { event, by } in self.queue.iter().take(taken) {
                if let Some(delta) = event.delta() {
                    places.push_back(after.say(by, delta, clock));
                } else {
                    carried.void = carried.void.max(after.pass(event));
                    carried.events.push(event.clone());
                }
            }
            for event in own {
                carried.void = carried.void.max(after.pass(event));
            }
            carried.pieces = after.unsaved().cloned().collect();
            after.seal();
            Some(after)
        };
        let durable = carried.events.len();
        let own = !own.is_empty();
        self.flight = Some(Flight { taken, durable, own, places, after });
        carried
    }

    /// Delivers the events that a commit included, and returns the number of its first own event.
    fn land(
        &mut self,
        mut flight: Flight,
        first_seq: u64,
        at: Timestamp,
        own: usize,
        now: Timestamp,
    ) -> u64 {
        // The queue was only appended to during the commit: its first events are those of the
        // commit.
        let mut seq = first_seq;
        self.first_seq.get_or_insert(first_seq);
        for _ in 0..flight.taken {
            let Some(Told { event, .. }) = self.queue.pop_front() else { break };
            if event.is_durable() {
                self.tell(RunEvent::durable(seq, at, event));
                seq += 1;
            } else {
                let piece = flight.places.pop_front();
                self.tell(RunEvent { seq: None, piece, at: Some(now), event });
            }
        }
        if let Some(mut after) = flight.after {
            if let Some(last) = (flight.durable + own).checked_sub(1) {
                // Positions were counted from the last known number; the store assigns the real
                // ones.
                after.correct(first_seq + last as u64);
            }
            // Nothing was added to the replaced buffer meanwhile: with events in the queue, or own
            // events of the commit, text waits (`holds`).
            self.text = after;
        }
        self.text.save_sealed();
        self.synced = true;
        seq
    }

    fn tell_own(&mut self, first_seq: u64, at: Timestamp, own: Vec<AiEvent>) {
        let mut over = false;
        for (seq, event) in (first_seq..).zip(own) {
            over |= matches!(event, AiEvent::Done { .. } | AiEvent::Released { .. });
            self.tell(RunEvent::durable(seq, at, event));
        }
        // Only now: watchers receive the last event before their queue closes.
        if over {
            self.end();
        }
    }

    /// Ends the streams of all watchers, even when a node's context outlives the run.
    fn end(&mut self) {
        self.over = true;
        self.queue.clear();
        self.live.close();
    }
}
