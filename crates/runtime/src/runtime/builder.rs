//! Putting a runtime together.

use super::{Inner, Runtime, orphans, queue};
use crate::hosted::Host;
use crate::worker::{Heartbeat, Pace};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, watch};
use weftwork_graph::CompiledGraph;
use weftwork_graph::RuntimeError;
use weftwork_graph::exec::CACHED_MAX;
use weftwork_store::{ItemStore, Store, StoreItems, StoreLedger};
use weftwork_types::WorkerId;
use weftwork_types::port::{Budget, Clock, Ledger, Unlimited};

/// Recording of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// They are.
    #[default]
    On,
    /// They are not: a resumed node makes them again. Only for the test that shows what the
    /// journal is good for.
    Off,
}

/// Handling of runs that no living worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orphans {
    /// It leaves them to others, and to [`Runtime::take_over`] and [`Runtime::recover`]: for
    /// processes that come for one thing and go.
    #[default]
    Leave,
    /// It looks for them again and again and takes those to their ends whose graphs it hosts, and
    /// goes on with threads whose time has come ([`Runtime::wake`]): for processes that stay.
    TakeOver,
}

/// Puts a [`Runtime`] together.
#[derive(Debug)]
#[must_use]
pub struct RuntimeBuilder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    budget: Arc<dyn Budget>,
    journal: JournalMode,
    orphans: Orphans,
    pace: Pace,
    attempts_max: u32,
    cached_max: usize,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    graphs: Vec<(String, CompiledGraph)>,
}

impl RuntimeBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(weftwork_graph::SystemClock::new()),
            budget: Arc::new(Unlimited),
            journal: JournalMode::On,
            orphans: Orphans::default(),
            pace: Pace::default(),
            attempts_max: 3,
            cached_max: CACHED_MAX,
            items: None,
            rebuilds: false,
            graphs: Vec::new(),
        }
    }

    /// Hosts a graph under an id of the form `provider:name`. A name without a colon stands for
    /// `app:NAME`.
    pub fn graph(mut self, id: impl Into<String>, graph: CompiledGraph) -> Self {
        let id = id.into();
        let id = if id.contains(':') { id } else { format!("app:{id}") };
        self.graphs.push((id, graph));
        self
    }

    /// Takes time from another clock than the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Limits what all runs together may spend.
    pub fn budget(mut self, budget: Arc<dyn Budget>) -> Self {
        self.budget = budget;
        self
    }

    /// Switches the journal; see [`JournalMode`].
    pub fn journal(mut self, mode: JournalMode) -> Self {
        self.journal = mode;
        self
    }

    /// Switches the taking over of runs that no living worker has; see [`Orphans`].
    pub fn orphans(mut self, orphans: Orphans) -> Self {
        self.orphans = orphans;
        self
    }

    /// Changes how fast the death of a worker is noticed. Workers of one store keep one pace.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Changes how many workers a run may end, one after the other and without getting a
    /// superstep further, until it is ended as failed; three by default, at least one.
    pub fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max.max(1);
        self
    }

    /// Keeps at most so many results of nodes with a [`Cache`](weftwork_graph::Cache), in place of 1,000; see
    /// [`Host::with_cache_limit`](weftwork_graph::exec::Host::with_cache_limit).
    pub fn cache_limit(mut self, results_max: usize) -> Self {
        self.cached_max = results_max;
        self
    }

    /// Gives nodes another long-term store than the items of the runtime's own store.
    pub fn items(mut self, items: Arc<dyn ItemStore>) -> Self {
        self.items = Some(items);
        self
    }

    /// Drops the state of a run after each superstep, and reads it back from the store: for tests
    /// that nothing a run needs is in memory only.
    pub fn rebuilding(mut self) -> Self {
        self.rebuilds = true;
        self
    }

    /// Registers this process as a worker of the store and opens for business.
    ///
    /// # Errors
    /// [`RuntimeError::DuplicateGraph`], or what the store said.
    pub async fn open(self) -> Result<Runtime, RuntimeError> {
        let mut graphs = BTreeMap::new();
        for (id, graph) in self.graphs {
            if graphs.insert(id.clone(), graph).is_some() {
                return Err(RuntimeError::DuplicateGraph { id });
            }
        }
        let worker = WorkerId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()));
        let heartbeat =
            Heartbeat::start(Arc::clone(&self.store), Arc::clone(&self.clock), worker, self.pace)
                .await?;
        let ledger: Arc<dyn Ledger> = Arc::new(StoreLedger::new(Arc::clone(&self.store)));
        let clock = Arc::clone(&self.clock);
        let items = self.items.unwrap_or_else(|| {
            Arc::new(StoreItems::of(Arc::clone(&self.store), Arc::clone(&clock)))
        });
        let local = weftwork_graph::exec::Host::new().with_clock(clock).with_items(items);
        let local = if self.rebuilds { local.rebuilding() } else { local };
        let host = Arc::new(Host {
            store: self.store,
            clock: self.clock,
            ledger,
            budget: self.budget,
            journal: self.journal == JournalMode::On,
            rebuilds: self.rebuilds,
            suspects: Arc::new(Semaphore::new(1)),
            attempts_max: self.attempts_max,
            local: local.with_cache_limit(self.cached_max),
            recent: Arc::default(),
            closing: Arc::default(),
        });
        let inner = Arc::new(Inner {
            host,
            graphs,
            heartbeat,
            running: Mutex::default(),
            ends: watch::Sender::new(0),
        });
        tokio::spawn(queue::heed(Arc::downgrade(&inner)));
        if self.orphans == Orphans::TakeOver {
            tokio::spawn(orphans::look(Arc::downgrade(&inner), self.pace));
        }
        Ok(Runtime(inner))
    }
}
