//! What runs in this process share, and starting one.

use super::environment::RunEnvironment;
use super::in_process::LocalEnvironment;
use super::saver::Saver;
use super::scope::lock;
use crate::clock::SystemClock;
use crate::policy::Cache;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_engine::TaskOutput;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::Hash;
use weftwork_types::item::ItemStore;
use weftwork_types::port::Clock;

/// What runs in this process share: where checkpoints and items are kept, the cache of nodes, and
/// time. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    saver: Option<Arc<dyn Saver>>,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    local: LocalEnvironment,
    environment: Option<Arc<dyn RunEnvironment>>,
    clock: Arc<dyn Clock>,
    cache: Arc<Mutex<BTreeMap<CacheKey, Cached>>>,
    /// The last checkpoint id that was given.
    ids: Arc<Mutex<u128>>,
}

/// Under which key a node's result is cached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheKey {
    graph: String,
    node: String,
    input: Hash,
    time: Option<Duration>,
}

#[derive(Debug)]
struct Cached {
    output: Arc<TaskOutput>,
    until: Option<Duration>,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// A host that keeps no checkpoints.
    #[must_use]
    pub fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self(Arc::new(Inner {
            saver: None,
            items: None,
            rebuilds: false,
            local: LocalEnvironment::new(Arc::clone(&clock)),
            environment: None,
            clock,
            cache: Arc::default(),
            ids: Arc::default(),
        }))
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            saver: self.0.saver.clone(),
            items: self.0.items.clone(),
            rebuilds: self.0.rebuilds,
            local: self.0.local.clone(),
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
    pub fn with_saver(self, saver: Arc<dyn Saver>) -> Self {
        self.with(|inner| inner.saver = Some(saver))
    }

    /// Gives nodes a long-term store.
    #[must_use]
    pub fn with_items(self, items: Arc<dyn ItemStore>) -> Self {
        self.with(|inner| inner.items = Some(items))
    }

    /// Drops what a run knows after each superstep, and reads it back from the saver: for proving
    /// that nothing a run needs is in memory only.
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
        self.0.environment.as_deref().unwrap_or(&self.0.local)
    }

    pub(crate) fn rebuilds(&self) -> bool {
        self.0.rebuilds
    }

    /// Takes time from another clock than the system's.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|inner| {
            inner.local = LocalEnvironment::new(Arc::clone(&clock));
            inner.clock = clock;
        })
    }

    /// Where checkpoints are kept.
    #[must_use]
    pub fn saver(&self) -> Option<&Arc<dyn Saver>> {
        self.0.saver.as_ref()
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

    /// A checkpoint that is kept: ids that are given from now on are greater.
    pub(crate) fn seen_id(&self, id: CheckpointId) {
        let mut last = lock(&self.0.ids);
        if *last == 0 {
            *last = self.0.clock.unique();
        }
        *last = (*last).max(id.0);
    }

    pub(crate) fn cache_key(
        &self,
        graph: &str,
        node: &str,
        input: &Json,
        cache: Cache,
    ) -> CacheKey {
        let input = weftwork_types::canonical::hash(input);
        CacheKey { graph: graph.to_owned(), node: node.to_owned(), input, time: cache.time }
    }

    pub(crate) fn cached(&self, key: &CacheKey) -> Option<Arc<TaskOutput>> {
        let mut cache = lock(&self.0.cache);
        let found = cache.get(key)?;
        if found.until.is_some_and(|until| until <= self.0.clock.elapsed()) {
            cache.remove(key);
            return None;
        }
        Some(Arc::clone(&found.output))
    }

    pub(crate) fn cache(&self, key: CacheKey, output: Arc<TaskOutput>) {
        let until = key.time.map(|time| self.0.clock.elapsed().saturating_add(time));
        lock(&self.0.cache).insert(key, Cached { output, until });
    }
}
