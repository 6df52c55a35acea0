//! Construction of a runtime.

use super::core::{Inner, Runtime, full_id};
use super::executor_wrapper::ExecutorWrapper;
use super::mailboxes::Mailboxes;
use super::remote_servers::RemoteServers;
use super::slots::Slots;
use super::{bill, queue, recovery, remote_deletions, wakes};
use crate::context::WorkerContext;
use crate::dependencies::{DependencyError, MakeDependencies, Provided};
use crate::graph_source::GraphSource;
use crate::ledger::StoreLedger;
use crate::limits::{LimitCheck, UsageLimits};
use crate::program_version::ProgramVersion;
use crate::worker::{Heartbeat, LeaseConfig};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use tokio::sync::{Semaphore, watch};
use weftwork_graph::run_loop::CACHED_MAX;
use weftwork_graph::{CompiledGraph, IntoGraph, InvalidGraph, RuntimeError};
use weftwork_store::{ItemStore, MemoryStore, NewRun, Store, StoreItems};
use weftwork_types::port::{
    Budgets, Clock, Dependencies, GraphExecutor, Limits, RemoteThreads, RunObserver, Unlimited,
};
use weftwork_types::{Principal, WorkerId};

/// Maximum number of runs of which a process with recovery records that they wait for a slot.
const WAITING_MAX: usize = 10_000;

/// Handling of runs that no living worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Only on request, by [`Runtime::take_over`], [`Runtime::resume`] and [`Runtime::recover`].
    /// For short-lived processes.
    #[default]
    Manual,
    /// At regular intervals ([`LeaseConfig`]), the runtime takes over runs whose graphs it hosts,
    /// and wakes threads at their times ([`Runtime::wake`]). For long-lived processes.
    Automatic,
}

/// Builder of a [`Runtime`].
#[derive(Debug)]
#[must_use]
pub struct RuntimeBuilder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    program_version: Option<String>,
    budgets: Arc<dyn Budgets>,
    thread_budget: Option<Limits>,
    limits: UsageLimits,
    recovery: Recovery,
    lease: LeaseConfig,
    attempts_max: u32,
    runs_max: usize,
    cached_max: usize,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    source: Option<Arc<dyn GraphSource>>,
    of_source: Option<MakeDependencies>,
    graphs: Vec<(String, Result<CompiledGraph, InvalidGraph>)>,
    dependencies: BTreeMap<String, MakeDependencies>,
    remote_servers: RemoteServers,
    wrap_executor: Option<ExecutorWrapper>,
    observer: Option<Arc<dyn RunObserver>>,
}

impl Runtime {
    /// Builder of a runtime over a store in memory: its threads are lost with the process.
    pub fn in_memory() -> RuntimeBuilder {
        RuntimeBuilder::new(Arc::new(MemoryStore::new()))
    }

    /// Builder of a runtime over a store.
    pub fn builder(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder::new(store)
    }
}

