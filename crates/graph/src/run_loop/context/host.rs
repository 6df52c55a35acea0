//! Resources that in-process runs share, and the start of a run.

use super::RunEnvironment;
use crate::run_loop::checkpointer::Checkpointer;
use crate::run_loop::node_cache::{CacheKey, NodeCache};
use crate::run_loop::sync::lock;
use std::sync::{Arc, Mutex};
use weftwork_engine::TaskOutput;
use weftwork_types::CheckpointId;
use weftwork_types::item::ItemStore;
use weftwork_types::port::{Clock, Dependencies};

/// Resources that in-process runs share: the stores of checkpoints and items, the node cache, and
/// the clock. Clones share them.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    checkpointer: Option<Arc<dyn Checkpointer>>,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    environment: Arc<dyn RunEnvironment>,
    dependencies: Dependencies,
    clock: Arc<dyn Clock>,
    cache: Arc<Mutex<NodeCache>>,
    /// The last checkpoint id that was issued.
    ids: Arc<Mutex<u128>>,
}

impl Host {
    /// A host without checkpoints and items.
    pub(crate) fn over(clock: Arc<dyn Clock>, environment: Arc<dyn RunEnvironment>) -> Self {
        Self(Arc::new(Inner {
            checkpointer: None,
            items: None,
            rebuilds: false,
            environment,
            dependencies: Dependencies::new(),
            clock,
            cache: Arc::default(),
            ids: Arc::default(),
        }))
    }

    /// Takes time from another clock than that of the system.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|inner| inner.clock = clock)
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            checkpointer: self.0.checkpointer.clone(),
            items: self.0.items.clone(),
            rebuilds: self.0.rebuilds,
            environment: Arc::clone(&self.0.environment),
            dependencies: self.0.dependencies.clone(),
            clock: Arc::clone(&self.0.clock),
            cache: Arc::clone(&self.0.cache),
            ids: Arc::clone(&self.0.ids),
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Sets the checkpointer that stores the checkpoints of runs.
    #[must_use]
    pub fn with_checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.with(|inner| inner.checkpointer = Some(checkpointer))
    }

    /// Gives nodes a long-term store.
    #[must_use]
    pub fn with_items(self, items: Arc<dyn ItemStore>) -> Self {
        self.with(|inner| inner.items = Some(items))
    }

    /// Drops the state of a run after each superstep and restores it from the checkpointer, to
    /// prove that nothing a run needs is in memory only. With checkpoints that are written
    /// asynchronously, this happens when the next superstep is closed.
    #[must_use]
    pub fn rebuilding(self) -> Self {
        self.with(|inner| inner.rebuilds = true)
    }

    /// Runs in another environment than that of this program.
    #[must_use]
    pub fn in_environment(self, environment: Arc<dyn RunEnvironment>) -> Self {
        self.with(|inner| inner.environment = environment)
    }

    /// Sets the values that nodes and tools take before those of their graph and tool box. Results
    /// of nodes are cached for this host alone, because they may depend on the values.
    #[must_use]
    pub fn with_dependencies(self, dependencies: Dependencies) -> Self {
        self.with(|inner| {
            let cache = lock(&inner.cache).emptied();
            inner.cache = Arc::new(Mutex::new(cache));
            inner.dependencies = dependencies;
        })
    }

    pub(crate) fn dependencies(&self) -> &Dependencies {
        &self.0.dependencies
    }

    pub(crate) fn environment(&self) -> &dyn RunEnvironment {
        &*self.0.environment
    }

    pub(crate) fn rebuilds(&self) -> bool {
        self.0.rebuilds
    }

    /// Limits the cached results of nodes with a [`Cache`](crate::Cache) to `results_max`, in place
    /// of 1,000; with 0 no result is used again. Each result counts as one, whatever its node,
    /// graph and size. Beyond the limit, expired results are dropped first, then the least recently
    /// used ones. The host begins with an empty cache of its own.
    #[must_use]
    pub fn with_cache_limit(self, results_max: usize) -> Self {
        self.with(|inner| inner.cache = Arc::new(Mutex::new(NodeCache::new(results_max))))
    }

    /// The store of checkpoints, if the host has one.
    #[must_use]
    pub fn checkpointer(&self) -> Option<&Arc<dyn Checkpointer>> {
        self.0.checkpointer.as_ref()
    }

    pub(crate) fn items(&self) -> Option<&Arc<dyn ItemStore>> {
        self.0.items.as_ref()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Issues an id for a checkpoint: greater than all ids that were issued or seen. The first is
    /// derived from the time of the clock, the others count on from it.
    pub(crate) fn next_id(&self) -> CheckpointId {
        let mut last = lock(&self.0.ids);
        if *last == 0 {
            *last = self.0.clock.unique();
        }
        *last += 1;
        CheckpointId(*last)
    }

    /// Reserves more ids than one run needs; they follow the returned id.
    pub(crate) fn id_block(&self) -> u128 {
        const BLOCK: u128 = 1 << 32;
        let before = self.next_id().0;
        // Runs at the same time count within blocks of their own, so that an id takes no lock.
        let mut last = lock(&self.0.ids);
        *last = (*last).max(before + BLOCK);
        before
    }

    /// Records the id of a thread's newest checkpoint: ids that are issued from now on are greater.
    /// If the clock is behind it, they follow at a random distance, because another process whose
    /// clock is behind issues ids after the same checkpoint.
    pub(crate) fn seen_id(&self, id: CheckpointId) {
        // Processes that draw different distances have room for 2^24 ids between them.
        const SPACING: u32 = 24;
        let mut last = lock(&self.0.ids);
        if *last == 0 {
            *last = self.0.clock.unique();
        }
        if *last < id.0 {
            let random = self.0.clock.unique() & u128::from(u32::MAX);
            *last = id.0.saturating_add(random << SPACING);
        }
    }

    pub(crate) fn cached(&self, key: &CacheKey) -> Option<Arc<TaskOutput>> {
        // By elapsed time, which does not jump with the clock of the system.
        lock(&self.0.cache).get(key, self.0.clock.elapsed())
    }

    pub(crate) fn cache(&self, key: CacheKey, output: Arc<TaskOutput>) {
        lock(&self.0.cache).put(key, output, self.0.clock.elapsed());
    }
}
