//! The runtime: hosts graphs over a store and takes runs to their ends.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::exec::{At, Checker, HistoryFilter, Snapshot};
use crate::follow::Follow;
use crate::hosted::{Ended, Host, Run};
use crate::hub::Hub;
use crate::worker::{Heartbeat, Pace};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use weftwork_store::{NewRun, RunRow, Store, StoreError, StoreLedger, rule};
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{
    Budget, Clock, ExecuteError, GraphExecutor, Ledger, RunHandle, Unlimited,
};
use weftwork_types::run::{RunFinal, RunInput, RunRef, RunRequest};
use weftwork_types::{
    BoxFuture, BoxStream, CheckpointId, InterruptId, Principal, RunId, ThreadId, WorkerId,
};

/// Whether calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// They are.
    #[default]
    On,
    /// They are not: a resumed node makes them again. Only for the test that shows what the
    /// journal is good for.
    Off,
}

/// What a runtime does about runs that no living worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orphans {
    /// It leaves them to others, and to [`Runtime::take_over`] and [`Runtime::recover`]: for
    /// processes that come for one thing and go.
    #[default]
    Leave,
    /// It looks for them again and again and takes those to their ends whose graphs it hosts: for
    /// processes that stay.
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
    graphs: Vec<(String, CompiledGraph)>,
}

impl RuntimeBuilder {
    /// Hosts a graph under an id of the form `provider:name`.
    pub fn graph(mut self, id: impl Into<String>, graph: CompiledGraph) -> Self {
        self.graphs.push((id.into(), graph));
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
        let host = Arc::new(Host {
            store: self.store,
            clock: self.clock,
            ledger,
            budget: self.budget,
            journal: self.journal == JournalMode::On,
            suspects: Arc::new(Semaphore::new(1)),
            attempts_max: self.attempts_max,
            local: crate::exec::Host::new().with_clock(clock),
            recent: Arc::default(),
        });
        let inner = Arc::new(Inner { host, graphs, heartbeat, running: Mutex::default() });
        if self.orphans == Orphans::TakeOver {
            tokio::spawn(look_for_orphans(Arc::downgrade(&inner), self.pace.look_every));
        }
        Ok(Runtime(inner))
    }
}

/// Hosts graphs over a store. The one [`GraphExecutor`] of a process; cloning shares it.
///
/// Must be opened and used within a tokio runtime, on whose threads the runs go.
#[derive(Debug, Clone)]
pub struct Runtime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Arc<Host>,
    graphs: BTreeMap<String, CompiledGraph>,
    heartbeat: Heartbeat,
    running: Mutex<BTreeMap<RunId, watch::Sender<bool>>>,
}

