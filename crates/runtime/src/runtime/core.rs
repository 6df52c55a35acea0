//! The runtime: its graphs, and the runs that it executes.

use super::executor_wrapper::ExecutorWrapper;
use super::mailboxes::Mailboxes;
use super::remote_servers::RemoteServers;
use super::slots::Slots;
use crate::context::WorkerContext;
use crate::graph_source::{GraphSource, ListedGraph, SourcedGraph, unversioned};
use crate::ledger::ProgramLedger;
use crate::limits::{CallerBudget, UsageLimits};
use crate::modes::Projections;
use crate::origin::{HistoryReader, Origins};
use crate::worker::Heartbeat;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use tokio::sync::watch;
use weftwork_graph::run_loop::{HistoryFilter, Snapshot, StateQuery};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::{NewRun, Store, StoreError, invariants};
use weftwork_types::caller::{CallOrigin, Caller};
use weftwork_types::port::{Budget, BudgetError, Clock, Dependencies, Ledger, Unlimited};
use weftwork_types::run::RunRef;
use weftwork_types::{CheckpointId, OrgId, Principal, RunId, ThreadId, WorkerId};

/// Hosts graphs over a store. The only [`GraphExecutor`](weftwork_types::port::GraphExecutor) of a
/// process; clones share it.
///
/// Must be opened and used within a tokio runtime, which executes the runs.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Graph, List, START, State};
/// use weftwork_runtime::Runtime;
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pack = async |_: State<Order>| OrderUpdate::new().log(["packed"]);
/// let graph = Graph::<Order>::new("order").node("pack", pack).edge(START, "pack").build()?;
/// let runtime = Runtime::in_memory().graph("order", graph).open().await?;
/// let ended = runtime.thread("order", "order-7")?.start(json!({})).await?;
/// assert_eq!(ended.output()?["log"], json!(["packed"]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Runtime(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) context: Arc<WorkerContext>,
    pub(super) graphs: BTreeMap<String, CompiledGraph>,
    /// Graphs that are hosted since the runtime was opened.
    pub(super) hosted: RwLock<BTreeMap<String, CompiledGraph>>,
    /// Source of further graphs.
    pub(super) source: Option<Arc<dyn GraphSource>>,
    /// Mailboxes whose activities this process executes.
    pub(super) mailboxes: Mailboxes,
    /// Servers on which threads are deleted together with local ones.
    pub(super) remote_servers: Arc<RemoteServers>,
    /// Wrapper of the executor; `None` if the program has none.
    pub(super) wrap_executor: Option<ExecutorWrapper>,
    pub(super) heartbeat: Heartbeat,
    pub(super) running: Mutex<BTreeMap<RunId, LocalRun>>,
    /// Limit of the runs that are executed at once.
    pub(super) slots: Arc<Slots>,
    /// Projections of the runs whose frames are followed here.
    pub(super) projections: Arc<Projections>,
    /// Counts the runs that have left this process.
    pub(super) ends: watch::Sender<u64>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.slots.notify();
        // The task that moves usage ends.
        self.context.ledger.stored();
    }
}

/// A run that this process executes.
#[derive(Debug, Clone)]
pub(super) struct LocalRun {
    pub(super) org: OrgId,
    pub(super) thread: ThreadId,
    pub(super) cancel: watch::Sender<bool>,
}

/// A reference to a [`Runtime`] that does not keep it open.
#[derive(Debug, Clone, Default)]
pub struct WeakRuntime(Weak<Inner>);

impl WeakRuntime {
    /// Returns the runtime if it is still open.
    #[must_use]
    pub fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(Runtime)
    }
}

impl Runtime {
    /// Returns a reference that does not keep the runtime open, for values that its own runs hold.
    #[must_use]
    pub fn downgrade(&self) -> WeakRuntime {
        WeakRuntime(Arc::downgrade(&self.0))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.context.store
    }

