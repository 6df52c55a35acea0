//! Resources that in-process runs share, and the start of a run.

use super::RunEnvironment;
use crate::run_loop::checkpointer::Checkpointer;
use crate::run_loop::node_cache::{CacheKey, NodeCache};
use crate::run_loop::sync::lock;
use std::sync::{Arc, Mutex};
use weftwork_engine::TaskOutput;
use weftwork_types::CheckpointId;
use weftwork_types::item::ItemStore;
use weftwork_types::port::Clock;

/// Resources that in-process runs share: the stores of checkpoints and items, the node cache, and
/// the clock. Clones share them.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    checkpointer: Option<Arc<dyn Checkpointer>>,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    local: Arc<dyn RunEnvironment>,
    environment: Option<Arc<dyn RunEnvironment>>,
    clock: Arc<dyn Clock>,
    cache: Arc<Mutex<NodeCache>>,
    /// The last checkpoint id that was given.
    ids: Arc<Mutex<u128>>,
}

impl Host {
    /// A host without checkpoints and items, over a clock and the environment of this program.
    pub(crate) fn over(clock: Arc<dyn Clock>, local: Arc<dyn RunEnvironment>) -> Self {
        Self(Arc::new(Inner {
            checkpointer: None,
            items: None,
            rebuilds: false,
            local,
            environment: None,
            clock,
            cache: Arc::default(),
            ids: Arc::default(),
        }))
    }

    /// Sets the clock, and the environment of this program.
    pub(crate) fn on(self, clock: Arc<dyn Clock>, local: Arc<dyn RunEnvironment>) -> Self {
        self.with(|inner| {
            inner.local = local;
            inner.clock = clock;
        })
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            checkpointer: self.0.checkpointer.clone(),
            items: self.0.items.clone(),
            rebuilds: self.0.rebuilds,
            local: Arc::clone(&self.0.local),
            environment: self.0.environment.clone(),
            clock: Arc::clone(&self.0.clock),
            cache: Arc::clone(&self.0.cache),
            ids: Arc::clone(&self.0.ids),
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Keeps checkpoints here.
    #[must_use]
    pub fn with_checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.with(|inner| inner.checkpointer = Some(checkpointer))
    }

    /// Gives nodes a long-term store.
    #[must_use]
    pub fn with_items(self, items: Arc<dyn ItemStore>) -> Self {
        self.with(|inner| inner.items = Some(items))
    }

    /// Drops what a run knows after each superstep, and reads it back from the saver: for proving
    /// that nothing a run needs is in memory only. Where checkpoints are written behind, that is
    /// when the next superstep is closed.
    #[must_use]
    pub fn rebuilding(self) -> Self {
        self.with(|inner| inner.rebuilds = true)
    }

    /// Runs in another environment than that of this program.
    #[must_use]
    pub fn in_environment(self, environment: Arc<dyn RunEnvironment>) -> Self {
        self.with(|inner| inner.environment = Some(environment))
    }

    pub(crate) fn environment(&self) -> &dyn RunEnvironment {
        self.0.environment.as_deref().unwrap_or(&*self.0.local)
    }

    pub(crate) fn rebuilds(&self) -> bool {
        self.0.rebuilds
    }

    /// Keeps at most so many results of nodes with a
    /// [`Cache`](crate::Cache), in place of 1,000; with 0 none is
    /// used again. Each result counts as one, of whichever node and graph and however large it is.
    /// When there are more, those that have expired go first, then the ones that were not used for
    /// longest. The host begins with an empty cache of its own.
    #[must_use]
    pub fn with_cache_limit(self, results_max: usize) -> Self {
        self.with(|inner| inner.cache = Arc::new(Mutex::new(NodeCache::new(results_max))))
    }

    /// Where checkpoints are kept.
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

    /// An id for a checkpoint: greater than all that were given or seen. The first is of the
    /// clock's time, the others count on from it.
    pub(crate) fn next_id(&self) -> CheckpointId {
        let mut last = lock(&self.0.ids);
        if *last == 0 {
            *last = self.0.clock.unique();
        }
        *last += 1;
        CheckpointId(*last)
    }

    /// Room for the ids of one run, and then some: they come after the id this returns.
    pub(crate) fn id_block(&self) -> u128 {
        const BLOCK: u128 = 1 << 32;
        let before = self.next_id().0;
        let mut last = lock(&self.0.ids);
        *last = (*last).max(before + BLOCK);
        before
    }

    /// The newest checkpoint of a thread: ids that are given from now on are greater. Where the
    /// clock is behind it they follow at a random distance: another process whose clock is behind
    /// gives others after the same checkpoint.
    pub(crate) fn seen_id(&self, id: CheckpointId) {
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
        lock(&self.0.cache).get(key, self.0.clock.elapsed())
    }

    pub(crate) fn cache(&self, key: CacheKey, output: Arc<TaskOutput>) {
        lock(&self.0.cache).put(key, output, self.0.clock.elapsed());
    }
}
