//! Outcome of a run that this process drove.

use super::writer::{Patience, Writer};
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_graph::run_loop::{Finished, Outcome};
use weftwork_types::run::RunFinal;

/// End of a run.
pub(crate) enum End {
    Told(RunFinal),
    /// Its graph came to its end, with an output that nobody may want as JSON.
    Finished(Box<Finished>),
}

impl From<RunFinal> for End {
    fn from(told: RunFinal) -> Self {
        Self::Told(told)
    }
}

impl End {
    /// The same with its output.
    pub(crate) fn told(self) -> RunFinal {
        match self {
            Self::Told(told) => told,
            Self::Finished(finished) => match finished.told() {
                Ok(Outcome::Completed { output }) => RunFinal::Completed { output },
                // Only what completed is held as finished.
                Ok(_) => RunFinal::Completed { output: Json::Null },
                Err(error) => RunFinal::Failed { fault: error.fault() },
            },
        }
    }
}

/// Outcome of a run that this process drove.
pub(crate) enum Ended {
    /// Its end is on record, or never will be.
    Told(End),
    /// It ended, and its store does not take that now.
    Unrecorded(Unrecorded),
    /// Another worker has it, or it was ended elsewhere.
    Lost,
    /// The process stops, and others may go on with it.
    Released,
}

/// A run that ended and whose store did not take its end.
pub(crate) struct Unrecorded {
    pub(super) writer: Arc<Writer>,
    pub(crate) outcome: RunFinal,
}

impl Unrecorded {
    /// Tries until the store takes the end, so that the thread does not stay busy as long as this
    /// process lives, or until the store says that it never will.
    pub(crate) async fn record(self) {
        let (clock, at) = (self.writer.host.clock.as_ref(), &self.writer.claim.at);
        let mut patience = Patience::new();
        let mut tried = self.writer.failed(self.outcome.clone()).await;
        while let Err(error) = tried {
            tried = match patience.after(error, clock, at, None).await {
                Ok(()) => self.writer.failed(self.outcome.clone()).await,
                Err(error) => {
                    tracing::warn!(%error, run = %at.run, "the end of the run stays unrecorded");
                    return;
                }
            };
        }
    }
}
