//! What runs in this process share, and starting one.

use super::api::{Durability, Ended, Options, Outcome, Start, Stops};
use super::begin::Begin;
use super::cycle::Cycle;
use super::event::{Config, Modes, StreamItem};
use super::saver::Saver;
use super::scope::{Scope, Shared, Sink, TaskAt, lock};
use super::tell;
use crate::clock::SystemClock;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::policy::Cache;
use crate::state::{Seen, State, StateSpec};
use futures_util::future::{Either, select};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use weftwork_engine::pregel::StartInput;
use weftwork_engine::{NodeIdx, Slots, TaskOutput};
use weftwork_store::items::ItemStore;
use weftwork_types::canonical::Hash;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{CallContext, Clock, Emit, NoJournal, NoLedger, Unlimited};
use weftwork_types::{BoxFuture, CheckpointId, Principal};

/// What runs in this process share: where checkpoints and items are kept, the cache of nodes, and
/// time. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    saver: Option<Arc<dyn Saver>>,
    items: Option<Arc<dyn ItemStore>>,
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
            clock: Arc::new(SystemClock::new()),
            cache: Arc::default(),
            ids: Arc::default(),
        }))
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            saver: self.0.saver.clone(),
            items: self.0.items.clone(),
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

    /// So many ids at once, as the one before the first and the last.
    pub(crate) fn id_block(&self) -> (u128, u128) {
        const BLOCK: u128 = 256;
        let before = self.next_id().0;
        let mut last = lock(&self.0.ids);
        *last = (*last).max(before + BLOCK);
        (before, before + BLOCK)
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

    /// What a node's model and tool calls get in a run of this process: nobody is billed, and
    /// nothing is journaled.
    pub(crate) fn calls(&self, at: &TaskAt, beat: &Arc<AtomicU64>) -> CallContext {
        let thread = weftwork_types::ThreadId::new(&at.scope.shared.thread);
        let uuid = uuid::Uuid::from_u128(at.id.0);
        let run = weftwork_types::RunId::from_uuid(uuid);
        let thread = thread.unwrap_or_else(|_| weftwork_types::ThreadId::from_uuid(uuid));
        CallContext {
            principal: Principal::local(),
            caller: weftwork_types::caller::GraphCaller {
                caller: weftwork_types::caller::Caller::in_process(&run),
                run,
                graph: at.scope.graph.name().to_owned(),
                graph_version: at.scope.graph.version().to_owned(),
            },
            thread,
            journal: Arc::new(NoJournal),
            budget: Arc::new(Unlimited),
            ledger: Arc::new(NoLedger),
            clock: Arc::clone(&self.0.clock),
            emit: Arc::new(Teller { at: at.clone(), beat: Arc::clone(beat) }),
            deadline: None,
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
        let now = crate::run::millis(self.at.scope.shared.host.clock().elapsed());
        self.beat.store(now, Ordering::Relaxed);
        match event {
            AiEvent::Custom { value } => self.at.emit(value),
            other => {
                if let Ok(value) = serde_json::to_value(&other) {
                    self.at.emit(value);
                }
            }
        }
    }
}

/// A run that is being put together. Nothing happens before it is awaited or streamed.
#[derive(Debug)]
#[must_use]
pub struct Run {
    host: Host,
    graph: CompiledGraph,
    start: Start,
    around: BTreeMap<String, CheckpointId>,
    modes: Modes,
    options: Options,
}

impl CompiledGraph {
    /// Puts a run in this process together.
    pub fn run(&self, host: &Host, start: impl Into<Start>) -> Run {
        Run {
            host: host.clone(),
            graph: self.clone(),
            start: start.into(),
            around: BTreeMap::new(),
            modes: Modes::NONE,
            options: Options::fresh(),
        }
    }

    /// Takes input to its end, keeping no checkpoints.
    ///
    /// # Errors
    /// [`RuntimeError`] when a node fails or the input does not fit.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run.
    pub async fn invoke(&self, host: &Host, input: Json) -> Result<Outcome, RuntimeError> {
        self.run(host, Start::Input(input)).outcome().await
    }
}

impl Run {
    /// The thread whose checkpoints the run goes on from and adds to.
    pub fn thread(mut self, thread: impl Into<Arc<str>>) -> Self {
        self.options.thread = thread.into();
        self
    }

    /// Starts from this checkpoint rather than the thread's newest.
    pub fn at(mut self, checkpoint: CheckpointId) -> Self {
        self.options.at = Some(checkpoint);
        self
    }

    /// Starts from this place: of a checkpoint of a graph within, the graphs around it start from
    /// theirs.
    pub fn from(mut self, config: &Config) -> Self {
        self.options.at = match config.map.get("") {
            Some(id) => Some(*id),
            None => config.id,
        };
        self.around.clone_from(&config.map);
        self
    }

    /// The most supersteps the run may take.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.options.step_limit = Some(steps);
        self
    }

    /// Stops before these nodes rather than those of the graph.
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.options.before = Some(stops);
        self
    }

    /// Stops after these nodes rather than those of the graph.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.options.after = Some(stops);
        self
    }

    /// Gives nodes something besides the input: [`Ctx::context`](crate::Ctx::context).
    pub fn context(mut self, context: Json) -> Self {
        self.options.context = context;
        self
    }

    /// When checkpoints are kept.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Cuts the run off, nodes included, after this long.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.options.deadline = Some(limit);
        self
    }

    /// What the stream tells.
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`RuntimeError`] when a node fails, the input does not fit, or a checkpoint cannot be read
    /// or kept.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run; what is kept stays.
    pub async fn outcome(self) -> Result<Outcome, RuntimeError> {
        Ok(self.finish().await?.outcome())
    }

    /// Runs to the end, and keeps the state as it is: nothing is turned into JSON.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    ///
    /// # Cancel safety
    /// As [`outcome`](Self::outcome).
    pub async fn finish(self) -> Result<Finished, RuntimeError> {
        self.drive(None).await
    }

    /// Runs as the stream is read: nothing goes on while nobody reads.
    pub fn stream(self) -> RunStream {
        let sink = Sink::new(self.modes);
        let queue = Arc::clone(&sink.queue);
        let ended = self.drive(Some(sink));
        let run: BoxFuture<'static, _> =
            Box::pin(async move { ended.await.map(|finished| finished.outcome()) });
        RunStream { run: Some(run), queue, outcome: None }
    }

    async fn drive(self, sink: Option<Sink>) -> Result<Finished, RuntimeError> {
        let Self { host, graph, start, around, modes: _, options } = self;
        let deadline = options.deadline;
        let clock = Arc::clone(host.clock());
        let shared = Arc::new(Shared::new(host, &options, sink));
        let scope = Arc::new(Scope::outermost(shared, graph, around));
        let run = Cycle::run(scope, begin(start), &options);
        let ended = match deadline {
            None => run.await,
            Some(limit) => match select(Box::pin(run), clock.sleep(limit)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => {
                    return Err(RuntimeError::DeadlinePassed {
                        limit_ms: crate::run::millis(limit),
                    });
                }
            },
        };
        let (ended, cycle) = ended.map_err(RuntimeError::from)?;
        let limit = options.step_limit.unwrap_or(cycle.scope.graph.step_limit());
        let (graph, slots) = cycle.into_state();
        Ok(Finished { ended, limit, graph, slots })
    }
}

