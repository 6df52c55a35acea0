//! What runs in this process share, and starting one.

use super::event::Modes;
use super::hosting::{Attempt, Hosting};
use super::saver::Saver;
use super::scope::{TaskAt, lock};
use crate::clock::SystemClock;
use crate::journal::{Book, TaskJournal};
use crate::policy::Cache;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_engine::TaskOutput;
use weftwork_store::items::ItemStore;
use weftwork_types::caller::{Caller, GraphCaller};
use weftwork_types::canonical::Hash;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{
    Budget, CallContext, Clock, Emit, Journal, Ledger, NoJournal, NoLedger, Unlimited,
};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId};

/// What runs in this process share: where checkpoints and items are kept, the cache of nodes, and
/// time. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    saver: Option<Arc<dyn Saver>>,
    items: Option<Arc<dyn ItemStore>>,
    rebuilds: bool,
    hosting: Option<Arc<dyn Hosting>>,
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
        Self(Arc::new(Inner {
            saver: None,
            items: None,
            rebuilds: false,
            hosting: None,
            clock: Arc::new(SystemClock::new()),
            cache: Arc::default(),
            ids: Arc::default(),
        }))
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            saver: self.0.saver.clone(),
            items: self.0.items.clone(),
            rebuilds: self.0.rebuilds,
            hosting: self.0.hosting.clone(),
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
    /// that nothing a run needs is in memory only. Where checkpoints are written behind, that is
    /// when the next superstep is closed.
    #[must_use]
    pub fn rebuilding(self) -> Self {
        self.with(|inner| inner.rebuilds = true)
    }

    /// Lets what a worker has claimed run here.
    pub(crate) fn hosted_by(self, hosting: Arc<dyn Hosting>) -> Self {
        self.with(|inner| inner.hosting = Some(hosting))
    }

    pub(crate) fn hosting(&self) -> Option<&Arc<dyn Hosting>> {
        self.0.hosting.as_ref()
    }

    pub(crate) fn rebuilds(&self) -> bool {
        self.0.rebuilds
    }

    /// Takes time from another clock than the system's.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|inner| inner.clock = clock)
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

    /// What a node's model and tool calls get in a run of this process: nobody is billed, and they
    /// are journaled when the run's checkpoints are kept.
    pub(crate) fn calls(&self, at: &TaskAt, attempt: Attempt<'_>) -> CallContext {
        if let Some(hosting) = &self.0.hosting {
            return hosting.calls(at, attempt);
        }
        let beat = attempt.beat;
        let journal: Arc<dyn Journal> = match at.keeper() {
            Some(keeper) => Arc::new(TaskJournal::new(Book::Task(keeper), at, attempt)),
            None => Arc::new(NoJournal),
        };
        let shared = at.scope.shared.in_process.get_or_init(|| InProcess::new(at));
        let own = || ThreadId::from_uuid(uuid::Uuid::from_u128(at.id().0));
        CallContext {
            principal: shared.principal.clone(),
            caller: Arc::clone(&shared.caller),
            thread: shared.thread.clone().unwrap_or_else(own),
            journal,
            budget: Arc::clone(&shared.budget),
            ledger: Arc::clone(&shared.ledger),
            clock: Arc::clone(&self.0.clock),
            emit: Arc::new(Teller { at: at.clone(), beat: Arc::clone(beat) }),
            deadline: None,
        }
    }
}

/// What the calls of all tasks of a run of this process have in common.
#[derive(Debug)]
pub(crate) struct InProcess {
    principal: Principal,
    caller: Arc<GraphCaller>,
    /// None when its name is no id.
    thread: Option<ThreadId>,
    budget: Arc<dyn Budget>,
    ledger: Arc<dyn Ledger>,
}

impl InProcess {
    /// For the run whose first call this task makes.
    fn new(first: &TaskAt) -> Self {
        let outermost = first.scope.outermost_graph();
        let run = RunId::from_uuid(uuid::Uuid::from_u128(first.id().0));
        Self {
            principal: Principal::local(),
            caller: Arc::new(GraphCaller {
                caller: Caller::in_process(&run),
                run,
                graph: outermost.name().to_owned(),
                graph_version: outermost.version().to_owned(),
            }),
            thread: ThreadId::new(&first.scope.shared.thread).ok(),
            budget: Arc::new(Unlimited),
            ledger: Arc::new(NoLedger),
        }
    }
}

/// Tells what a node's calls tell.
#[derive(Debug)]
struct Teller {
    at: TaskAt,
    beat: Arc<AtomicU64>,
}

impl Emit for Teller {
    fn emit(&self, event: AiEvent) {
        let now = crate::exec::caught::millis(self.at.scope.shared.host.clock().elapsed());
        self.beat.store(now, Ordering::Relaxed);
        match event {
            AiEvent::Custom { value } => self.at.emit(value),
            _ if !self.at.scope.shared.wants(Modes::CUSTOM) => {}
            other => {
                if let Ok(value) = serde_json::to_value(&other) {
                    self.at.emit(value);
                }
            }
        }
    }
}
