//! Threads as the protocol of commands and events sees them.

use super::Service;
use crate::error::{ApiError, Result};
use crate::protocol::tape::{self, Begin, Since};
use crate::protocol::tree::Tree;
use crate::translate::{ids, rows};
use futures_util::{StreamExt, TryFutureExt};
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{HistoryFilter, Modes, Snapshot};
use weftwork_runtime::{FollowFrom, OutputStream, Selection, Subgraphs, ThreadView};
use weftwork_store::{InterruptRow, RunRow, StoreError, by_execution};
use weftwork_types::event::Position;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{CheckpointId, RunId, ThreadId};

/// Time after the end of a run for which a client that names no event receives its events. The events
/// of a run that waits for answers are received at any time.
const RECENT: Duration = Duration::from_secs(60);

impl Service {
    /// Returns the begin of the events of a thread for a client: after the event that it names, or
    /// with the first run that has not ended or has ended recently.
    ///
    /// # Errors
    /// Status 422 if the event is not one of the thread.
    pub(crate) async fn begin(&self, thread: &ThreadId, since: Option<&Since>) -> Result<Begin> {
        let runs = self.all_runs(thread).await?;
        let Some(since) = since else { return Ok(self.begin_of_recent(&runs)) };
        if runs.is_empty() {
            let received = String::new();
            return Ok(Begin { from: FollowFrom::Start, run: 0, after: None, received });
        }
        let known: Vec<_> = runs.iter().map(|run| run.new.at.run.clone()).collect();
        tape::begin_after(since, &known)
            .ok_or_else(|| ApiError::invalid("`since` names no event of this thread"))
    }

    fn begin_of_recent(&self, runs: &[RunRow]) -> Begin {
        let now = self.now();
        // A run that begins later leaves the questions of the thread as they are.
        let runs = &runs[..runs.iter().take_while(|run| !run.waits_for_time(now)).count()];
        let is_recent = |run: &&RunRow| {
            !run.status.is_final() || run.ended_at.is_none_or(|at| at.plus(RECENT) >= now)
        };
        let found = runs.iter().position(|run| is_recent(&run));
        let waits = |last: &&RunRow| last.status == RunStatus::Interrupted;
        let waiting = runs.last().filter(waits).map(|_| runs.len() - 1);
        let index = found.or(waiting).unwrap_or(runs.len());
        let from = match runs.get(index) {
            Some(run) => {
                let run = run.new.at.run.clone();
                FollowFrom::in_run(run, Position::START)
            }
            None if runs.is_empty() => FollowFrom::Start,
            None => FollowFrom::Now,
        };
        Begin { from, run: index as u64, after: None, received: String::new() }
    }

    /// Returns all runs of a thread in the order of their execution; none if the thread does not
    /// exist.
    pub(crate) async fn all_runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>> {
        match self.store().runs(self.who(), thread).await {
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            runs => Ok(by_execution(runs?)),
        }
    }

    /// Follows the runs of a thread.
    pub(crate) fn output(&self, thread: &ThreadId, from: FollowFrom, modes: Modes) -> OutputStream {
        let subgraphs = Subgraphs::Include;
        let select = Selection { modes, subgraphs, ..Selection::default() }.with_logged_texts();
        let runtime = self.runtime().clone();
        let who = self.who().clone();
        let thread = thread.clone();
        let output = async move { runtime.follow(&who, &thread, from, select).await };
        output.try_flatten_stream().boxed()
    }

    /// Returns the index of a run in its thread and the name of its graph; `None` if clients do not
    /// see the run, because it was deleted or rolled back.
    pub(crate) async fn place_of(&self, run: &RunRef) -> Result<Option<(u64, String)>> {
        let row = match self.run_row(run).await {
            Err(error) if error.is_missing() => return Ok(None),
            row => row?,
        };
        let runs = self.all_runs(&run.thread).await?;
        let index = runs.iter().position(|other| other.new.at.run == run.run);
        Ok(index.map(|index| (index as u64, self.name_of(&row.new.graph).to_owned())))
    }

