//! Hosted runs: the run loop of [`exec`](weftwork_graph::exec) under a worker's claim.
//!
//! What a run in this process keeps goes here with the events of the same moment into one commit,
//! fenced by the claim; what its nodes call is journaled; and its end is committed with the last
//! superstep. Streaming, resuming and going on after a crash are the same loop from another start.

mod calls;
mod closing;
mod end;
mod log;
mod options;
mod origin;
mod past;
mod writer;

use crate::hub::Hub;
use crate::journal::RunJournal;
use crate::runtime::Live;
use crate::stored::{Recent, StoreSaver};
use calls::Calls;
pub(crate) use closing::Closing;
pub(crate) use end::{End, Ended, Unrecorded};
use futures_util::FutureExt;
pub(crate) use log::{CallLog, Ticket};
pub(crate) use origin::Origins;
use past::Past;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use weftwork_engine::EngineError;
use weftwork_graph::CompiledGraph;
use weftwork_graph::RuntimeError;
use weftwork_graph::exec::out_of_node;
use weftwork_graph::exec::{
    Answers, At, Finished, Host as Local, Outcome, Start, StartCommand, StateUpdate,
};
use weftwork_store::{CheckpointStore, Claim, InterruptRow, RunRow, Store, StoreError};
use weftwork_types::caller::GraphCaller;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Interrupt};
use weftwork_types::port::{Budget, Clock, Ledger};
use weftwork_types::run::{Durability, ReuseFrom, RunCommand, RunFinal, RunInput};
use weftwork_types::{InterruptId, Principal, Timestamp};
pub(crate) use writer::Patience;
use writer::Writer;

/// Data that all runs of a process share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) budget: Arc<dyn Budget>,
    pub(crate) journal: bool,
    /// `true` if runs read their state back after each superstep.
    pub(crate) rebuilds: bool,
    /// The turn of runs that may be what ended their workers.
    pub(crate) suspects: Arc<Semaphore>,
    /// Number of workers that a run may end without progress.
    pub(crate) attempts_max: u32,
    /// The cache of nodes, and the last id of a checkpoint.
    pub(crate) local: Local,
    /// Threads that ran here lately.
    pub(crate) recent: Arc<Recent>,
    /// Shutdown state of the process.
    pub(crate) closing: Arc<Closing>,
}

/// A run in progress.
pub(crate) struct Run {
    pub(crate) host: Arc<Host>,
    pub(crate) graph: CompiledGraph,
    pub(crate) who: Principal,
    pub(crate) claim: Claim,
    pub(crate) row: RunRow,
    pub(crate) hub: Arc<Hub>,
    pub(crate) cancel: watch::Sender<bool>,
    /// `true` if a client asked for it to resume, however often it ended its process.
    pub(crate) asked: bool,
    /// Receiver of its events in stream modes.
    pub(crate) live: Option<Live>,
}

/// For how long a run is under suspicion that gets no further.
const SUSPICION: Duration = Duration::from_secs(10);
/// The most events read at once.
const LOG_PAGE: usize = 1_000;

/// Time limit for a commit in progress when the process stops.
const LAST_COMMIT: Duration = Duration::from_secs(1);

/// First action of a run.
enum Begin {
    /// Its input is a change from outside, after which nothing runs.
    Update(StateUpdate),
    Run(Start),
    /// A process before this one did all there was to do.
    Nothing,
}

impl Host {
    /// Checkpoints of an organisation, to be looked at.
    pub(crate) fn looking(&self, who: &Principal) -> Local {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.store) as _;
        self.local.clone().with_saver(StoreSaver::new(store, who.clone()))
    }
}

impl Run {
    /// Takes the run to its end, or puts it back when the process stops before.
    pub(crate) async fn drive(self) -> Ended {
        let writer = Writer::new(&self);
        let cut = async {
            self.host.closing.cuts().await;
            // What is on its way to the store gets there, unless the store takes nothing now.
            drop(tokio::time::timeout(LAST_COMMIT, writer.idle()).await);
        };
        let ended = tokio::select! {
            biased;
            ended = Box::pin(self.to_end(&writer)) => Some(ended),
            () = cut => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => self.put_back(&writer).await,
        };
        if !matches!(ended, Ended::Unrecorded(_)) {
            writer.bill_the_rest().await;
        }
        ended
    }

    async fn put_back(&self, writer: &Writer) -> Ended {
        match writer.release().await {
            Ok(()) => Ended::Released,
            Err(StoreError::Fenced { .. }) => Ended::Lost,
            Err(error) => {
                let run = &self.claim.at.run;
                tracing::warn!(%error, %run, "the run cannot be put back; it is taken over later");
                Ended::Released
            }
        }
    }

