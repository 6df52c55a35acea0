//! Resources that all runs of a process share.

use crate::dependencies::MakeDependencies;
use crate::shutdown::Shutdown;
use crate::stored::{Recent, StoreCheckpointer};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::Host as Local;
use weftwork_store::{CheckpointStore, Store};
use weftwork_types::Principal;
use weftwork_types::port::{Budgets, Clock, Ledger};

/// Data that all runs of a process share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) budgets: Arc<dyn Budgets>,
    /// Functions that make the dependencies of runs, by graph.
    pub(crate) dependencies: BTreeMap<String, MakeDependencies>,
    /// `true` if runs read their state back after each superstep.
    pub(crate) rebuilds: bool,
    /// The turn of runs that may be what ended their workers.
    pub(crate) suspects: Arc<Semaphore>,
    /// Number of workers that a run may end without progress.
    pub(crate) attempts_max: u32,
    /// The cache of nodes, and the last id of a checkpoint.
    pub(crate) local: Local,
    /// Threads that ran here lately.
    pub(crate) recent: Arc<Recent>,
    /// Shutdown state of the process.
    pub(crate) shutdown: Arc<Shutdown>,
}

impl WorkerContext {
    /// Checkpoints of an organisation, to be looked at.
    pub(crate) fn looking(&self, who: &Principal) -> Local {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.store) as _;
        self.local.clone().with_checkpointer(StoreCheckpointer::new(store, who.clone()))
    }
}
