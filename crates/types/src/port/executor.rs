use crate::code::Fault;
use crate::event::RunEvent;
use crate::run::{RunOutcome, RunRef, RunRequest};
use crate::{BoxFuture, BoxStream, Principal};

/// Executor of graphs and agents, the only way to start a run.
pub trait GraphExecutor: Send + Sync + std::fmt::Debug {
    /// Accepts a run. When the future completes, the run is in the store and is executed to its
    /// end, even if nobody reads its events.
    ///
    /// # Errors
    /// Returns [`ExecuteError`] if the run was not accepted; nothing was written.
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>>;

    /// Requests that a run stop. It stops at its next await point; committed work is retained.
    ///
    /// # Errors
    /// Returns [`ExecuteError`] if there is no such run.
    fn cancel<'a>(
        &'a self,
        principal: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>>;
}

/// Handle of an accepted run: a live stream of events, and the outcome.
///
/// Dropping the handle, or one of its fields, does not cancel the run.
pub struct RunHandle {
    /// The run.
    pub run: RunRef,
    /// Events of the run; the last one is `done`.
    pub events: BoxStream<'static, RunEvent>,
    /// Outcome of the run.
    pub outcome: BoxFuture<'static, RunOutcome>,
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

/// An error for a run that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct ExecuteError {
    /// Reason.
    pub fault: Fault,
}
