//! The function by which a program wraps the executor of its runtime.

use std::fmt;
use std::sync::Arc;
use weftwork_types::port::GraphExecutor;

pub(super) type WrapExecutor =
    dyn Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + Send + Sync;

/// Function that wraps the executor of each request by one of the program.
#[derive(Clone)]
pub(super) struct ExecutorWrapper(pub(super) Arc<WrapExecutor>);

impl ExecutorWrapper {
    pub(super) fn new<F>(wrap: F) -> Self
    where
        F: Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + Send + Sync + 'static,
    {
        Self(Arc::new(wrap))
    }

    /// Returns a wrapper that applies this one first, then `outer`.
    pub(super) fn wrapped_by(self, outer: Self) -> Self {
        Self::new(move |executor| (outer.0)((self.0)(executor)))
    }
}

impl fmt::Debug for ExecutorWrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorWrapper").finish_non_exhaustive()
    }
}
