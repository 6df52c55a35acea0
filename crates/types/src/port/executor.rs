use crate::code::Fault;
use crate::event::RunEvent;
use crate::run::{RunFinal, RunRef, RunRequest};
use crate::{BoxFuture, BoxStream, Principal};

/// The only way a graph or an agent runs.
pub trait GraphExecutor: Send + Sync + std::fmt::Debug {
    /// Accepts a run. When this returns the run is in the store and will come to its end whether
    /// or not anybody listens.
    ///
    /// # Errors
    /// [`ExecuteError`] when it was not accepted: nothing was written then.
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>>;

    /// Asks a run to stop. It stops at its next await point; what was committed stays.
    ///
    /// # Errors
    /// [`ExecuteError`] when there is no such run.
    fn cancel<'a>(
        &'a self,
        principal: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>>;
}

/// A run that was accepted: its events as they come, and its end.
///
/// Dropping the handle, or either part of it, does not cancel the run.
pub struct RunHandle {
    /// The run.
    pub run: RunRef,
    /// Its events; the last one is `done`.
    pub events: BoxStream<'static, RunEvent>,
    /// How it ends.
    pub outcome: BoxFuture<'static, RunFinal>,
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

/// A run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct ExecuteError {
    /// Why.
    pub fault: Fault,
}
