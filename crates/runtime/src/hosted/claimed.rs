//! A run that this worker has claimed.

use super::accepted::{AcceptedRun, ModeReceiver, Requester};
use crate::context::WorkerContext;
use crate::event_bus::EventBus;
use crate::run_kind::RunKind;
use std::sync::Arc;
use tokio::sync::{OnceCell, watch};
use weftwork_graph::CompiledGraph;
use weftwork_store::{Claim, RunRow};
use weftwork_types::Principal;
use weftwork_types::caller::GraphCaller;
use weftwork_types::port::{Budget, Dependencies};

/// A run under a claim of this worker.
#[derive(Debug)]
pub(crate) struct ClaimedRun {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) row: RunRow,
    pub(crate) graph: CompiledGraph,
    pub(crate) kind: RunKind,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) cancel: watch::Sender<bool>,
    pub(super) requester: Requester,
    pub(super) receiver: Option<ModeReceiver>,
    /// Dependencies that were made before the claim.
    pub(super) made: Option<Dependencies>,
    /// Its budget and dependencies, once they are opened.
    pub(super) resources: OnceCell<RunResources>,
}

/// Resources of one run. They stay the same while this process executes it.
#[derive(Debug, Clone)]
pub(super) struct RunResources {
    /// Billing identity of the run.
    pub(super) caller: Arc<GraphCaller>,
    pub(super) budget: Arc<dyn Budget>,
    pub(super) dependencies: Dependencies,
}

impl ClaimedRun {
    /// Creates the run of this claim; `row` is that of the claim.
    pub(crate) fn new(
        accepted: AcceptedRun,
        context: Arc<WorkerContext>,
        claim: Claim,
        row: RunRow,
        cancel: watch::Sender<bool>,
    ) -> Self {
        let AcceptedRun { who, graph, requester, receiver, made, at: _ } = accepted;
        Self {
            bus: Arc::new(EventBus::new(Arc::clone(&context.clock), claim.fence)),
            kind: RunKind::of(&row.new.options),
            context,
            who,
            claim,
            row,
            graph,
            cancel,
            requester,
            receiver,
            made,
            resources: OnceCell::new(),
        }
    }

    /// Billing identity of the run.
    pub(super) fn caller(&self) -> GraphCaller {
        GraphCaller {
            caller: self.row.new.caller.clone(),
            run: self.claim.at.run.clone(),
            graph: self.row.new.graph.clone(),
            graph_version: self.context.program_version.of(&self.graph).to_owned(),
        }
    }

    /// Returns `true` if the run is cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Waits until the run is cancelled. Cancel safe.
    pub(super) fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cancelled = self.cancel.subscribe();
        async move {
            // Fails only without a sender, and the run is one.
            cancelled.wait_for(|cancelled| *cancelled).await.map(drop).unwrap_or_default();
        }
    }
}
