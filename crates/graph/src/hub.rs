//! Events of one run on their way to the log and to those who watch.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::port::Emit;

/// Keeps the order in which events were told: a live piece that comes after an event that is not
/// yet on disk waits behind it. Watchers get durable events once they are committed, with their
/// sequence number; those who fall behind or leave hold nothing up.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<AiEvent>,
    watchers: Vec<mpsc::UnboundedSender<RunEvent>>,
    /// Whether the last event was told; whoever still emits then is not heard.
    over: bool,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watcher.
    pub(crate) fn watch(&self) -> mpsc::UnboundedReceiver<RunEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().watchers.push(sender);
        receiver
    }

    /// Waits until an event waits to be committed. Cancel safe.
    pub(crate) async fn durable_arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if self.lock().queue.iter().any(AiEvent::is_durable) {
                return;
            }
            arrived.await;
        }
    }

    /// The events that wait to be committed, in order. They stay in the queue until
    /// [`committed`](Self::committed).
    pub(crate) fn uncommitted(&self) -> Vec<AiEvent> {
        self.lock().queue.iter().filter(|e| e.is_durable()).cloned().collect()
    }

    /// Tells that the first `count` waiting events are on disk from `first_seq` on, and after them
    /// those of the commit itself. After a `done` or `released` nothing more is told.
    pub(crate) fn committed(&self, first_seq: u64, count: usize, own: Vec<AiEvent>) {
        let mut state = self.lock();
        let own_seqs = first_seq + count as u64..;
        let mut seqs = (first_seq..).take(count);
        while let Some(event) = state.queue.pop_front() {
            if !event.is_durable() {
                state.tell(RunEvent::placeless(event));
                continue;
            }
            match seqs.next() {
                Some(seq) => state.tell(RunEvent::durable(seq, event)),
                None => {
                    state.queue.push_front(event);
                    break;
                }
            }
        }
        let mut over = false;
        for (seq, event) in own_seqs.zip(own) {
            over |= matches!(event, AiEvent::Done { .. } | AiEvent::Released { .. });
            state.tell(RunEvent::durable(seq, event));
        }
        if over {
            state.end();
        }
    }

    /// Tells nothing more.
    pub(crate) fn end(&self) {
        self.lock().end();
    }

    /// Tells everything that still waits and then `last`, without sequence numbers, when the log
    /// is out of reach.
    pub(crate) fn give_up(&self, last: AiEvent) {
        let mut state = self.lock();
        state.queue.push_back(last);
        while let Some(event) = state.queue.pop_front() {
            state.tell(RunEvent::placeless(event));
        }
        state.end();
    }
}

impl State {
    fn tell(&mut self, event: RunEvent) {
        self.watchers.retain(|watcher| watcher.send(event.clone()).is_ok());
    }

    /// Ends the streams of all watchers, even when a node's context outlives the run.
    fn end(&mut self) {
        self.over = true;
        self.queue.clear();
        self.watchers.clear();
    }
}

impl Emit for Hub {
    fn emit(&self, event: AiEvent) {
        if matches!(&event, AiEvent::Custom { value } if !can_be_read_back(value)) {
            tracing::warn!("an event was dropped: it is nested too deeply for the log");
            return;
        }
        let mut state = self.lock();
        if state.over {
            return;
        }
        if event.is_durable() || !state.queue.is_empty() {
            let durable = event.is_durable();
            state.queue.push_back(event);
            drop(state);
            if durable {
                self.arrived.notify_one();
            }
        } else {
            state.tell(RunEvent::placeless(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn delta(text: &str) -> AiEvent {
        AiEvent::TextDelta { delta: text.to_owned() }
    }

    fn custom(n: u32) -> AiEvent {
        AiEvent::Custom { value: json!(n) }
    }

    #[test]
    fn order_is_kept_and_only_durable_events_wait_for_the_log() {
        let hub = Hub::default();
        let mut watcher = hub.watch();
        hub.emit(delta("a"));
        assert_eq!(watcher.try_recv().expect("at once").event, delta("a"));
        hub.emit(custom(1));
        hub.emit(delta("b"));
        hub.emit(custom(2));
        assert!(watcher.try_recv().is_err(), "nothing overtakes what is not yet on disk");
        assert_eq!(hub.uncommitted(), vec![custom(1), custom(2)]);
        hub.committed(7, 1, Vec::new());
        let told: Vec<_> = std::iter::from_fn(|| watcher.try_recv().ok()).collect();
        assert_eq!(told, vec![RunEvent::durable(7, custom(1)), RunEvent::placeless(delta("b")),]);
        let done = AiEvent::Done { outcome: weftwork_types::run::RunStatus::Failed };
        hub.committed(8, 1, vec![done.clone()]);
        assert_eq!(watcher.try_recv().expect("committed").seq, Some(8));
        let last = watcher.try_recv().expect("of the commit itself");
        assert_eq!(last, RunEvent::durable(9, done));
        hub.emit(delta("late"));
        assert_eq!(watcher.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
