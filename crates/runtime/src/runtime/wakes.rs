//! Threads that resume by themselves at their time.

use super::admission::{Admit, AdmittedRun};
use super::core::{Inner, Runtime};
use crate::run_kind::sets_aside;
use crate::worker::LeaseConfig;
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_store::{NewRun, RunRow, StoreError};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunRequest};
use weftwork_types::{Principal, Timestamp};

/// Maximum number of threads woken by one check.
const WOKEN_MAX: usize = 100;
/// Number of threads of one check that are woken at the same time.
const WOKEN_AT_ONCE: usize = 16;
/// Number of runs that wait for a slot beyond which no thread is woken.
const WAITING_MAX: usize = 1_000;
/// Interval of checks while too many runs wait for a slot. In machine time.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Result of one check.
#[derive(Debug, Default)]
struct Woken {
    handles: Vec<RunHandle>,
    /// Number of threads that were due.
    due: usize,
    /// Number of threads that are still due, because they cannot be resumed here.
    failed: usize,
}

impl Runtime {
    /// Resumes the threads whose time has come by the clock of this runtime and whose graphs are
    /// hosted here: a timer ended, or an unanswered question takes its default. Each thread resumes
    /// with a new run, for the principal and the account of the last one, and only once, however
    /// many workers check. At most 100 threads; further ones are resumed by the next call.
    ///
    /// A thread wakes if its last run ended at open questions; not after a run that failed, was
    /// cancelled or reached its limit, unless that run only brought an input that was not applied.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]. Threads that were resumed otherwise in the meantime are omitted,
    /// including those that another worker woke first.
    pub async fn wake(&self) -> Result<Vec<RunHandle>, RuntimeError> {
        Ok(self.wake_some(WOKEN_MAX).await?.handles)
    }

    async fn wake_some(&self, limit: usize) -> Result<Woken, RuntimeError> {
        let graphs = self.graph_ids();
        let mut due = self.store().due(self.0.context.clock.now(), graphs, limit).await?;
        let mut woken = Woken { due: due.len(), ..Woken::default() };
        if due.len() == limit {
            // Workers that read the same threads begin at different ones.
            let random = self.0.context.clock.unique() % limit as u128;
            due.rotate_left(usize::try_from(random).unwrap_or(0));
        }
        let mut all = stream::iter(due)
            .map(|(who, last)| self.wake_one(who, last))
            .buffer_unordered(WOKEN_AT_ONCE);
        while let Some(one) = all.next().await {
            match one {
                Ok(Some(AdmittedRun::Here(handle))) => woken.handles.push(handle),
                Ok(Some(AdmittedRun::Elsewhere(_)) | None) => {}
                Err(RuntimeError::Stopping) => break,
                Err(RuntimeError::Store(
                    StoreError::Busy { .. }
                    | StoreError::NotFound { .. }
                    | StoreError::MailboxClosed { .. },
                )) => {}
                Err(RuntimeError::Store(error)) if error.is_retriable() => return Err(error.into()),
                Err(error) => {
                    woken.failed += 1;
                    let error = error.log_text();
                    tracing::warn!(error, "a thread whose time has come cannot be resumed");
                }
            }
        }
        drop(all);
        Ok(woken)
    }

    /// Resumes a thread after its last run; or sets that aside, without a run, if it is an activity
    /// that asks.
    async fn wake_one(
        &self,
        who: Principal,
        last: RunRow,
    ) -> Result<Option<AdmittedRun>, RuntimeError> {
        if sets_aside(&last.new.options) {
            let thread = &last.new.at.thread;
            // The task of the mailbox does it.
            if self.0.mailboxes.has(&(who.org.clone(), thread.clone())) {
                return Ok(None);
            }
            if self.set_aside(thread, &who).await? {
                self.attend(&who, thread);
                return Ok(None);
            }
        }
        // The thread is due for a process that can execute the run, too.
        self.check_dependencies(&who, &last.new).await?;
        let NewRun { at, graph, caller, options, .. } = last.new;
        let options = options.for_continuation();
        let key = format!("wake:{}", at.run);
        let options = RunOptions {
            idempotency_key: Some(key),
            // The first worker resumes the thread; the others are refused.
            multitask: Multitask::Reject,
            ..options
        };
        let request = RunRequest {
            principal: who,
            caller,
            graph,
            thread: at.thread,
            input: RunInput::Continue,
            options,
        };
        self.accept(request, Admit::Run(None)).await.map(Some)
    }

    /// Returns the time at which the next thread is due, as stored, after this number of threads
    /// that cannot be resumed here.
    async fn next_due(&self, failed: usize) -> Result<Option<Timestamp>, RuntimeError> {
        let graphs = self.graph_ids();
        let mut due = self.store().due(Timestamp(i64::MAX), graphs, failed + 1).await?;
        let Some((who, run)) = due.drain(..).nth(failed) else { return Ok(None) };
        match self.store().thread(&who, &run.new.at.thread).await {
            Ok(thread) => Ok(thread.wakes_at),
            // It was deleted meanwhile.
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Wakes the threads that are due, and returns the number of those that cannot be resumed here.
    async fn wake_all(&self, mut failed: usize) -> Result<usize, RuntimeError> {
        loop {
            if self.0.slots.waiting() > WAITING_MAX {
                self.0.context.timers.add(self.0.context.clock.now());
                return Ok(failed);
            }
            let limit = WOKEN_MAX + failed;
            // Dropping the handles does not end the runs.
            let woken = self.wake_some(limit).await?;
            failed = woken.failed;
            if woken.due < limit || self.0.context.shutdown.drains() {
                return Ok(failed);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Wakes threads at their times, as long as the runtime exists. Times that other processes set are
/// read from the store at regular intervals.
pub(super) async fn wake_at_times(runtime: Weak<Inner>, lease: LeaseConfig) {
    let mut failed = 0;
    while let Some(inner) = runtime.upgrade() {
        if inner.context.shutdown.drains() {
            return;
        }
        let clock = Arc::clone(&inner.context.clock);
        let timers = Arc::clone(&inner.context.timers);
        let runtime = Runtime(inner);
        // Times that are set during the check stay.
        timers.clear();
        let checked = async {
            failed = runtime.wake_all(failed).await?;
            runtime.next_due(failed).await
        };
        match checked.await {
            Ok(next) => next.into_iter().for_each(|next| timers.add(next)),
            Err(error) => tracing::warn!(%error, "cannot resume threads whose time has come"),
        }
        drop(runtime);
        let now = clock.now();
        let next = timers.next();
        let wait = next.map(|next| u64::try_from(next.0.saturating_sub(now.0)).unwrap_or(0));
        let until = async {
            match wait {
                // Too many runs wait for a slot.
                Some(0) => tokio::time::sleep(LOOK_EVERY).await,
                Some(ms) => clock.sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = until => {}
            () = timers.before(next) => {}
            // Not by the clock of runs, which tests may stop or move.
            () = tokio::time::sleep(lease.look_every) => {}
        }
    }
}