impl Runtime {
    /// Starts to put a runtime together.
    pub fn builder(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder {
            store,
            clock: Arc::new(crate::SystemClock::new()),
            budget: Arc::new(Unlimited),
            journal: JournalMode::On,
            orphans: Orphans::default(),
            pace: Pace::default(),
            attempts_max: 3,
            graphs: Vec::new(),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.host.store
    }

    /// The worker that this runtime is to its store.
    #[must_use]
    pub fn worker(&self) -> &WorkerId {
        self.0.heartbeat.id()
    }

    /// The hosted graphs by id.
    pub fn graphs(&self) -> impl Iterator<Item = (&str, &CompiledGraph)> {
        self.0.graphs.iter().map(|(id, graph)| (id.as_str(), graph))
    }

    /// Takes a run whose worker is gone, or that was never begun, to its end, however often it ended
    /// its process before: somebody asks for it.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `Busy` while a living worker has it, with `NotFound` when it
    /// has ended; [`RuntimeError::UnknownGraph`].
    pub async fn take_over(&self, who: &Principal, at: &RunRef) -> Result<RunHandle, RuntimeError> {
        self.take(who, at, true).await
    }

    async fn take(
        &self,
        who: &Principal,
        at: &RunRef,
        asked: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(&row.new.graph)?.clone();
        self.start(who.clone(), row, graph, asked).await
    }

    /// Takes over all runs of this store that no living worker has and whose graphs are hosted
    /// here. Those that this process still works on are left out.
    ///
    /// # Errors
    /// What the store said. Runs that another worker took first are left out.
    pub async fn recover(&self) -> Result<Vec<RunHandle>, RuntimeError> {
        let orphans = self.store().orphans(self.0.host.clock.now(), 1_000).await?;
        let mut handles = Vec::new();
        for (who, row) in orphans {
            // A store that was out of reach lets our own lease run out too.
            if self.running().contains_key(&row.new.at.run) {
                continue;
            }
            match self.take(&who, &row.new.at, false).await {
                Ok(handle) => handles.push(handle),
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                }
                Err(RuntimeError::UnknownGraph { found, .. }) => {
                    tracing::debug!(graph = found, run = %row.new.at.run, "no such graph here");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(handles)
    }

    /// A thread as it stands: what finished in an open superstep counts, and only the rest is due.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` when there is no such thread,
    /// [`RuntimeError::UnknownGraph`] when its graph is not hosted here,
    /// [`RuntimeError::Engine`] when a checkpoint does not fit the graph.
    pub async fn state(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<Snapshot, RuntimeError> {
        let graph = self.graph_of(who, thread).await?;
        graph.state(&self.0.host.looking(who), &At::thread(thread.as_str()), false).await
    }

    /// A thread at one of its checkpoints, when what was due there had not run yet.
    ///
    /// # Errors
    /// As [`state`](Self::state), and [`RuntimeError::UnknownCheckpoint`].
    pub async fn state_at(
        &self,
        who: &Principal,
        thread: &ThreadId,
        at: CheckpointId,
    ) -> Result<Snapshot, RuntimeError> {
        let graph = self.graph_of(who, thread).await?;
        let at = At { checkpoint: Some(at), ..At::thread(thread.as_str()) };
        graph.state(&self.0.host.looking(who), &at, false).await
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
        let graph = self.graph_of(who, thread).await?;
        let host = self.0.host.looking(who);
        graph.history_of(&host, &At::thread(thread.as_str()), filter).await
    }

    async fn graph_of(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<CompiledGraph, RuntimeError> {
        let row = self.store().thread(who, thread).await?;
        self.graph(&row.graph).cloned()
    }

    fn graph(&self, id: &str) -> Result<&CompiledGraph, RuntimeError> {
        self.0.graphs.get(id).ok_or_else(|| RuntimeError::UnknownGraph {
            found: id.to_owned(),
            known: self.0.graphs.keys().cloned().collect(),
        })
    }

    async fn accept(&self, request: RunRequest) -> Result<RunHandle, RuntimeError> {
        let graph = self.graph(&request.graph)?.clone();
        let host = &self.0.host;
        check_depth(&request.input)?;
        self.check_thread(&request).await?;
        self.check_answers(&request).await?;
        let now = host.clock.now();
        let answers = answers(&request, now);
        let run = RunId::from_uuid(uuid::Uuid::from_u128(host.clock.unique()));
        let new = NewRun {
            at: RunRef { thread: request.thread, run: run.clone() },
            graph: request.graph,
            caller: request.caller,
            input: request.input,
            options: request.options,
            created_at: now,
        };
        let given: Vec<_> = answers.keys().copied().collect();
        let row = match host.store.create_run(&request.principal, new.clone(), answers).await {
            Ok(row) => row,
            Err(error) => {
                return Err(self.why_refused(&request.principal, &new, &given, error).await);
            }
        };
        if row.new.at.run != run {
            return Ok(self.follow(request.principal, row.new.at, graph));
        }
        let (who, at) = (request.principal, row.new.at.clone());
        match self.start(who.clone(), row, graph.clone(), true).await {
            // Another worker looked for runs that nobody has, and took it: it comes to its end.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(self.follow(who, at, graph))
            }
            started => started,
        }
    }

    /// While the run of the first answer goes, the thread is busy; who answers second is told of
    /// that answer instead.
    async fn why_refused(
        &self,
        who: &Principal,
        new: &NewRun,
        given: &[InterruptId],
        error: StoreError,
    ) -> RuntimeError {
        if !matches!(error, StoreError::Busy { .. }) || given.is_empty() {
            return error.into();
        }
        let rows = match self.store().interrupts(who, &new.at.thread).await {
            Ok(rows) => rows,
            Err(unread) => return unread.into(),
        };
        let asked = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
        let mut refusals =
            given.iter().filter_map(|id| rule::check_answerable(*id, asked(id)).err());
        let answered = |refusal: &StoreError| matches!(refusal, StoreError::Answered { .. });
        refusals.find(answered).unwrap_or(error).into()
    }

    /// A thread belongs to one graph.
    async fn check_thread(&self, request: &RunRequest) -> Result<(), RuntimeError> {
        let missing = || RuntimeError::NothingToContinue { thread: request.thread.to_string() };
        match self.store().thread(&request.principal, &request.thread).await {
            Ok(thread) if thread.graph != request.graph => Err(RuntimeError::OtherGraph {
                thread: thread.id.to_string(),
                found: thread.graph,
                asked: request.graph.clone(),
            }),
            Ok(_) => Ok(()),
            Err(StoreError::NotFound { .. }) => match request.input {
                RunInput::Start { .. } | RunInput::Update { .. } => Ok(()),
                _ => Err(missing()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// An answer that does not fit its question is refused before it counts as the first one.
    async fn check_answers(&self, request: &RunRequest) -> Result<(), RuntimeError> {
        let RunInput::Resume { answers } = &request.input else { return Ok(()) };
        for row in self.store().interrupts(&request.principal, &request.thread).await? {
            let asked = row.interrupt;
            let Some((schema, answer)) = asked.answer_schema.zip(answers.get(&asked.id)) else {
                continue;
            };
            let checked = Checker::new(&schema)?.check(answer);
            checked.map_err(|problem| RuntimeError::WrongAnswer {
                question: asked.id,
                node: asked.node,
                problem,
            })?;
        }
        Ok(())
    }

    /// Claims a run and sends it on its way.
    async fn start(
        &self,
        who: Principal,
        row: RunRow,
        graph: CompiledGraph,
        asked: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let host = Arc::clone(&self.0.host);
        let worker = self.0.heartbeat.id();
        let at = row.new.at;
        // Before the claim: who cancels after it must find the run here.
        let (cancel, new) = {
            let mut running = self.running();
            let new = !running.contains_key(&at.run);
            let cancel = running.entry(at.run.clone()).or_insert_with(|| watch::channel(false).0);
            (cancel.clone(), new)
        };
        let claimed = host.store.claim(&who, &at, worker, host.clock.now()).await;
        let (claim, row) = claimed.inspect_err(|_| {
            if new {
                self.running().remove(&at.run);
            }
        })?;
        if row.cancel_requested {
            cancel.send_replace(true);
        }
        let hub = Arc::new(Hub::default());
        let events = hub.watch();
        let (ended, outcome) = oneshot::channel();
        let run = Run { host, graph, who, claim, row, hub, cancel, asked };
        let this = self.clone();
        tokio::spawn(async move {
            let id = run.claim.at.run.clone();
            let follow = this.following(run.who.clone(), run.claim.at.clone(), run.graph.clone());
            let hub = Arc::clone(&run.hub);
            let became = run.drive().await;
            this.running().remove(&id);
            // Nobody may be left to hear it.
            let tell = |outcome| ended.send(outcome).unwrap_or_default();
            match became {
                Ended::Told(outcome) => tell(outcome),
                Ended::Unrecorded(unrecorded) => {
                    tell(unrecorded.outcome.clone());
                    unrecorded.record().await;
                }
                Ended::Lost => {
                    let outcome = follow.end().await;
                    hub.give_up(AiEvent::Done { outcome: outcome.status() });
                    tell(outcome);
                }
            }
        });
        Ok(RunHandle { run: at, events: stream(events), outcome: final_of(outcome) })
    }

    /// A handle for a run that was begun elsewhere, or before.
    fn follow(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> RunHandle {
        self.following(who, at, graph).handle()
    }

    fn following(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> Follow {
        Follow { host: Arc::clone(&self.0.host), graph, who, at }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, watch::Sender<bool>>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes over what nobody has, as long as the runtime is there.
async fn look_for_orphans(runtime: Weak<Inner>, every: Duration) {
    while let Some(inner) = runtime.upgrade() {
        if let Err(error) = Runtime(inner).recover().await {
            tracing::warn!(%error, "cannot take over runs");
        }
        // Not by the clock of runs, which tests may let stand still or run: a lease is a matter
        // of the machine's time.
        tokio::time::sleep(every).await;
    }
}

/// Refuses values that would make the thread unreadable.
fn check_depth(input: &RunInput) -> Result<(), RuntimeError> {
    let (what, sound) = match input {
        RunInput::Start { input } => ("the input", can_be_read_back(input)),
        RunInput::Update { writes, .. } => ("the update", can_be_read_back(writes)),
        RunInput::Resume { answers } => ("an answer", answers.values().all(can_be_read_back)),
        RunInput::Continue => return Ok(()),
    };
    if sound { Ok(()) } else { Err(RuntimeError::TooDeep { what }) }
}

fn answers(request: &RunRequest, now: weftwork_types::Timestamp) -> BTreeMap<InterruptId, Answer> {
    let RunInput::Resume { answers } = &request.input else { return BTreeMap::new() };
    let by = &request.principal.subject;
    answers
        .iter()
        .map(|(id, value)| {
            let answer = Answer { value: value.clone(), answered_by: by.clone(), answered_at: now };
            (*id, answer)
        })
        .collect()
}

fn stream(mut events: mpsc::UnboundedReceiver<RunEvent>) -> BoxStream<'static, RunEvent> {
    Box::pin(futures_util::stream::poll_fn(move |cx| events.poll_recv(cx)))
}

fn final_of(outcome: oneshot::Receiver<RunFinal>) -> BoxFuture<'static, RunFinal> {
    Box::pin(outcome.map(|ended| {
        ended.unwrap_or_else(|_| RunFinal::Failed {
            fault: Fault::new(
                crate::error::NODE_FAILED,
                "the process stopped before the run ended; it goes on when the thread is resumed",
            )
            .retriable(true),
        })
    }))
}

impl GraphExecutor for Runtime {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            self.accept(request).await.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            let asked = self.store().request_cancel(who, run).await;
            // A store that takes nothing now keeps nobody from stopping what goes on here. It is
            // said all the same, for the stop is not on record yet.
            if asked.as_ref().map_or_else(StoreError::is_retriable, |()| true)
                && let Some(cancel) = self.running().get(&run.run)
            {
                cancel.send_replace(true);
            }
            asked.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }
}
