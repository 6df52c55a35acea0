//! End of this worker's claim on a run.

use super::writer::Writer;
use crate::patience::Patience;
use std::sync::Arc;
use weftwork_graph::run_loop::Finished;
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::shown::StateForm;

/// Outcome of a run, made on demand: the output may not be needed as JSON.
pub(crate) enum LazyOutcome {
    /// It exists already.
    Ready(RunOutcome),
    /// The graph of the run completed.
    Completed(Box<Finished>),
}

impl LazyOutcome {
    /// Returns the outcome in its shown form.
    pub(crate) fn into_outcome(self) -> RunOutcome {
        let outcome = match self {
            Self::Ready(outcome) => outcome,
            Self::Completed(finished) => finished
                .try_outcome()
                // The store has the run as completed. Only callers in this process learn that its
                // output cannot be made.
                .unwrap_or_else(|error| RunOutcome::Failed { fault: error.fault() }),
        };
        outcome.in_form(StateForm::Shown)
    }
}

/// Returns an outcome that already exists.
pub(crate) fn ready_outcome(outcome: RunOutcome) -> LazyOutcome {
    LazyOutcome::Ready(outcome)
}

/// Returns the outcome of a run whose graph completed.
pub(super) fn completed_outcome(finished: Box<Finished>) -> LazyOutcome {
    LazyOutcome::Completed(finished)
}

/// End of the claim of this worker on a run.
pub(crate) enum ClaimEnd {
    /// The run ended. Its outcome is stored, or never will be.
    Recorded(LazyOutcome),
    /// The run ended, and its store does not accept the outcome now.
    Unrecorded(Unrecorded),
    /// Another worker has the run, or ended it.
    Lost,
    /// The process stops, and others may resume the run.
    Released,
}

impl ClaimEnd {
    /// Name of the end, and the code of the error of a run that failed.
    pub(super) fn name(&self) -> EndName<'_> {
        let outcome = match self {
            Self::Recorded(LazyOutcome::Completed(_)) => {
                return EndName { name: RunStatus::Completed.name(), error: None };
            }
            Self::Lost => return EndName { name: "lost", error: None },
            Self::Released => return EndName { name: "released", error: None },
            Self::Recorded(LazyOutcome::Ready(outcome)) => outcome,
            Self::Unrecorded(unrecorded) => &unrecorded.outcome,
        };
        let error = match outcome {
            RunOutcome::Failed { fault } => Some(fault.code.as_str()),
            _ => None,
        };
        EndName { name: outcome.status().name(), error }
    }
}

/// Name of the end of a claim.
pub(super) struct EndName<'a> {
    pub(super) name: &'static str,
    /// Code of the error, if the run failed.
    pub(super) error: Option<&'a str>,
}

/// A run that ended and whose store did not accept its end.
pub(crate) struct Unrecorded {
    pub(super) writer: Arc<Writer>,
    pub(crate) outcome: RunOutcome,
}

impl Unrecorded {
    /// Retries until the store accepts the end, so that the thread does not stay busy as long as
    /// this process lives, or until the store refuses it for good.
    pub(crate) async fn record(self) {
        let clock = self.writer.context.clock.as_ref();
        let at = &self.writer.claim.at;
        let mut patience = Patience::new();
        let mut tried = self.writer.failed(self.outcome.clone()).await;
        while let Err(error) = tried {
            tried = match patience.after(error, clock, at, None).await {
                Ok(()) => self.writer.failed(self.outcome.clone()).await,
                Err(error) => {
                    tracing::warn!(%error, run = %at.run, "the end of the run stays unrecorded");
                    break;
                }
            };
        }
        // After the last attempt: a commit that succeeds includes these facts itself.
        self.writer.bill_the_rest().await;
    }
}
