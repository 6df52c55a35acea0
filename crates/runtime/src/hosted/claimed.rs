//! A run that this worker has claimed.

use crate::context::WorkerContext;
use crate::event_bus::EventBus;
use std::sync::Arc;
use tokio::sync::watch;
use weftwork_graph::run_loop::StateQuery;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{Claim, RunRow};
use weftwork_types::caller::GraphCaller;
use weftwork_types::{CheckpointId, Principal};

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

    /// The checkpoint at which the run begins, if it may be another than the newest.
    pub(super) fn begins_at(&self) -> Option<CheckpointId> {
        self.row.new.options.at.or(self.row.back_to())
    }

    /// The state from which the run begins.
    pub(super) fn at(&self) -> StateQuery {
        StateQuery {
            checkpoint: self.begins_at(),
            ..StateQuery::thread(self.claim.at.thread.as_str())
        }
    }

    /// Returns `true` if the thread has no checkpoint.
    pub(super) async fn is_new(&self) -> Result<bool, RuntimeError> {
        let thread = self.context.store.thread(&self.who, &self.claim.at.thread).await?;
        Ok(thread.head.is_none())
    }
}
