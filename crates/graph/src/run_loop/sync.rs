//! Locks, and turns of tasks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, whether or not a holder of it panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Yields to the other tasks of a superstep, in the order in which they wait.
pub(crate) async fn yield_turn() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        // Woken at once, behind the tasks that are ready already.
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