    /// Returns the ledger for calls of a program outside of runs, such as one that makes a title. Its
    /// facts are written to the store, and from there to the bill, as those of runs are.
    #[must_use]
    pub fn ledger(&self, principal: &Principal, caller: Caller) -> Arc<dyn Ledger> {
        Arc::new(ProgramLedger {
            ledger: self.0.context.ledger.clone(),
            principal: principal.clone(),
            origin: CallOrigin::Program(Arc::new(caller)),
        })
    }

    /// Returns the budget for calls of a program outside of runs: the limits of the account and key
    /// of the caller.
    #[must_use]
    pub fn budget(&self, principal: &Principal, caller: &Caller) -> Arc<dyn Budget> {
        let limited = self.0.context.limits.as_ref();
        match limited.and_then(|check| CallerBudget::new(check, principal, caller)) {
            Some(budget) => Arc::new(budget),
            None => Arc::new(Unlimited),
        }
    }

    /// Returns the limits of accounts and keys, if there are any.
    #[must_use]
    pub fn limits(&self) -> Option<&UsageLimits> {
        self.0.context.limits.as_ref().map(|check| check.rules())
    }

    /// Checks the limits of the account and key of a caller before a request of it starts runs, and
    /// counts the request and the runs. Nothing is counted for a request that is refused, and
    /// nothing is read if no limit applies.
    ///
    /// # Errors
    /// [`BudgetError::Limit`] if a limit is reached, or the request would pass one;
    /// [`BudgetError::Unavailable`] if the store cannot be read.
    pub async fn admit_start(&self, caller: &Caller, runs: u64) -> Result<(), BudgetError> {
        match &self.0.context.limits {
            Some(check) => check.admit(caller, runs).await,
            None => Ok(()),
        }
    }

    /// Id of this runtime as a worker of its store.
    #[must_use]
    pub fn worker(&self) -> &WorkerId {
        self.0.heartbeat.id()
    }

    /// The graphs that the runtime was opened with, by id.
    pub fn graphs(&self) -> impl Iterator<Item = (&str, &CompiledGraph)> {
        self.0.graphs.iter().map(|(id, graph)| (id.as_str(), graph))
    }

    /// Current state of a thread, in its shown form; [`Thread::whole_state`](crate::Thread) reads
    /// all of it. Finished tasks of an open superstep are included, and only the other ones are due.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist,
    /// [`RuntimeError::UnknownGraph`] if its graph is not hosted here, [`RuntimeError::Engine`] if
    /// a checkpoint does not fit the graph.
    pub async fn state(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<Snapshot, RuntimeError> {
        self.read_state(who, thread, &StateQuery::thread(thread.as_str())).await
    }

    /// Reads the state of a thread in the form of the query.
    pub(crate) async fn read_state(
        &self,
        who: &Principal,
        thread: &ThreadId,
        at: &StateQuery,
    ) -> Result<Snapshot, RuntimeError> {
        let origins = Origins::of(self.store().as_ref(), who, thread).await?;
        let graph = self.graph_of(who, thread).await?;
        let graph = self.graph_at(who, &origins, at, graph)?;
        let mut state = graph.state(&self.0.context.looking(who), at, false).await?;
        origins.add(std::slice::from_mut(&mut state)).await?;
        Ok(state)
    }

    /// State of a thread at one of its checkpoints, before the tasks that were due there ran.
    ///
    /// # Errors
    /// As [`state`](Self::state), and [`RuntimeError::UnknownCheckpoint`].
    pub async fn state_at(
        &self,
        who: &Principal,
        thread: &ThreadId,
        at: CheckpointId,
    ) -> Result<Snapshot, RuntimeError> {
        let at = StateQuery { checkpoint: Some(at), ..StateQuery::thread(thread.as_str()) };
        self.read_state(who, thread, &at).await
    }

    /// Checkpoints of a thread on all its branches, newest first.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub async fn history(
        &self,
        who: &Principal,
        thread: &ThreadId,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        self.read_history(who, thread, &StateQuery::thread(thread.as_str()), filter).await
    }

