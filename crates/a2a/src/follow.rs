//! The updates of a task as they come, over all its runs, in this process or another.

use crate::error::Result;
use crate::reader::{RunReader, Update};
use crate::task::{TaskRuns, follow};
use futures_util::{Stream, StreamExt, stream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_types::event::RunEvent;
use weftwork_types::port::{Clock, Platform, RunHandle, TurnRun};
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxFuture, BoxStream, Principal};

/// Time after which a task that waits is read again, for messages that another process took.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The agents whose tasks are read, the clock, and the signal for tasks that continue.
#[derive(Debug, Clone)]
pub(crate) struct TaskSource {
    pub(crate) platform: Arc<dyn Platform>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Notified when a message continued a task, or a client cancelled one.
    pub(crate) changed: Arc<Notify>,
}

/// The end of the updates of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// A question, or the end.
    Asks,
    /// The end.
    Ends,
}

/// The run that is followed.
struct Current {
    turn: TurnRun,
    reader: RunReader,
    events: BoxStream<'static, RunEvent>,
    outcome: BoxFuture<'static, RunOutcome>,
}

/// A task that is followed.
pub(crate) struct Follower {
    source: TaskSource,
    who: Principal,
    task: TaskRuns,
    /// Number of its runs that were followed to their end.
    done: usize,
    until: Until,
    current: Option<Current>,
    updates: VecDeque<Update>,
    is_over: bool,
}

impl Follower {
    /// Follows a task after its first `done` runs, which have ended.
    pub(crate) fn new(
        source: TaskSource,
        who: Principal,
        task: TaskRuns,
        done: usize,
        until: Until,
    ) -> Self {
        let updates = VecDeque::new();
        Self { source, who, task, done, until, current: None, updates, is_over: false }
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
            match self.current.take() {
                Some(current) => self.advance(current).await?,
                None => self.open().await?,
            }
        }
    }

    /// Returns the number of runs that were followed to their end; `None` within a run.
    pub(crate) fn completed(&self) -> Option<usize> {
        (self.current.is_none() && self.updates.is_empty()).then_some(self.done)
    }

    /// Reads the next event of the run, or its end.
    async fn advance(&mut self, mut current: Current) -> Result<()> {
        if let Some(event) = current.events.next().await {
            self.updates.extend(current.reader.read(&event));
            self.current = Some(current);
            return Ok(());
        }
        let Current { turn, reader, outcome, .. } = current;
        let outcome = outcome.await;
        self.reload().await?;
        let Some(ended) = self.task.runs.iter().find(|run| run.at == turn.at) else {
            self.is_over = true;
            return Ok(());
        };
        if !ended.status.is_final() {
            // This process stops.
            self.is_over = true;
            return Ok(());
        }
        let updates = reader.end(&outcome, ended.ended_at);
        self.done += 1;
        self.is_over = updates
            .iter()
            .filter_map(Update::ends)
            .any(|status| status.state.is_terminal() || self.until == Until::Asks);
        self.updates.extend(updates);
        Ok(())
    }

    /// Opens the next run, or waits for it.
    async fn open(&mut self) -> Result<()> {
        let source = self.source.clone();
        let mut changed = std::pin::pin!(source.changed.notified());
        // A change after this line is not missed.
        changed.as_mut().enable();
        self.reload().await?;
        if self.task.canceled_at().is_some() {
            let status = self.task.status(&*source.platform, &self.who).await?;
            self.updates.push_back(Update::Status(status));
            self.is_over = true;
            return Ok(());
        }
        let Some(turn) = self.task.runs.get(self.done).cloned() else {
            let wait = source.clock.sleep(READ_AGAIN);
            futures_util::future::select(changed, wait).await;
            return Ok(());
        };
        let RunHandle { events, outcome, .. } = follow(&*source.platform, &self.who, &turn).await?;
        let reader = RunReader::new(&turn, &self.task.id());
        self.updates.push_back(reader.begin());
        self.current = Some(Current { turn, reader, events, outcome });
        Ok(())
    }

    async fn reload(&mut self) -> Result<()> {
        self.task = self.task.reload(&*self.source.platform, &self.who).await?;
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
