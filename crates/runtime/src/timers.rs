//! The time at which the next thread of the store is due to resume.

use tokio::sync::watch;
use weftwork_types::Timestamp;

/// The next due time that is known in this process: read from the store, or set by one of its runs.
#[derive(Debug)]
pub(crate) struct Timers(watch::Sender<Timestamp>);

/// Later than every due time.
const NEVER: Timestamp = Timestamp(i64::MAX);

impl Default for Timers {
    fn default() -> Self {
        Self(watch::Sender::new(NEVER))
    }
}

impl Timers {
    /// Adds the due time of a thread.
    pub(crate) fn add(&self, at: Timestamp) {
        self.0.send_if_modified(|next| {
            let earlier = at < *next;
            *next = at.min(*next);
            earlier
        });
    }

    /// Discards the known time, before it is read from the store.
    pub(crate) fn clear(&self) {
        self.0.send_replace(NEVER);
    }

    /// The known time.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        Some(*self.0.borrow()).filter(|next| *next < NEVER)
    }

    /// Waits until a time before `next` is added. Cancel safe.
    pub(crate) async fn before(&self, next: Option<Timestamp>) {
        let mut times = self.0.subscribe();
        let earlier = times.wait_for(|time| *time < next.unwrap_or(NEVER)).await;
        // Fails only without a sender, and we are one.
        earlier.map(drop).unwrap_or_default();
    }
}
