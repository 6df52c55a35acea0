//! The activities of an instance, one after another.
//!
//! An instance is a thread, and its mailbox is the queue of the unfinished runs of that thread, in the
//! order of [`turn`](weftwork_store::mailbox::turn). The process that accepted an activity, or
//! recovery, attends the mailbox: one task executes its activities until none is left. An idle
//! instance has no task.

use super::admission::{Admit, AdmittedRun, check_depth, new_run};
use super::core::{Inner, Runtime};
use crate::fork::copy_activity;
use crate::hosted::Requester;
use crate::run_kind::sets_aside;
use futures_util::FutureExt;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;
use weftwork_engine::EngineError;
use weftwork_graph::run_loop::{StateQuery, out_of_node};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::mailbox::{RESERVED, is_terminated};
use weftwork_store::{InterruptRow, NewRun, RunRow, StoreError};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef, RunRequest, RunStatus};
use weftwork_types::{OrgId, Principal, ThreadId, Timestamp, canonical};

/// Interval of checks of a mailbox whose next activity waits for another process or for a slot. In
/// machine time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Next action for a mailbox.
enum Step {
    /// No activity can begin here.
    Leave,
    /// The next activity begins at this time.
    WaitUntil(Timestamp),
    /// Another process has the next activity, or the store cannot be read now.
    Look,
    /// The activity is executed, here or elsewhere.
    Follow(Box<RunHandle>),
}

impl Runtime {
    /// Accepts an activity for the mailbox of its instance, in one commit, and attends the mailbox.
    /// The graph need not be hosted here: a process that hosts it executes the activity.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with the errors of
    /// [`check_mailbox`](weftwork_store::mailbox::check_mailbox), with `KeyReused` for an idempotency
    /// key of another request; [`RuntimeError::TooDeep`], [`RuntimeError::Stopping`].
    pub async fn enqueue(&self, request: RunRequest) -> Result<RunRef, RuntimeError> {
        let who = request.principal.clone();
        let activity = self.enqueue_only(request).await?;
        self.attend(&who, &activity.thread);
        Ok(activity)
    }

    /// Accepts an activity as [`enqueue`](Self::enqueue) does, for execution by another process.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub async fn enqueue_only(&self, request: RunRequest) -> Result<RunRef, RuntimeError> {
        Ok(self.accept(request, Admit::Activity).await?.into_handle().run)
    }

    /// Stores an activity, without the checks that need its graph.
    pub(super) async fn store_activity(
        &self,
        request: RunRequest,
    ) -> Result<AdmittedRun, RuntimeError> {
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        check_depth(&request.input)?;
        let context = &self.0.context;
        let who = request.principal.clone();
        let now = context.clock.now();
        let new = new_run(&*context.clock, request, now);
        let row = context.store.create_run(&who, new, BTreeMap::new()).await?;
        Ok(AdmittedRun::Elsewhere(self.log(who, row.new.at).handle()))
    }

    /// Executes the activities of an instance one after another, in a task of this process, until
    /// none is left that can begin here. Has no further effect while such a task exists.
    ///
    /// An instance whose graph is not hosted here, or whose state the graph cannot read, stays as it
    /// is, with its mailbox.
    pub fn attend(&self, who: &Principal, thread: &ThreadId) {
        let key = (who.org.clone(), thread.clone());
        let Some(signal) = self.0.mailboxes.enter(&key) else { return };
        tokio::spawn(attend_mailbox(Arc::downgrade(&self.0), who.clone(), key, signal));
    }

    /// Checks that a graph which is hosted here can read the state of a thread.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownGraph`], [`RuntimeError::Engine`] if the state is that of another graph.
    pub async fn check_hosted(
        &self,
        who: &Principal,
        graph: &str,
        thread: &ThreadId,
    ) -> Result<(), RuntimeError> {
        let graph = self.graph(who, graph)?;
        match self.check_readable(who, &graph, thread).await {
            Err(error) if is_of_other_graph(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Checks that this process can make the dependencies of a run: it makes and drops them.
    ///
    /// # Errors
    /// [`RuntimeError::Dependencies`].
    pub async fn check_dependencies(
        &self,
        who: &Principal,
        run: &NewRun,
    ) -> Result<(), RuntimeError> {
        self.0.context.make_dependencies(who, run).await.map(drop)
    }

    /// Reads a thread as a run would. This decodes types of users, which may panic.
    async fn check_readable(
        &self,
        who: &Principal,
        graph: &CompiledGraph,
        thread: &ThreadId,
    ) -> Result<(), RuntimeError> {
        let host = self.looking(who);
        let at = StateQuery::thread(thread.as_str());
        let read = AssertUnwindSafe(graph.state(&host, &at, true)).catch_unwind().await;
        read.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))).map(drop)
    }

    /// Finds the next activity of a mailbox, and begins it. `checked` has the graph that is known to
    /// read the state.
    async fn next_activity(
        &self,
        who: &Principal,
        thread: &ThreadId,
        checked: &mut Option<String>,
    ) -> Result<Step, RuntimeError> {
        let now = self.clock().now();
        let mut next = self.store().next_run(who, thread, now).await?;
        if next.is_none() && self.set_aside(thread, who).await? {
            next = self.store().next_run(who, thread, now).await?;
        }
        let Some((by, row)) = next else { return self.first_deadline(who, thread).await };
        let at = &row.new.at;
        if row.waits_in_mailbox(now) {
            return Ok(Step::WaitUntil(row.new.options.not_before.unwrap_or(now)));
        }
        if row.status == RunStatus::Running && self.running().contains_key(&at.run) {
            let graph = self.graph(&by, &row.new.graph)?;
            return Ok(Step::Follow(Box::new(self.handle_of(by, at.clone(), graph))));
        }
        if checked.as_ref() != Some(&row.new.graph) {
            self.check_hosted(&by, &row.new.graph, thread).await?;
            *checked = Some(row.new.graph.clone());
        }
        match self.take(&by, at, Requester::Recovery).await {
            Ok(handle) => Ok(Step::Follow(Box::new(handle))),
            // A living worker has it, or another one became the next.
            Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                Ok(Step::Look)
            }
            Err(RuntimeError::Store(StoreError::MailboxClosed { .. })) => Ok(Step::Leave),
            Err(error) => Err(error),
        }
    }

    /// Returns the step for a mailbox of which none begins now: the activities that wait behind a
    /// question end at their deadlines.
    async fn first_deadline(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<Step, RuntimeError> {
        let deadline = |run: &RunRow| run.new.options.deadline;
        let waiting = self.store().unfinished_runs(who, thread).await?;
        let Some(first) = waiting.iter().filter_map(deadline).min() else { return Ok(Step::Leave) };
        let row = self.store().thread(who, thread).await?;
        Ok(if is_terminated(&row.metadata) { Step::Leave } else { Step::WaitUntil(first) })
    }

    /// Returns the thread in which an activity continues if it asks a question and is set aside. It
    /// exists from a moment after the question on.
    #[must_use]
    pub fn aside_of(who: &Principal, activity: &RunRef) -> ThreadId {
        let RunRef { thread, run } = activity;
        let name = canonical::first_128(&format!("{}/{thread}/{run}", who.org));
        ThreadId::from_uuid(Uuid::from_u128(name))
    }

    /// Lets an activity that asks a question continue in a thread of its own, if its mailbox says so,
    /// and drops what it has left to do from the state of the instance. Returns `false` if there is no
    /// such question.
    ///
    /// Each step is repeated after the death of a process: answers to the instance are refused, so that
    /// the question is never answered in both threads.
    pub(super) async fn set_aside(
        &self,
        thread: &ThreadId,
        who: &Principal,
    ) -> Result<bool, RuntimeError> {
        let rows = self.store().interrupts(who, thread).await?;
        let asks = |row: &&InterruptRow| row.is_open() && row.interrupt.asks();
        let Some(question) = rows.iter().find(asks) else { return Ok(false) };
        let asked = RunRef { thread: thread.clone(), run: question.run.clone() };
        let run = self.store().run(who, &asked).await?;
        if !sets_aside(&run.new.options) {
            return Ok(false);
        }
        let graph = run.new.graph.clone();
        self.check_hosted(who, &graph, thread).await?;
        let to = Self::aside_of(who, &asked);
        match copy_activity(&**self.store(), who, &asked, &to, &**self.clock()).await {
            Ok(()) | Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
            Err(error) => return Err(error),
        }
        tracing::debug!(instance = %thread, activity = %asked.run, aside = %to, "an activity asks");
        let options = RunOptions {
            idempotency_key: Some(format!("{RESERVED}aside:{}", asked.run)),
            ..RunOptions::default()
        };
        let dropped = RunRequest {
            principal: who.clone(),
            caller: run.new.caller,
            graph,
            thread: thread.clone(),
            input: RunInput::Update { writes: Json::Null, as_node: Some("__end__".to_owned()) },
            options,
        };
        match self.accept(dropped, Admit::Run(None)).await?.into_handle().outcome.await {
            RunOutcome::Failed { fault } => Err(RuntimeError::Node(fault)),
            _ => Ok(true),
        }
    }
}

