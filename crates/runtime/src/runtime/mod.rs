//! The runtime: hosts graphs over a store and takes runs to their ends.

mod accept;
mod builder;
mod close;
mod orphans;
mod queue;
mod retention;

use crate::follow::Follow;
use crate::hosted::{End, Ended, Host, Run};
use crate::hub::Hub;
use crate::worker::Heartbeat;
pub use builder::{JournalMode, Orphans, RuntimeBuilder};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};
use weftwork_graph::CompiledGraph;
use weftwork_graph::RuntimeError;
use weftwork_graph::exec::{At, HistoryFilter, Modes, Snapshot, StreamItem};
use weftwork_store::{MemoryStore, RunRow, Store, StoreError};
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::port::{Clock, ExecuteError, GraphExecutor, RunHandle};
use weftwork_types::run::{RunFinal, RunRef, RunRequest};
use weftwork_types::{
    BoxFuture, BoxStream, CheckpointId, OrgId, Principal, RunId, ThreadId, WorkerId,
};

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
    running: Mutex<BTreeMap<RunId, Here>>,
    /// Counts the runs that have left this process.
    ends: watch::Sender<u64>,
}

/// A run that goes in this process.
#[derive(Debug, Clone)]
struct Here {
    org: OrgId,
    thread: ThreadId,
    cancel: watch::Sender<bool>,
    /// Where it tells what happens, once it is claimed.
    hub: Option<Arc<Hub>>,
}

/// A run to be claimed and executed here.
#[derive(Debug, Clone)]
struct Admitted {
    who: Principal,
    row: RunRow,
    graph: CompiledGraph,
    /// `true` if a client asked for it, however often it ended its process before.
    asked: bool,
    /// Receiver of its events in stream modes.
    live: Option<Live>,
}

/// Stream modes, and the receiver of their events.
pub(crate) type Live = (Modes, mpsc::UnboundedSender<StreamItem>);

/// A run that was accepted.
enum Goes {
    Here(RunHandle),
    /// Another worker has it, an earlier request made it, or it waits for its turn.
    Elsewhere(RunHandle),
}

impl Goes {
    fn handle(self) -> RunHandle {
        match self {
            Self::Here(handle) | Self::Elsewhere(handle) => handle,
        }
    }
}

impl Runtime {
    /// A runtime over a store in memory: its threads are lost with the process.
    pub fn in_memory() -> RuntimeBuilder {
        RuntimeBuilder::new(Arc::new(MemoryStore::new()))
    }

    /// Starts to put a runtime together.
    pub fn builder(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder::new(store)
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

    /// The graph of an id, or of the part of an id after its colon if only one id has it.
    pub(crate) fn find_graph(&self, name: &str) -> Result<(&str, &CompiledGraph), RuntimeError> {
        if let Some((id, graph)) = self.0.graphs.get_key_value(name) {
            return Ok((id, graph));
        }
        let named = |id: &str| id.split_once(':').is_some_and(|(_, plain)| plain == name);
        let mut found = self.graphs().filter(|(id, _)| named(id));
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(RuntimeError::UnknownGraph {
                found: name.to_owned(),
                known: self.0.graphs.keys().cloned().collect(),
            }),
        }
    }

    /// Checkpoints of an organisation, for reading.
    pub(crate) fn looking(&self, who: &Principal) -> weftwork_graph::exec::Host {
        self.0.host.looking(who)
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.host.clock
    }

    /// Accepts a run, and reports its events to a receiver while it is executed here.
    pub(crate) async fn accepted(
        &self,
        request: RunRequest,
        live: Option<Live>,
    ) -> Result<RunHandle, RuntimeError> {
        self.accept(request, live).await.map(Goes::handle)
    }

    /// Requests that a run stop.
    pub(crate) async fn request_cancel(
        &self,
        who: &Principal,
        run: &RunRef,
    ) -> Result<(), StoreError> {
        let asked = self.store().request_cancel(who, run).await;
        // A store that takes nothing now keeps nobody from stopping what goes on here. It is
        // said all the same, for the stop is not on record yet.
        if asked.as_ref().map_or_else(StoreError::is_retriable, |()| true)
            && let Some(here) = self.running().get(&run.run)
        {
            here.cancel.send_replace(true);
        }
        asked
    }

    fn graph(&self, id: &str) -> Result<&CompiledGraph, RuntimeError> {
        self.0.graphs.get(id).ok_or_else(|| RuntimeError::UnknownGraph {
            found: id.to_owned(),
            known: self.0.graphs.keys().cloned().collect(),
        })
    }

