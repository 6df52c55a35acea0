//! Following runs and threads: stored events, and live ones while this process executes a run.

mod follower;
mod log;
mod reported;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use follower::Follower;
pub(crate) use log::RunLog;
pub use thread::FollowFrom;
pub(crate) use thread::{ThreadRuns, ThreadStart, last_seq};

use std::collections::BTreeMap;
use std::time::Duration;
use weftwork_graph::run_loop::StateQuery;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::event::Position;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{Clock, RunHandle};
use weftwork_types::run::RunOutcome;
use weftwork_types::shown::StateForm;
use weftwork_types::{CheckpointId, InterruptId};

/// Interval of the first read of the store after one that found something new; doubled by each read
/// that finds nothing.
const LOOK_FIRST: Duration = Duration::from_millis(100);
/// Maximum interval between two reads of the store.
const LOOK_LAST: Duration = Duration::from_millis(500);

/// Intervals between reads of the store, which grow while nothing changes.
#[derive(Debug)]
struct Interval(Duration);

impl Interval {
    fn new() -> Self {
        Self(LOOK_FIRST)
    }

    /// Waits until the next read is due, or something has changed in this process.
    async fn wait(&mut self, clock: &dyn Clock, changed: impl Future<Output = ()>) {
        tokio::select! {
            () = changed => {}
            () = clock.sleep(self.0) => {
                // A test clock may not wait at all.
                tokio::task::yield_now().await;
            }
        }
        self.0 = (self.0 * 2).min(LOOK_LAST);
    }
}

impl RunLog {
    /// Returns a handle to the events of the run, and to its outcome as stored, without output.
    pub(crate) fn handle(self) -> RunHandle {
        let run = self.at.clone();
        let events = Follower::of_run(self.clone(), Position::START).events();
        let outcome = Box::pin(async move {
            let failed = |error: RuntimeError| RunOutcome::Failed { fault: error.fault() };
            let outcome = self.ended().await.map_or_else(failed, |(outcome, _)| outcome);
            outcome.in_form(StateForm::Shown)
        });
        RunHandle { run, events, outcome }
    }

    /// Waits for the end of the run, and returns its outcome as stored, with the last checkpoint.
    pub(crate) async fn ended(&self) -> Result<(RunOutcome, Option<CheckpointId>), RuntimeError> {
        let Self { context, who, at } = self;
        let mut live = self.live();
        let mut interval = Interval::new();
        loop {
            // Before the row is read: an end that it does not have yet is reported.
            let is_here = live.is_here();
            let row = context.store.run(who, at).await?;
            match row.outcome {
                Some(outcome) => return Ok((outcome, row.last_checkpoint)),
                None if is_here => live.changed().await,
                None => interval.wait(context.clock.as_ref(), live.changed()).await,
            }
        }
    }
}

/// A run, of which the events and the outcome are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    pub(crate) log: RunLog,
    pub(crate) graph: CompiledGraph,
}

impl Follow {
    /// Returns a handle to the events after a position. While this process executes the run, text
    /// arrives at once.
    pub(crate) fn handle(self, after: Position) -> RunHandle {
        let run = self.log.at.clone();
        let events = Follower::of_run(self.log.clone(), after).events();
        let outcome = Box::pin(async move { self.end().await });
        RunHandle { run, events, outcome }
    }

    /// Waits for the run's end.
    pub(crate) async fn end(&self) -> RunOutcome {
        let ended = self.read_outcome().await;
        let ended = ended.unwrap_or_else(|error| RunOutcome::Failed { fault: error.fault() });
        ended.in_form(StateForm::Shown)
    }

    async fn read_outcome(&self) -> Result<RunOutcome, RuntimeError> {
        let (outcome, last_checkpoint) = self.log.ended().await?;
        match outcome {
            RunOutcome::Completed { .. } => {
                Ok(RunOutcome::Completed { output: self.read_output(last_checkpoint).await? })
            }
            RunOutcome::Interrupted { interrupts, .. } if !interrupts.is_empty() => {
                let questions = self.read_questions(&interrupts).await?;
                Ok(RunOutcome::Interrupted { interrupts, questions })
            }
            outcome => Ok(outcome),
        }
    }

    /// Reads the questions at which the run ended, in their order.
    async fn read_questions(&self, ids: &[InterruptId]) -> Result<Vec<Interrupt>, RuntimeError> {
        let RunLog { context, who, at } = &self.log;
        let rows = context.store.interrupts(who, &at.thread).await?;
        let mut asked: BTreeMap<_, _> =
            rows.into_iter().map(|row| (row.interrupt.id, row.interrupt)).collect();
        Ok(ids.iter().filter_map(|id| asked.remove(id)).collect())
    }

    /// Returns the state of the thread at the end of the run, which is not stored a second time with
    /// the outcome. Returns null if this checkpoint no longer exists, or if it is not known, because
    /// the run ended in an older format, and a later run exists.
    async fn read_output(
        &self,
        checkpoint: Option<CheckpointId>,
    ) -> Result<serde_json::Value, RuntimeError> {
        let RunLog { context, who, at } = &self.log;
        let runs = context.store.runs(who, &at.thread).await?;
        let is_last = runs.last().is_some_and(|last| last.new.at == *at);
        if checkpoint.is_none() && !is_last {
            return Ok(serde_json::Value::Null);
        }
        let checkpoint = checkpoint.filter(|_| !is_last);
        let query = StateQuery { checkpoint, ..StateQuery::thread(at.thread.as_str()) };
        match self.graph.state(&context.looking(who), &query, false).await {
            Ok(state) => Ok(state.values),
            Err(RuntimeError::UnknownCheckpoint { .. }) => Ok(serde_json::Value::Null),
            Err(error) => Err(error),
        }
    }
}
