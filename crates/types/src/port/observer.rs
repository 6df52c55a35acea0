use crate::run::RunRef;
use crate::{BoxFuture, Principal};
use std::time::Duration;

/// Receives the runs whose end a process records, such as to export their traces.
pub trait RunObserver: Send + Sync + std::fmt::Debug {
    /// Notes a run whose end is in the store. A run that is requeued ends again. Does not block.
    fn ended(&self, who: &Principal, run: &RunRef);

    /// Completes the work on the runs so far, at most for this time.
    fn close(&self, longest: Duration) -> BoxFuture<'_, ()>;
}