    /// Claims a run and executes it.
    async fn start(&self, admitted: Admitted) -> Result<RunHandle, RuntimeError> {
        let Admitted { who, row, graph, asked, live } = admitted;
        let host = Arc::clone(&self.0.host);
        let worker = self.0.heartbeat.id();
        let at = row.new.at;
        // Before the claim: who cancels after it must find the run here.
        let (cancel, new) = {
            let mut running = self.running();
            // Under this lock: who stops the process waits for all that are here.
            if host.closing.drains() {
                return Err(RuntimeError::Stopping);
            }
            let new = !running.contains_key(&at.run);
            let here = running.entry(at.run.clone()).or_insert_with(|| Here {
                org: who.org.clone(),
                thread: at.thread.clone(),
                cancel: watch::channel(false).0,
                hub: None,
            });
            (here.cancel.clone(), new)
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
        let hub = Arc::new(Hub::new(Arc::clone(&host.clock), claim.fence));
        let events = hub.watch();
        if let Some(here) = self.running().get_mut(&at.run) {
            here.hub = Some(Arc::clone(&hub));
        }
        let (ended, outcome) = oneshot::channel();
        let run = Run { host, graph, who, claim, row, hub, cancel, asked, live };
        let this = self.clone();
        tokio::spawn(async move {
            let id = run.claim.at.run.clone();
            let follow = this.following(run.who.clone(), run.claim.at.clone(), run.graph.clone());
            let hub = Arc::clone(&run.hub);
            let became = run.drive().await;
            this.running().remove(&id);
            this.0.ends.send_modify(|ends| *ends += 1);
            // Nobody may be left to hear it.
            let tell = |end: End| drop(ended.send(end));
            match became {
                Ended::Told(end) => tell(end),
                Ended::Unrecorded(unrecorded) => {
                    tell(unrecorded.outcome.clone().into());
                    unrecorded.record().await;
                }
                // Who still listens learns that the run goes on elsewhere.
                Ended::Released => hub.end(),
                Ended::Lost => {
                    let outcome = follow.end().await;
                    hub.give_up(AiEvent::Done { outcome: outcome.status() });
                    tell(outcome.into());
                }
            }
        });
        Ok(RunHandle { run: at, events: stream(events), outcome: final_of(outcome) })
    }

    /// Starts a run that was just put into the store.
    async fn start_or_follow(&self, admitted: Admitted) -> Result<Goes, RuntimeError> {
        let Admitted { who, row, graph, .. } = &admitted;
        let (who, at, graph) = (who.clone(), row.new.at.clone(), graph.clone());
        match self.start(admitted).await {
            // Another worker looked for runs that nobody has, and took it: it comes to its end.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(Goes::Elsewhere(self.follow(who, at, graph)))
            }
            started => started.map(Goes::Here),
        }
    }

    /// Watches a run from a position on: one that goes here, in another process, or has ended.
    /// What comes after the position is told exactly once, text that is not final included:
    /// [`RunEvent::position`] of what was seen last is where somebody goes on who comes back.
    ///
    /// Text of a run that goes here comes at once; from other processes, when it is in the store,
    /// at the latest a quarter of a second after it was told, and looked for ten times a second. Of
    /// text whose message is final only that is told. Of all text since the last superstep no more
    /// than one MiB is kept; what is told beyond that is heard only by those who watch here.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` when there is no such run,
    /// [`RuntimeError::UnknownGraph`].
    pub async fn watch(
        &self,
        who: &Principal,
        at: &RunRef,
        after: Position,
    ) -> Result<RunHandle, RuntimeError> {
        let row = self.store().run(who, at).await?;
        let graph = self.graph(&row.new.graph)?.clone();
        Ok(self
            .following(who.clone(), at.clone(), graph)
            .handle(after, self.hub(who, at).as_deref()))
    }

    fn hub(&self, who: &Principal, at: &RunRef) -> Option<Arc<Hub>> {
        let here = self.running().get(&at.run).filter(|here| here.org == who.org)?.clone();
        here.hub
    }

    /// A handle for a run that was begun elsewhere, or before.
    fn follow(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> RunHandle {
        let hub = self.hub(&who, &at);
        self.following(who, at, graph).handle(Position::START, hub.as_deref())
    }

    fn following(&self, who: Principal, at: RunRef, graph: CompiledGraph) -> Follow {
        Follow { host: Arc::clone(&self.0.host), graph, who, at }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Here>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stream(mut events: mpsc::UnboundedReceiver<RunEvent>) -> BoxStream<'static, RunEvent> {
    Box::pin(futures_util::stream::poll_fn(move |cx| events.poll_recv(cx)))
}

/// Returns the outcome of a run; its output is converted to JSON only when the future is polled.
fn final_of(outcome: oneshot::Receiver<End>) -> BoxFuture<'static, RunFinal> {
    Box::pin(outcome.map(|ended| ended.map_or_else(|_| stopped(), End::told)))
}

/// Returns the outcome reported for a run that ends in another process.
fn stopped() -> RunFinal {
    RunFinal::Failed {
        fault: Fault::new(
            weftwork_graph::NODE_FAILED,
            "the process stopped before the run ended; another worker goes on with it, or it goes on when the thread is resumed",
        )
        .retriable(true),
    }
}

impl GraphExecutor for Runtime {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            let accepted = self.accept(request, None).await.map(Goes::handle);
            accepted.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            let asked = self.request_cancel(who, run).await;
            asked.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }
}
