//! A run that this worker has claimed.

use crate::context::WorkerContext;
use crate::event_bus::EventBus;
use std::sync::Arc;
use tokio::sync::watch;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{Claim, RunRow};
use weftwork_types::Principal;
use weftwork_types::caller::GraphCaller;

/// A run under a claim of this worker.
#[derive(Debug)]
pub(crate) struct ClaimedRun {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) row: RunRow,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) cancel: watch::Sender<bool>,
}

impl ClaimedRun {
    /// Billing identity of the run.
    pub(super) fn caller(&self, graph: &CompiledGraph) -> GraphCaller {
        GraphCaller {
            caller: self.row.new.caller.clone(),
            run: self.claim.at.run.clone(),
            graph: self.row.new.graph.clone(),
            graph_version: graph.version().to_owned(),
        }
    }

    /// Returns `true` if the thread has no checkpoint.
    pub(super) async fn is_new(&self) -> Result<bool, RuntimeError> {
        let thread = self.context.store.thread(&self.who, &self.claim.at.thread).await?;
        Ok(thread.head.is_none())
    }
}