    /// Reads checkpoints of a thread in the form of the query.
    pub(crate) async fn read_history(
        &self,
        who: &Principal,
        thread: &ThreadId,
        at: &StateQuery,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let graph = self.graph_of(who, thread).await?;
        self.history_by(&graph, who, at, filter).await
    }

    /// Reads checkpoints of a thread, those of other graphs than the given one by their own.
    pub(crate) async fn history_by(
        &self,
        graph: &CompiledGraph,
        who: &Principal,
        at: &StateQuery,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let host = self.looking(who);
        let find = |id: &str| self.graph(who, id);
        let store = self.store().as_ref();
        let reader = HistoryReader { graph, host: &host, store, who, find: &find };
        reader.read(at, filter).await
    }

    /// Returns the graph whose run made the checkpoint that a query names; `newest` if it names none.
    pub(crate) fn graph_at(
        &self,
        who: &Principal,
        origins: &Origins<'_>,
        at: &StateQuery,
        newest: CompiledGraph,
    ) -> Result<CompiledGraph, RuntimeError> {
        match at.checkpoint.and_then(|id| origins.graph_of(id)) {
            Some(graph) => self.graph(who, graph),
            None => Ok(newest),
        }
    }

    async fn graph_of(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<CompiledGraph, RuntimeError> {
        let row = self.store().thread(who, thread).await?;
        let graph = row.graph.ok_or_else(|| invariants::missing("run of thread", thread))?;
        self.graph(who, &graph)
    }

    /// The graph of an id for a principal, or of the part of an id after its colon if only one id has it.
    pub(crate) fn find_graph(
        &self,
        who: &Principal,
        name: &str,
    ) -> Result<SourcedGraph, RuntimeError> {
        let hosted = self.0.hosted.read().unwrap_or_else(PoisonError::into_inner);
        let all = || self.0.graphs.iter().chain(hosted.iter());
        let exact = all().find(|(id, _)| *id == name);
        let named = |id: &str| id.split_once(':').is_some_and(|(_, plain)| plain == name);
        let mut found = all().filter(|(id, _)| named(id));
        let found = match (exact, found.next(), found.next()) {
            (Some(exact), ..) => Some(exact),
            (None, Some(only), None) => Some(only),
            _ => None,
        };
        let found = found.map(|(id, graph)| SourcedGraph::own(id, graph.clone()));
        drop(hosted);
        match found {
            Some(found) => Ok(found),
            None => self.sourced(who, name),
        }
    }

    /// Hosts a further graph, in place of an earlier one that was added so. Its runs have the
    /// dependencies of [`provide`](Self::provide) only. Runs that wait for the graph continue with the
    /// next [`recover`](Self::recover). Returns the id of the graph; a name without a colon is one of
    /// the program's own.
    ///
    /// # Errors
    /// [`RuntimeError::DuplicateGraph`] if the runtime was opened with a graph of this id.
    pub fn host(
        &self,
        id: impl Into<String>,
        graph: CompiledGraph,
    ) -> Result<String, RuntimeError> {
        let id = full_id(id.into());
        if self.0.graphs.contains_key(&id) {
            return Err(RuntimeError::DuplicateGraph { id });
        }
        let mut hosted = self.0.hosted.write().unwrap_or_else(PoisonError::into_inner);
        hosted.insert(id.clone(), graph);
        Ok(id)
    }

    /// Returns the program's graph of an id.
    #[must_use]
    pub fn hosted(&self, id: &str) -> Option<CompiledGraph> {
        if let Some(graph) = self.0.graphs.get(id) {
            return Some(graph.clone());
        }
        let hosted = self.0.hosted.read().unwrap_or_else(PoisonError::into_inner);
        hosted.get(id).cloned()
    }

    /// Sets a function that adds dependencies to those of each run, of every graph, in place of an
    /// earlier one.
    pub fn provide<F>(&self, extend: F)
    where
        F: Fn(&Principal, &NewRun, Dependencies) -> Dependencies + Send + Sync + 'static,
    {
        self.0.context.provided.set(extend);
    }

    /// Graphs that a source has for a principal, beside those of the program.
    #[must_use]
    pub fn listed(&self, who: &Principal) -> Vec<ListedGraph> {
        self.0.source.as_ref().map(|source| source.list(who)).unwrap_or_default()
    }

    /// Returns the graph of an id for a principal: one of the program, or one of the source, in the
    /// current version if the id has none.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownGraph`], and errors of the source.
    pub fn resolve(&self, who: &Principal, id: &str) -> Result<SourcedGraph, RuntimeError> {
        match self.hosted(id) {
            Some(graph) => Ok(SourcedGraph::own(id, graph)),
            None => self.sourced(who, id),
        }
    }

    /// The graph for a request on a thread: without a version, that of the thread's last run.
    pub(super) async fn resolve_on(
        &self,
        who: &Principal,
        id: &str,
        thread: &ThreadId,
    ) -> Result<SourcedGraph, RuntimeError> {
        if let Some(graph) = self.hosted(id) {
            return Ok(SourcedGraph::own(id, graph));
        }
        if self.0.source.is_some() && unversioned(id) == id {
            let last = match self.store().thread(who, thread).await {
                Ok(row) => row.graph,
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            if let Some(last) = last.filter(|last| unversioned(last) == id) {
                return self.sourced(who, &last);
            }
        }
        self.sourced(who, id)
    }

    /// Returns a graph of the source for a principal, in the current version if the id has none.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn sourced(&self, who: &Principal, id: &str) -> Result<SourcedGraph, RuntimeError> {
        let source = self.0.source.as_ref();
        if let Some(found) = source.map(|source| source.resolve(who, id)).transpose()?.flatten() {
            return Ok(found);
        }
        let listed = self.listed(who).into_iter().map(|listed| listed.id);
        let known = self.own_ids().into_iter().chain(listed).collect();
        Err(RuntimeError::UnknownGraph { found: id.to_owned(), known })
    }

    /// Ids of the graphs of the program.
    fn own_ids(&self) -> Vec<String> {
        let hosted = self.0.hosted.read().unwrap_or_else(PoisonError::into_inner);
        self.0.graphs.keys().chain(hosted.keys()).cloned().collect()
    }

    /// Ids of all graphs whose runs this process executes.
    pub(super) fn graph_ids(&self) -> Vec<String> {
        let mut ids = self.own_ids();
        ids.extend(self.0.source.iter().flat_map(|source| source.ids()));
        ids
    }

    /// Returns read access to the checkpoints of an organisation.
    pub(crate) fn looking(&self, who: &Principal) -> weftwork_graph::run_loop::Host {
        self.0.context.looking(who)
    }

    /// The projections of the runs whose frames are followed here.
    pub(super) fn projections(&self) -> &Arc<Projections> {
        &self.0.projections
    }

    /// The clock of the runtime.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.context.clock
    }

    /// Requests that a run stop.
    pub(crate) async fn request_cancel(
        &self,
        who: &Principal,
        run: &RunRef,
    ) -> Result<(), StoreError> {
        let asked = self.store().request_cancel(who, run).await;
        // A store that accepts no writes now does not prevent a run here from being stopped. Its
        // error is returned all the same, because the request is not stored yet.
        if asked.as_ref().map_or_else(StoreError::is_retriable, |()| true)
            && let Some(local) = self.running().get(&run.run)
        {
            local.cancel.send_replace(true);
        }
        asked
    }

    pub(super) fn graph(&self, who: &Principal, id: &str) -> Result<CompiledGraph, RuntimeError> {
        Ok(self.resolve(who, id)?.graph)
    }

    pub(super) fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, LocalRun>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a graph; a name without a colon is one of the program's own.
pub(super) fn full_id(id: String) -> String {
    if id.contains(':') { id } else { format!("app:{id}") }
}