impl RuntimeBuilder {
    fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(weftwork_graph::SystemClock::new()),
            program_version: None,
            budgets: Arc::new(Unlimited),
            thread_budget: None,
            limits: UsageLimits::default(),
            recovery: Recovery::default(),
            lease: LeaseConfig::default(),
            attempts_max: 3,
            runs_max: usize::MAX,
            cached_max: CACHED_MAX,
            items: None,
            rebuilds: false,
            source: None,
            of_source: None,
            graphs: Vec::new(),
            dependencies: BTreeMap::new(),
            remote_servers: RemoteServers::default(),
            wrap_executor: None,
            observer: None,
        }
    }

    /// Sets the version that usage facts show of graphs without one of their own, such as the commit that
    /// the program was built from. The default is the build id of the executable, which differs between
    /// builds.
    pub fn program_version(mut self, version: impl Into<String>) -> Self {
        self.program_version = Some(version.into());
        self
    }

    /// Hosts a graph or an agent under an id of the form `provider:name`. A name without a colon is
    /// short for `app:NAME`. Problems of a graph that is not compiled are reported by
    /// [`open`](Self::open).
    pub fn graph(mut self, id: impl Into<String>, graph: impl IntoGraph) -> Self {
        self.graphs.push((full_id(id.into()), graph.into_graph()));
        self
    }

    /// Hosts a graph whose runs have dependencies of their own: the function makes them from the
    /// principal and the stored run, before the first node of the run. Nodes take them as
    /// [`Deps<T>`](weftwork_graph::Deps) and tools as `Deps<T>` of the tools, in subgraphs too,
    /// before the values of [`Graph::with`](weftwork_graph::Graph::with) and `ToolBox::provide`. A
    /// process that takes the run over calls the function again with the same stored run. An error
    /// of the function fails the run (W0136). Results of nodes with a
    /// [`Cache`](weftwork_graph::Cache) are not shared between such runs.
    ///
    /// ```
    /// use serde_json::json;
    /// use weftwork_graph::{Deps, Graph, List, START, State};
    /// use weftwork_runtime::Runtime;
    /// use weftwork_types::port::Dependencies;
    ///
    /// struct Database { name: String }
    ///
    /// #[derive(State)]
    /// struct Refund {
    ///     #[channel(append)]
    ///     log: List<String>,
    /// }
    ///
    /// async fn pay(database: Deps<Database>) -> RefundUpdate {
    ///     RefundUpdate::new().log([format!("paid from {}", database.name)])
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = Graph::<Refund>::new("refund")
    ///     .with_run_scoped::<Database>()
    ///     .node("pay", pay)
    ///     .edge(START, "pay")
    ///     .build()?;
    /// let runtime = Runtime::in_memory()
    ///     .graph_with("refund", graph, |principal, _run| {
    ///         let name = principal.org.to_string();
    ///         Ok(Dependencies::new().with(Database { name }))
    ///     })
    ///     .open()
    ///     .await?;
    /// let ended = runtime.thread("refund", "order-7")?.start(json!({})).await?;
    /// assert_eq!(ended.output()?["log"], json!(["paid from local"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn graph_with<F>(self, id: impl Into<String>, graph: impl IntoGraph, make: F) -> Self
    where
        F: Fn(&Principal, &NewRun) -> Result<Dependencies, DependencyError> + Send + Sync + 'static,
    {
        self.graph_with_async(id, graph, move |principal, run| {
            std::future::ready(make(&principal, &run))
        })
    }

    /// Hosts a graph as [`graph_with`](Self::graph_with) does, with an asynchronous function. It is
    /// dropped if the run is cancelled.
    pub fn graph_with_async<F, R>(
        mut self,
        id: impl Into<String>,
        graph: impl IntoGraph,
        make: F,
    ) -> Self
    where
        F: Fn(Principal, NewRun) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Dependencies, DependencyError>> + Send + 'static,
    {
        let id = full_id(id.into());
        let make = MakeDependencies::new(move |who, run| Box::pin(make(who, run)));
        self.dependencies.insert(id.clone(), make);
        self.graph(id, graph)
    }

    /// Sets the source of further graphs.
    pub fn graph_source(mut self, source: Arc<dyn GraphSource>) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the source of further graphs, with a function that makes the dependencies of their runs,
    /// as that of [`graph_with`](Self::graph_with) does.
    pub fn graph_source_with<F>(self, source: Arc<dyn GraphSource>, make: F) -> Self
    where
        F: Fn(&Principal, &NewRun) -> Result<Dependencies, DependencyError> + Send + Sync + 'static,
    {
        let make = MakeDependencies::new(move |who, run| {
            let made = make(&who, &run);
            Box::pin(std::future::ready(made))
        });
        Self { of_source: Some(make), ..self.graph_source(source) }
    }

    /// Sets the clock; the system clock by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of the budgets of runs, such as [`Limits`](weftwork_types::port::Limits);
    /// runs have no limits by default.
    pub fn budgets(mut self, budgets: impl Budgets + 'static) -> Self {
        self.budgets = Arc::new(budgets);
        self
    }

    /// Limits the runs of each thread together, in addition to the budgets of runs; a session is
    /// that of its thread. The usage of earlier runs is that of their logs, rolled back runs
    /// included. Usage on other threads, such as those of nested evaluations, is limited by the
    /// budget of the run that causes it.
    pub fn thread_budget(mut self, limits: Limits) -> Self {
        self.thread_budget = Some(limits);
        self
    }

    /// Limits what accounts and keys use, over all processes of the store: each one needs the same
    /// limits. A model call that would pass a limit is refused before it is made (W0661). Limits of
    /// requests and runs are checked by [`Runtime::admit_start`], which servers call.
    pub fn limits(mut self, limits: UsageLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces the source of the budgets of runs by one that is made from the present one.
    pub fn map_budgets(mut self, map: impl FnOnce(Arc<dyn Budgets>) -> Arc<dyn Budgets>) -> Self {
        self.budgets = map(self.budgets);
        self
    }

    /// Wraps the executor through which runs start and are cancelled: one that counts, limits or
    /// refuses requests, for example. An earlier wrapper is wrapped by a later one.
    ///
    /// The function is called for each request, with the executor of the runtime for this request;
    /// what its executors share is captured by the function. Every request passes exactly once:
    /// those of the runtime as [`GraphExecutor`], of threads, servers, evaluations and instances,
    /// and those by which the runtime itself wakes, resumes or rolls back threads, or sets an
    /// activity aside. Runs that were accepted before, and are taken over or requeued, do not pass
    /// again.
    ///
    /// The error of an executor that refuses a request reaches the caller as
    /// [`RuntimeError::Node`], and nothing is stored. A run that an executor starts elsewhere has no
    /// events for [`ThreadRun::report_to`](crate::ThreadRun::report_to).
    pub fn map_executor<F>(mut self, map: F) -> Self
    where
        F: Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + Send + Sync + 'static,
    {
        let outer = ExecutorWrapper::new(map);
        self.wrap_executor = Some(match self.wrap_executor {
            Some(inner) => inner.wrapped_by(outer),
            None => outer,
        });
        self
    }

    /// Sets the observer of the runs whose end this process records; none by default. Its work is
    /// completed by [`Runtime::shutdown`].
    pub fn observer(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the handling of runs that no living worker has; see [`Recovery`].
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Sets the intervals that decide how fast the death of a worker is detected. All workers of a
    /// store must use the same intervals.
    pub fn lease(mut self, lease: LeaseConfig) -> Self {
        self.lease = lease;
        self
    }

    /// Changes how many workers a run may end, one after the other and without getting a
    /// superstep further, until it is ended as failed; three by default, at least one.
    pub fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max.max(1);
        self
    }

    /// Limits the number of runs that this process executes at once; at least one. There is no
    /// limit by default.
    ///
    /// Further runs wait in the store, as pending, and begin in order: organisations with waiting
    /// runs take turns, and the runs of an organisation begin in the order in which they were
    /// accepted. With [`Recovery::Automatic`], a waiting run may begin in another process of the
    /// store. Waiting runs remain pending when the process ends.
    ///
    /// A node that waits for the end of another run of its own process occupies a slot meanwhile;
    /// if all slots are occupied so, the runs wait for each other.
    pub fn runs_max(mut self, runs_max: usize) -> Self {
        self.runs_max = runs_max.max(1);
        self
    }

    /// Limits the number of stored results of nodes with a [`Cache`](weftwork_graph::Cache), 1,000
    /// by default; see
    /// [`Host::with_cache_limit`](weftwork_graph::run_loop::Host::with_cache_limit).
    pub fn cache_limit(mut self, results_max: usize) -> Self {
        self.cached_max = results_max;
        self
    }

    /// Gives nodes another long-term store than the items of the runtime's own store.
    pub fn items(mut self, items: Arc<dyn ItemStore>) -> Self {
        self.items = Some(items);
        self
    }

    /// Adds a server on which graphs of the runtime use threads, such as `RemoteServer`. When a local
    /// thread is deleted, its threads there are deleted later; see
    /// [`Runtime::delete_remote_threads`].
    pub fn remote_server(mut self, server: Arc<dyn RemoteThreads>) -> Self {
        self.remote_servers.all.push(server);
        self
    }

    /// Drops the state of a run after each superstep, and reads it back from the store: for tests
    /// that nothing a run needs is in memory only.
    pub fn rebuilding(mut self) -> Self {
        self.rebuilds = true;
        self
    }

    /// Registers this process as a worker of the store and starts the runtime.
    ///
    /// # Errors
    /// [`RuntimeError::InvalidGraph`] with the problems of all graphs,
    /// [`RuntimeError::DuplicateGraph`], and [`RuntimeError::Store`] if the worker cannot be
    /// registered.
    pub async fn open(self) -> Result<Runtime, RuntimeError> {
        let graphs = compiled_graphs(self.graphs)?;
        let worker = WorkerId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()));
        let heartbeat =
            Heartbeat::start(Arc::clone(&self.store), Arc::clone(&self.clock), worker, self.lease)
                .await?;
        let ledger = StoreLedger::new(Arc::clone(&self.store), Arc::clone(&self.clock));
        let clock = Arc::clone(&self.clock);
        let items = self.items.unwrap_or_else(|| {
            Arc::new(StoreItems::of(Arc::clone(&self.store), Arc::clone(&clock)))
        });
        let limits = Some(self.limits).filter(|limits| !limits.is_empty()).map(|limits| {
            let store = Arc::clone(&self.store);
            Arc::new(LimitCheck::new(limits, store, Arc::clone(&self.clock)))
        });
        let local = weftwork_graph::run_loop::Host::new().with_clock(clock).with_items(items);
        let local = if self.rebuilds { local.rebuilding() } else { local };
        let context = Arc::new(WorkerContext {
            store: self.store,
            clock: self.clock,
            ledger,
            program_version: ProgramVersion::new(self.program_version),
            budgets: self.budgets,
            limits,
            thread_budget: self.thread_budget,
            rebuilds: self.rebuilds,
            dependencies: self.dependencies,
            of_source: self.of_source,
            provided: Provided::default(),
            suspects: Arc::new(Semaphore::new(1)),
            attempts_max: self.attempts_max,
            local: local.with_cache_limit(self.cached_max),
            recent: Arc::default(),
            timers: Arc::default(),
            live: Arc::default(),
            observer: self.observer,
            shutdown: Arc::default(),
        });
        // Other runs are found by recovery.
        let waiting_max = match self.recovery {
            Recovery::Manual => usize::MAX,
            Recovery::Automatic => WAITING_MAX,
        };
        let slots = Slots::new(self.runs_max, waiting_max);
        let inner = Arc::new(Inner {
            context,
            graphs,
            hosted: RwLock::default(),
            source: self.source,
            mailboxes: Mailboxes::default(),
            remote_servers: Arc::new(self.remote_servers),
            wrap_executor: self.wrap_executor,
            heartbeat,
            slots,
            running: Mutex::default(),
            projections: Arc::default(),
            ends: watch::Sender::new(0),
        });
        tokio::spawn(bill::move_usage(Arc::downgrade(&inner)));
        tokio::spawn(queue::cancel_requested_runs(Arc::downgrade(&inner)));
        if self.runs_max < usize::MAX {
            tokio::spawn(queue::begin_waiting_runs(Arc::downgrade(&inner)));
        }
        if self.recovery == Recovery::Automatic {
            tokio::spawn(recovery::recover_at_intervals(Arc::downgrade(&inner), self.lease));
            tokio::spawn(wakes::wake_at_times(Arc::downgrade(&inner), self.lease));
            if !inner.remote_servers.all.is_empty() {
                tokio::spawn(remote_deletions::pass_on(Arc::downgrade(&inner)));
            }
        }
        Ok(Runtime(inner))
    }
}

/// Returns the graphs by their ids, or the problems of all of them.
fn compiled_graphs(
    given: Vec<(String, Result<CompiledGraph, InvalidGraph>)>,
) -> Result<BTreeMap<String, CompiledGraph>, RuntimeError> {
    let mut graphs = BTreeMap::new();
    let mut invalid = Vec::new();
    for (id, graph) in given {
        if graphs.contains_key(&id) {
            return Err(RuntimeError::DuplicateGraph { id });
        }
        match graph {
            Ok(graph) => drop(graphs.insert(id, graph)),
            Err(error) => invalid.push(error),
        }
    }
    InvalidGraph::join(invalid).map_or(Ok(graphs), |error| Err(error.into()))
}