/// Returns `true` for the error of a graph that reads the state of another one.
fn is_of_other_graph(error: &RuntimeError) -> bool {
    matches!(
        error,
        RuntimeError::Engine(EngineError::LostNode { .. } | EngineError::OtherBuild { .. })
    )
}

/// Executes the activities of a mailbox, as long as the runtime exists.
async fn attend_mailbox(
    runtime: Weak<Inner>,
    who: Principal,
    key: (OrgId, ThreadId),
    signal: Arc<Notify>,
) {
    let mut checked = None;
    while let Some(inner) = runtime.upgrade() {
        let runtime = Runtime(inner);
        if runtime.0.context.shutdown.drains() {
            runtime.0.mailboxes.close(&key);
            return;
        }
        let step = match runtime.next_activity(&who, &key.1, &mut checked).await {
            Ok(step) => step,
            Err(RuntimeError::Store(error)) if error.is_retriable() => Step::Look,
            Err(error) => {
                let instance = &key.1;
                let error = error.log_text();
                tracing::debug!(error, %instance, "the mailbox of an instance waits for its graph");
                Step::Leave
            }
        };
        match step {
            Step::Leave => {
                if runtime.0.mailboxes.leave(&key, &signal) {
                    return;
                }
            }
            Step::WaitUntil(at) => {
                let clock = Arc::clone(runtime.clock());
                drop(runtime);
                let wait = u64::try_from(at.0.saturating_sub(clock.now().0)).unwrap_or(0);
                tokio::select! {
                    () = clock.sleep(Duration::from_millis(wait)) => tokio::task::yield_now().await,
                    () = signal.notified() => {}
                }
            }
            Step::Look => {
                drop(runtime);
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    () = signal.notified() => {}
                }
            }
            Step::Follow(handle) => {
                let here = runtime.running().contains_key(&handle.run.run);
                drop(runtime);
                let RunHandle { events, outcome, .. } = *handle;
                drop(events);
                if here {
                    outcome.await;
                    continue;
                }
                // It waits for a slot, and another one may become the next meanwhile.
                tokio::select! {
                    _ = outcome => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    () = signal.notified() => {}
                }
            }
        }
    }
}
