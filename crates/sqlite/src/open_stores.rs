//! The stores that this process has open.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of open stores.
static OPEN: Mutex<usize> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

fn count() -> MutexGuard<'static, usize> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open store. Dropped after its connections, of which the last one moves the log into the file.
#[derive(Debug)]
pub(crate) struct OpenStore(());

impl OpenStore {
    pub(crate) fn new() -> Self {
        *count() += 1;
        Self(())
    }

    /// Returns `true` if this process has no other store open.
    pub(crate) fn is_only(&self) -> bool {
        *count() == 1
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        *count() -= 1;
        CLOSED.notify_all();
    }
}

/// Waits until no store of this process is open, at most for this time. Returns `true` if none is.
/// A program calls it at its end: a store that it has dropped may still be in use by a thread that
/// ends, and a process that exits before leaves the log beside the file.
pub fn wait_until_closed(longest: Duration) -> bool {
    let waited = CLOSED.wait_timeout_while(count(), longest, |open| *open > 0);
    let (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *open == 0
}