    async fn to_end(&self, writer: &Arc<Writer>) -> Ended {
        let mut patience = Patience::new();
        // No claim before ours, and nothing of ours yet: the log is empty.
        let mut fresh = self.claim.fence == 1;
        let mut counted = fresh;
        let error = loop {
            // Types of users are written, read and dropped outside of nodes too, and may panic.
            let going = self.enter_and_go(writer, fresh, &mut counted);
            let went = AssertUnwindSafe(going).catch_unwind().await;
            fresh = false;
            let error = match went.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))) {
                Ok(Some(end)) => return Ended::Told(end),
                Ok(None) => return self.put_back(writer).await,
                Err(error) => error,
            };
            writer.forget_held().await;
            let RuntimeError::Store(error) = error else { break error };
            if *self.cancel.borrow() {
                break error.into();
            }
            // What could not be read now may be read later, from what is committed by then.
            let waited = patience
                .after(error, self.host.clock.as_ref(), &self.claim.at, Some(&self.hub))
                .await;
            if let Err(error) = waited {
                break error.into();
            }
        };
        self.end(writer, error).await
    }

    /// Records an end that the graph did not come to by itself.
    async fn end(&self, writer: &Arc<Writer>, error: RuntimeError) -> Ended {
        let run = &self.claim.at.run;
        if let RuntimeError::Store(StoreError::Fenced { .. }) = &error {
            tracing::warn!(%error, %run, "another worker has the run");
            return Ended::Lost;
        }
        let is_late = matches!(&error, RuntimeError::Store(error) if error.is_retriable());
        let outcome = if is_late && *self.cancel.borrow() {
            RunFinal::Cancelled
        } else {
            tracing::warn!(%run, thread = %self.claim.at.thread, %error, "run failed");
            RunFinal::Failed { fault: error.fault() }
        };
        let Err(error) = writer.failed(outcome.clone()).await else {
            return Ended::Told(outcome.into());
        };
        tracing::warn!(%error, %run, "cannot record the end of the run");
        if matches!(error, StoreError::Fenced { .. }) {
            return Ended::Lost;
        }
        self.hub.give_up(AiEvent::Done { outcome: outcome.status() });
        if error.is_retriable() {
            let writer = Arc::clone(writer);
            return Ended::Unrecorded(Unrecorded { writer, outcome });
        }
        Ended::Told(outcome.into())
    }

    async fn enter_and_go(
        &self,
        writer: &Arc<Writer>,
        fresh: bool,
        counted: &mut bool,
    ) -> Result<Option<End>, RuntimeError> {
        let past = if fresh { Past::default() } else { self.past().await? };
        // On the way again in one process: what was cut off is on record.
        let ours = u32::from(fresh || *counted);
        let lost = past.lost(self.row.new.options.durability).saturating_sub(ours);
        if !*counted {
            let attempts = past.attempts();
            if attempts >= self.host.attempts_max && !self.asked {
                let run = self.claim.at.run.to_string();
                return Err(RuntimeError::CrashLoop { run, attempts });
            }
            if attempts > 1 {
                self.wait_for_turn(writer).await;
            }
            // Before anything of the run can end this process too.
            writer.take_over().await?;
            *counted = true;
        } else if !fresh {
            writer.reset().await?;
        }
        self.go(writer, &past, lost).await
    }

    /// A run that was there when two processes died is under suspicion. Such runs are begun one at
    /// a time, each once the one before got further, ended, or took its time; so those that only
    /// were there do not count the deaths that another one brings about.
    async fn wait_for_turn(&self, writer: &Arc<Writer>) {
        let mut cancelled = self.cancel.subscribe();
        let turn = tokio::select! {
            biased;
            _ = cancelled.wait_for(|cancelled| *cancelled) => return,
            turn = Arc::clone(&self.host.suspects).acquire_owned() => turn.ok(),
        };
        writer.hold(turn);
        let (writer, end) = (Arc::downgrade(writer), self.host.clock.sleep(SUSPICION));
        tokio::spawn(async move {
            end.await;
            if let Some(writer) = writer.upgrade() {
                writer.hold(None);
            }
        });
    }

    /// Reads the log of earlier claims.
    async fn past(&self) -> Result<Past, RuntimeError> {
        let (mut past, mut after) = (Past::default(), 0);
        loop {
            let page = self.host.store.events(&self.who, &self.claim.at, after, LOG_PAGE).await?;
            let Some(last) = page.last() else { return Ok(past) };
            after = last.seq;
            page.iter().for_each(|told| past.read(&told.event));
        }
    }

    /// `None` when the process stops before the run's end.
    async fn go(
        &self,
        writer: &Arc<Writer>,
        past: &Past,
        lost: u32,
    ) -> Result<Option<End>, RuntimeError> {
        let (store, thread) = (&self.host.store, &self.claim.at.thread);
        let began = self.host.clock.now();
        let answers = answers(store.interrupts(&self.who, thread).await?);
        let begin = self.begin(past.begun, &answers).await?;
        let local = self.local(writer, answers, lost);
        match begin {
            Begin::Update(update) => {
                let at = self.at();
                self.graph.update(&local, &at, vec![vec![update]]).await?;
                writer.let_go().await?;
            }
            Begin::Nothing => {}
            Begin::Run(start) => {
                let ended = match self.run(&local, writer, start, past).await {
                    Ok(Some(finished)) => {
                        return self.finish(&local, writer, (finished, began)).await;
                    }
                    Ok(None) => RunFinal::Cancelled,
                    // Its siblings may have asked something meanwhile.
                    Err(RuntimeError::Node(fault)) => RunFinal::Failed { fault },
                    Err(error) => return Err(error),
                };
                return Ok(Some(self.stopped(&local, writer, ended).await?.into()));
            }
        }
        let state = self.graph.state(&local, &At::thread(thread.as_str()), false).await?;
        let outcome = RunFinal::Completed { output: state.values };
        Ok(Some(writer.finish(outcome, Vec::new()).await?.into()))
    }

    /// Records how the graph ended.
    async fn finish(
        &self,
        local: &Local,
        writer: &Writer,
        (finished, began): (Finished, Timestamp),
    ) -> Result<Option<End>, RuntimeError> {
        if finished.is_completed() {
            writer.finish(RunFinal::Completed { output: Json::Null }, Vec::new()).await?;
            return Ok(Some(End::Finished(Box::new(finished))));
        }
        if finished.is_released() {
            return Ok(None);
        }
        let ended = match finished.outcome() {
            Outcome::Interrupted { interrupts } if !interrupts.is_empty() => {
                let outcome = RunFinal::Interrupted { interrupts: ids(&interrupts) };
                let wakes_at = wakes_at(&interrupts, began);
                return Ok(Some(writer.stop(outcome, interrupts, wakes_at).await?.into()));
            }
            Outcome::Interrupted { .. } => RunFinal::Interrupted { interrupts: Vec::new() },
            Outcome::Drained { reason } => {
                tracing::info!(run = %self.claim.at.run, reason, "a node asked the run to stop");
                RunFinal::Cancelled
            }
            Outcome::LimitReached { step_limit } => RunFinal::LimitReached { step_limit },
            Outcome::Completed { output } => RunFinal::Completed { output },
        };
        Ok(Some(self.stopped(local, writer, ended).await?.into()))
    }

    /// Goes superstep by superstep; `None` when somebody cancelled the run. Events that watchers
    /// wait for go to the log meanwhile.
    async fn run(
        &self,
        local: &Local,
        writer: &Arc<Writer>,
        start: Start,
        past: &Past,
    ) -> Result<Option<Finished>, RuntimeError> {
        let options = &self.row.new.options;
        let mut run = self.graph.run(local, start).thread(self.claim.at.thread.as_str());
        run = run.durability(match options.durability {
            Durability::Async => Durability::Async,
            // The writer holds them until then.
            Durability::Sync | Durability::Exit => Durability::Sync,
        });
        run = self.with_options(run);
        // What a process before this one committed for the run is at the head.
        if !past.begun {
            run = self.placed(run);
        }
        if let Some(earlier) = past.progress(&self.row.new.input) {
            run = run.continued(earlier);
        }
        let mut cancelled = self.cancel.subscribe();
        let mut run = std::pin::pin!(run.finish());
        let mut log = std::pin::pin!(writer.keep_log());
        let _goes_on = writer.calls.goes_on();
        tokio::select! {
            biased;
            // What is on its way to the store gets there, so that it is told only once.
            () = async {
                // Fails only without a sender, and we are one.
                cancelled.wait_for(|cancelled| *cancelled).await.map(drop).unwrap_or_default();
                writer.idle().await;
            } => Ok(None),
            outcome = &mut run => outcome.map(Some),
            error = &mut log => Err(error.into()),
        }
    }

    /// Ends a run before its graph's end. Questions that nobody answered stay open.
    async fn stopped(
        &self,
        local: &Local,
        writer: &Writer,
        outcome: RunFinal,
    ) -> Result<RunFinal, RuntimeError> {
        writer.let_go().await?;
        let at = At::thread(self.claim.at.thread.as_str());
        let open = self.graph.state(local, &at, false).await?.interrupts;
        writer.finish(outcome, open).await
    }

    /// Returns the start of the run, unless an earlier process performed it.
    async fn begin(
        &self,
        begun: bool,
        answers: &BTreeMap<InterruptId, Answer>,
    ) -> Result<Begin, RuntimeError> {
        let given = || {
            let given = answers.iter().map(|(id, answer)| (*id, answer.value.clone()));
            let given: BTreeMap<_, _> = given.collect();
            (!given.is_empty()).then_some(Answers::ById(given))
        };
        let go_on = || match given() {
            None => Start::Continue,
            resume => Start::Command(StartCommand { resume, ..StartCommand::default() }),
        };
        let missing =
            || RuntimeError::NothingToContinue { thread: self.claim.at.thread.to_string() };
        Ok(match self.row.new.input.clone() {
            RunInput::Update { .. } if begun => Begin::Nothing,
            RunInput::Update { writes, as_node } => {
                let values = match writes {
                    Json::Object(members) => Some(members.into_iter().collect()),
                    Json::Null => None,
                    other => {
                        return Err(RuntimeError::Engine(EngineError::NotAnObject {
                            by: "the update".to_owned(),
                            found: other.to_string().chars().take(120).collect(),
                        }));
                    }
                };
                Begin::Update(StateUpdate { values, as_node: as_node.into() })
            }
            RunInput::Start { input } if !begun => Begin::Run(Start::Input(input)),
            RunInput::Command(command) if !begun && self.applies(&command).await? => {
                let mut command = StartCommand::from(command);
                if matches!(command.resume, None | Some(Answers::ById(_))) {
                    command.resume = given();
                }
                Begin::Run(Start::Command(command))
            }
            _ if self.is_new().await? => return Err(missing()),
            RunInput::Continue if self.begins_at().is_some() && !begun => {
                Begin::Run(Start::Continue)
            }
            RunInput::Start { .. } | RunInput::Command(_) | RunInput::Continue => {
                Begin::Run(go_on())
            }
        })
    }

    /// Returns `true` if a command does more than answer, or if the thread has a state.
    async fn applies(&self, command: &RunCommand) -> Result<bool, RuntimeError> {
        Ok(!command.only_answers() || !self.is_new().await?)
    }

    /// Returns `true` if the thread has no checkpoint.
    async fn is_new(&self) -> Result<bool, RuntimeError> {
        let thread = self.host.store.thread(&self.who, &self.claim.at.thread).await?;
        Ok(thread.head.is_none())
    }

    fn local(
        &self,
        writer: &Arc<Writer>,
        answers: BTreeMap<InterruptId, Answer>,
        lost: u32,
    ) -> Local {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.host.store) as _;
        let saver = StoreSaver::claimed(
            store,
            self.who.clone(),
            Arc::clone(writer) as _,
            Arc::clone(&self.host.recent),
        );
        let caller = GraphCaller {
            caller: self.row.new.caller.clone(),
            run: self.claim.at.run.clone(),
            graph: self.row.new.graph.clone(),
            graph_version: self.graph.version().to_owned(),
        };
        let journal = RunJournal {
            store: Arc::clone(&self.host.store),
            clock: Arc::clone(&self.host.clock),
            who: self.who.clone(),
            claim: self.claim.clone(),
            log: Arc::clone(&writer.calls),
            lost,
            origins: self.origins(),
        };
        let calls =
            Calls::new(&self.host, writer, (journal, caller, answers), &self.row.new.options);
        self.host.local.clone().with_saver(saver).in_environment(Arc::new(calls))
    }
}

impl Run {
    fn origins(&self) -> Option<Origins> {
        if self.row.new.options.reuse_from == ReuseFrom::Own {
            return None;
        }
        let store: Arc<dyn CheckpointStore> = Arc::clone(&self.host.store) as _;
        Some(Origins {
            saver: StoreSaver::new(store, self.who.clone()),
            plan: Arc::clone(self.graph.plan()),
            clock: Arc::clone(&self.host.clock),
            run: self.claim.at.clone(),
            known: Mutex::default(),
        })
    }
}

fn ids(interrupts: &[Interrupt]) -> Vec<InterruptId> {
    interrupts.iter().map(|interrupt| interrupt.id).collect()
}

/// When the first of the questions takes its default. One that had expired when the run began and
/// is still open waits for another to be answered before it.
fn wakes_at(open: &[Interrupt], began: Timestamp) -> Option<Timestamp> {
    open.iter().filter_map(Interrupt::lapses_at).filter(|at| *at > began).min()
}

fn answers(rows: Vec<InterruptRow>) -> BTreeMap<InterruptId, Answer> {
    rows.into_iter().filter_map(|row| Some((row.interrupt.id, row.answer?))).collect()
}
