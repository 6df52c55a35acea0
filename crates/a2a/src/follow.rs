//! The updates of a task as they come, over all its runs.

use crate::error::{A2aError, Result};
use crate::reader::{RunReader, Update};
use crate::task::TaskRuns;
use futures_util::{Stream, stream};
use std::collections::VecDeque;
use weftwork_server::{TurnFollower, TurnSource, TurnStep};
use weftwork_types::Principal;

/// The end of the updates of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// A question, or the end.
    Asks,
    /// The end.
    Ends,
}

/// A task that is followed.
pub(crate) struct Follower {
    source: TurnSource,
    who: Principal,
    turns: TurnFollower,
    /// Reader of the run that is followed.
    reader: Option<RunReader>,
    until: Until,
    updates: VecDeque<Update>,
    is_over: bool,
}

impl Follower {
    /// Follows a task after its first `done` runs, which have ended.
    pub(crate) fn new(
        source: TurnSource,
        who: Principal,
        task: TaskRuns,
        done: usize,
        until: Until,
    ) -> Self {
        let turns = TurnFollower::new(source.clone(), who.clone(), task.chain, done);
        let updates = VecDeque::new();
        Self { source, who, turns, reader: None, until, updates, is_over: false }
    }

    /// Returns the next update. There is none after the end of the task, and after the end of this
    /// process, when another one continues the task.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn next(&mut self) -> Result<Option<Update>> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return Ok(Some(update));
            }
            if self.is_over {
                return Ok(None);
            }
            let step = self.turns.next().await.map_err(A2aError::of_fault)?;
            self.take(step).await?;
        }
    }

    /// Returns the number of runs that were followed to their end; `None` within a run.
    pub(crate) fn completed(&self) -> Option<usize> {
        self.turns.completed().filter(|_| self.updates.is_empty())
    }

    async fn take(&mut self, step: TurnStep) -> Result<()> {
        match step {
            TurnStep::Begins(turn) => {
                let reader = RunReader::new(&turn, self.turns.chain().first().at.run.as_str());
                self.updates.push_back(reader.begin());
                self.reader = Some(reader);
            }
            TurnStep::Event(event) => {
                let read = self.reader.as_mut().map(|reader| reader.read(&event));
                self.updates.extend(read.into_iter().flatten());
            }
            TurnStep::Quiet(_) => {}
            TurnStep::Ends { turn, outcome } => {
                let ended = self.reader.take().map(|reader| reader.end(&outcome, turn.ended_at));
                let updates = ended.unwrap_or_default();
                self.is_over = updates
                    .iter()
                    .filter_map(Update::ends)
                    .any(|status| status.state.is_terminal() || self.until == Until::Asks);
                self.updates.extend(updates);
            }
            TurnStep::RolledBack => {
                let task = TaskRuns { chain: self.turns.chain().clone() };
                let status = task.status(&*self.source.platform, &self.who).await?;
                self.updates.push_back(Update::Status(status));
                self.is_over = true;
            }
            TurnStep::Stops => self.is_over = true,
        }
        Ok(())
    }

    /// Returns the updates as a stream, which ends early if the store fails.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Update> + Send {
        stream::unfold(self, async |mut follower| match follower.next().await {
            Ok(update) => update.map(|update| (update, follower)),
            Err(error) => {
                tracing::warn!(code = error.code(), "the stream of a task ended early");
                None
            }
        })
    }
}