/// A run that ended, with the state at its end.
#[derive(Debug)]
pub struct Finished {
    ended: Ended,
    limit: u32,
    graph: CompiledGraph,
    slots: Slots,
}

impl Finished {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self.ended, Ended::Done)
    }

    /// The state, when it is that of the graph.
    #[must_use]
    pub fn state<S: StateSpec>(&self) -> State<S> {
        State::over(Seen {
            slots: self.slots.clone(),
            plan: self.graph.plan(),
            node: NodeIdx::START,
            returned: None,
        })
    }

    /// How the run ended, with its output as JSON.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self.ended {
            Ended::Done => {
                Outcome::Completed { output: tell::output_json(self.graph.plan(), &self.slots) }
            }
            Ended::Interrupted(interrupts) => Outcome::Interrupted { interrupts },
            Ended::Drained(reason) => Outcome::Drained { reason },
            Ended::OutOfSteps => Outcome::LimitReached { step_limit: self.limit },
        }
    }
}

fn begin(start: Start) -> Begin {
    match start {
        Start::Input(json) => Begin::Input(StartInput::Json(Arc::new(json))),
        Start::Typed(output) => Begin::Input(StartInput::Writes(Arc::new(output))),
        Start::Continue => Begin::Nothing,
        Start::Command(command) => Begin::Command(command),
    }
}

impl Options {
    fn fresh() -> Self {
        Self {
            thread: "".into(),
            at: None,
            step_limit: None,
            before: None,
            after: None,
            context: Json::Null,
            durability: Durability::Sync,
            deadline: None,
        }
    }

    /// Those of a run within another.
    pub(super) fn within(scope: &Scope) -> Self {
        Self {
            thread: Arc::clone(&scope.place.thread),
            step_limit: scope.shared.step_limit,
            ..Self::fresh()
        }
    }
}

/// A run that goes on as its events are read. After the last event, [`outcome`](Self::outcome)
/// says how it ended.
pub struct RunStream {
    run: Option<BoxFuture<'static, Result<Outcome, RuntimeError>>>,
    queue: Arc<Mutex<std::collections::VecDeque<StreamItem>>>,
    outcome: Option<Result<Outcome, RuntimeError>>,
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl RunStream {
    /// How the run ended; `None` before the last event was read.
    #[must_use]
    pub fn outcome(&self) -> Option<&Result<Outcome, RuntimeError>> {
        self.outcome.as_ref()
    }

    /// The next event; `None` when the run has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<StreamItem> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        loop {
            if let Some(item) = lock(&self.queue).pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(run) = &mut self.run else { return Poll::Ready(None) };
            let polled = run.as_mut().poll(cx);
            if let Poll::Ready(outcome) = polled {
                self.outcome = Some(outcome);
                self.run = None;
            } else if lock(&self.queue).is_empty() {
                return Poll::Pending;
            }
        }
    }
}

impl futures_core::Stream for RunStream {
    type Item = StreamItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        self.poll_item(cx)
    }
}
