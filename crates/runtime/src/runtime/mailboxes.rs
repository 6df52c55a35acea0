//! The mailboxes that this process attends.

use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use weftwork_types::{OrgId, ThreadId};

/// Mailboxes that this process attends, each with the signal that wakes its task.
#[derive(Debug, Default)]
pub(super) struct Mailboxes(Mutex<BTreeMap<(OrgId, ThreadId), Arc<Notify>>>);

impl Mailboxes {
    /// Begins the attendance of a mailbox; `None` if it is attended already and was woken.
    pub(super) fn enter(&self, key: &(OrgId, ThreadId)) -> Option<Arc<Notify>> {
        let mut attended = self.lock();
        if let Some(signal) = attended.get(key) {
            signal.notify_one();
            return None;
        }
        let signal = Arc::new(Notify::new());
        attended.insert(key.clone(), Arc::clone(&signal));
        Some(signal)
    }

    /// Returns `true` if this process attends a mailbox.
    pub(super) fn has(&self, key: &(OrgId, ThreadId)) -> bool {
        self.lock().contains_key(key)
    }

    /// Ends the attendance of a mailbox when the process stops.
    pub(super) fn close(&self, key: &(OrgId, ThreadId)) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(OrgId, ThreadId), Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the attendance of a mailbox; `false` if it was woken meanwhile.
    pub(super) fn leave(&self, key: &(OrgId, ThreadId), signal: &Notify) -> bool {
        let mut attended = self.lock();
        // Under this lock no other task signals it.
        if signal.notified().now_or_never().is_some() {
            return false;
        }
        attended.remove(key);
        true
    }
}