    /// Returns the reason of a run that failed.
    pub(crate) async fn failure(&self, run: &RunRef) -> Result<Option<String>> {
        let outcome = self.ending(run).await?;
        Ok(outcome.as_ref().and_then(rows::failure_of).map(|error| error.message().to_owned()))
    }

    /// Returns the questions of a thread.
    pub(crate) async fn questions(&self, thread: &ThreadId) -> Result<Vec<InterruptRow>> {
        match self.store().interrupts(self.who(), thread).await {
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            questions => Ok(questions?),
        }
    }

    /// Returns the state of a graph of a thread; `None` if no run made one.
    pub(crate) async fn snapshot(
        &self,
        thread: &ThreadId,
        namespace: &[String],
    ) -> Result<Option<Snapshot>> {
        let Some(view) = self.view_of(thread, namespace).await? else { return Ok(None) };
        Ok(Some(view.state().await?))
    }

    /// Returns the checkpoints of a graph of a thread, newest first; `None` if no run made one.
    pub(crate) async fn checkpoints(
        &self,
        thread: &ThreadId,
        namespace: &[String],
        filter: &HistoryFilter,
    ) -> Result<Option<Vec<Snapshot>>> {
        let Some(view) = self.view_of(thread, namespace).await? else { return Ok(None) };
        Ok(Some(view.history(filter).await?))
    }

    async fn view_of(&self, thread: &ThreadId, namespace: &[String]) -> Result<Option<ThreadView>> {
        let row = match self.row(thread).await {
            Err(error) if error.is_missing() => return Ok(None),
            row => row?,
        };
        let Some((opened, _)) = self.open(&row)? else { return Ok(None) };
        let view = opened.view();
        Ok(Some(match namespace {
            [] => view,
            parts => view.within(&ids::read_namespace(&parts.join("|"))),
        }))
    }

    /// Returns `true` if a checkpoint is one of a thread.
    pub(crate) async fn has_checkpoint(&self, thread: &ThreadId, id: CheckpointId) -> Result<bool> {
        let Some(view) = self.view_of(thread, &[]).await? else { return Ok(false) };
        match view.at(id).state().await {
            Err(RuntimeError::UnknownCheckpoint { .. }) => Ok(false),
            found => Ok(found?.metadata.is_some()),
        }
    }

    /// Returns `true` if the graph of an assistant has a channel for messages with the usual name.
    pub(crate) async fn takes_messages(&self, assistant: &str) -> Result<bool> {
        let assistant = self.chosen(assistant).await?;
        Ok(self.hosted(assistant.record.graph())?.graph.holds_messages("messages"))
    }

    /// Reads the graphs of a run from its log.
    pub(crate) async fn tree(&self, row: &RunRow) -> Result<Tree> {
        let mut tree = Tree::new(self.name_of(&row.new.graph).to_owned());
        self.read_events(&row.new.at, |stored| {
            tree.follow(&stored.event, None);
        })
        .await?;
        Ok(tree)
    }

    /// Returns the run that a request names, or the newest one that is active: it has not ended, or
    /// it waits for an answer.
    pub(crate) async fn active_run(
        &self,
        thread: &ThreadId,
        run: Option<&RunId>,
    ) -> Result<Option<RunRow>> {
        let mut runs = self.all_runs(thread).await?;
        let now = self.now();
        runs.retain(|row| match run {
            Some(run) => row.new.at.run == *run,
            None if row.waits_for_time(now) => false,
            None => !row.status.is_final() || row.status == RunStatus::Interrupted,
        });
        let Some(row) = runs.pop() else { return Ok(None) };
        match self.run_row(&row.new.at).await {
            Err(error) if error.is_missing() => Ok(None),
            row => Ok(Some(row?)),
        }
    }
}
