//! Resources that all runs of a process share.

use crate::dependencies::{MakeDependencies, Provided};
use crate::graph_source::unversioned;
use crate::ledger::StoreLedger;
use crate::limits::LimitCheck;
use crate::live_runs::LiveRuns;
use crate::program_version::ProgramVersion;
use crate::shutdown::Shutdown;
use crate::stored::{Recent, StoreCheckpointer};
use crate::timers::Timers;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Host as Local, StateQuery};
use weftwork_store::{CheckpointStore, NewRun, Store};
use weftwork_types::port::{Budgets, Clock, Dependencies, Limits, RunObserver};
use weftwork_types::run::RunOptions;
use weftwork_types::{CheckpointId, Principal, ThreadId};

/// Data that all runs of a process share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ledger: StoreLedger,
    /// Version of graphs without one of their own.
    pub(crate) program_version: ProgramVersion,
    pub(crate) budgets: Arc<dyn Budgets>,
    /// Limits of accounts and keys, if there are any.
    pub(crate) limits: Option<Arc<LimitCheck>>,
    /// Limits of all runs of a thread together.
    pub(crate) thread_budget: Option<Limits>,
    /// Functions that make the dependencies of runs, by graph.
    pub(crate) dependencies: BTreeMap<String, MakeDependencies>,
    /// Function that makes the dependencies of runs of the graphs of a source.
    pub(crate) of_source: Option<MakeDependencies>,
    /// Function that adds dependencies to those of each run.
    pub(crate) provided: Provided,
    /// `true` if runs read their state back after each superstep.
    pub(crate) rebuilds: bool,
    /// Permits for runs that may have ended their workers.
    pub(crate) suspects: Arc<Semaphore>,
    /// Number of workers that a run may end without progress.
    pub(crate) attempts_max: u32,
    /// The cache of nodes, and the last id of a checkpoint.
    pub(crate) local: Local,
    /// Threads that ran here recently.
    pub(crate) recent: Arc<Recent>,
    /// Times at which threads are due to resume.
    pub(crate) timers: Arc<Timers>,
    /// Runs that this process executes, for their watchers.
    pub(crate) live: Arc<LiveRuns>,
    /// Receives the runs whose end this process records.
    pub(crate) observer: Option<Arc<dyn RunObserver>>,
    /// Shutdown state of the process.
    pub(crate) shutdown: Arc<Shutdown>,
}

/// Returns the state from which a run with these options begins, at a checkpoint or the newest one.
pub(crate) fn begins_from(
    thread: &ThreadId,
    options: &RunOptions,
    checkpoint: Option<CheckpointId>,
) -> StateQuery {
    let at = |checkpoint| StateQuery { checkpoint, ..StateQuery::thread(thread.as_str()) };
    match &options.within {
        Some(within) => {
            // With it, the request may name the checkpoint of the outermost graph.
            let own = within.checkpoints.get(&within.namespace).copied();
            at(own.or(checkpoint)).within(within.namespace.as_str())
        }
        None => at(checkpoint),
    }
}

impl WorkerContext {
    /// Makes the dependencies of a run by the function of its graph; none without a function.
    pub(crate) async fn make_dependencies(
        &self,
        who: &Principal,
        run: &NewRun,
    ) -> Result<Dependencies, RuntimeError> {
        let of_source = self.of_source.as_ref().filter(|_| unversioned(&run.graph) != run.graph);
        let Some(function) = self.dependencies.get(&run.graph).or(of_source) else {
            return Ok(Dependencies::new());
        };
        let made = function.make(who.clone(), run.clone()).await;
        made.map_err(|error| RuntimeError::dependencies(&run.graph, error))
    }

    /// Returns read access to the checkpoints of an organisation.
    pub(crate) fn looking(&self, who: &Principal) -> Local {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.store) as _;
        self.local.clone().with_checkpointer(StoreCheckpointer::new(store, who.clone()))
    }

    /// Returns read access to the checkpoints of an organisation for the admission of a run: the
    /// checkpoint that it decodes is at hand when the run begins here.
    pub(crate) fn admitting(&self, who: &Principal) -> Local {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.store) as _;
        let recent = Arc::clone(&self.recent);
        self.local.clone().with_checkpointer(StoreCheckpointer::admitting(
            store,
            who.clone(),
            recent,
        ))
    }
}
