//! A call as it goes on, over all its runs, in this process or another.

use crate::call_runs::CallRuns;
use crate::error::{McpError, Result};
use crate::source::Source;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use std::time::Duration;
use weftwork_types::event::{BegunCalls, RunEvent};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{RunHandle, TurnRun};
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxFuture, BoxStream, Principal};

/// Time after which a call that waits is read again, for answers that another process took.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Time without an event after which a step says that the call goes on.
const QUIET: Duration = Duration::from_secs(5);

/// A step of a call.
#[derive(Debug)]
pub(crate) enum Step {
    /// An event of the log.
    Event(Box<RunEvent>),
    /// Nothing has happened for this time.
    Quiet(Duration),
    /// A run has ended at questions.
    Asks { run: Box<TurnRun>, questions: Vec<Interrupt> },
    /// The call has ended.
    Ended(RunOutcome),
    /// This process stops, and another one continues the call.
    Stopped,
}

/// The run that is followed.
struct Current {
    turn: TurnRun,
    events: BoxStream<'static, RunEvent>,
    outcome: BoxFuture<'static, RunOutcome>,
}

/// A call that is followed.
pub(crate) struct Follower {
    pub(crate) source: Source,
    pub(crate) who: Principal,
    pub(crate) call: CallRuns,
    /// Calls of tools without a known outcome.
    pub(crate) begun: BegunCalls,
    /// Number of its runs that were followed to their end.
    done: usize,
    current: Option<Current>,
}

impl Follower {
    /// Follows a call after its first `done` runs, which have ended.
    pub(crate) fn new(source: Source, who: Principal, call: CallRuns, done: usize) -> Self {
        Self { source, who, call, begun: BegunCalls::default(), done, current: None }
    }

    /// Returns the next step. After questions, it waits for an answer.
    ///
    /// # Errors
    /// Those of the store.
    ///
    /// # Cancel safety
    /// A step may be lost if the future is dropped: the call is followed no further then.
    pub(crate) async fn next(&mut self) -> Result<Step> {
        loop {
            let step = match &mut self.current {
                Some(current) => {
                    let quiet = self.source.clock.sleep(QUIET);
                    match select(current.events.next(), quiet).await {
                        Either::Left((Some(event), _)) => {
                            self.begun.read(&event);
                            Some(Step::Event(Box::new(event)))
                        }
                        Either::Left((None, _)) => self.end_run().await?,
                        Either::Right(_) => Some(Step::Quiet(QUIET)),
                    }
                }
                None => self.open_run().await?,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Reads the outcome of the run, after its events.
    async fn end_run(&mut self) -> Result<Option<Step>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let outcome = (&mut current.outcome).await;
        let run = current.turn.at.clone();
        self.call = self.call.reload(&self.source, &self.who).await?;
        self.current = None;
        let ended = self.call.runs.iter().find(|turn| turn.at == run);
        let Some(ended) = ended.filter(|turn| turn.status.is_final()).cloned() else {
            return Ok(Some(Step::Stopped));
        };
        self.done += 1;
        outcome.questions().iter().for_each(|question| self.begun.read_question(question));
        Ok(match outcome {
            RunOutcome::Interrupted { questions, .. } => {
                let questions: Vec<_> = questions.into_iter().filter(Interrupt::asks).collect();
                // A timer alone asks nobody: the next run comes by itself.
                (!questions.is_empty()).then_some(Step::Asks { run: Box::new(ended), questions })
            }
            outcome => Some(Step::Ended(outcome)),
        })
    }

    /// Opens the next run, or waits for it.
    async fn open_run(&mut self) -> Result<Option<Step>> {
        let source = self.source.clone();
        let mut changed = std::pin::pin!(source.changed.notified());
        // A change after this line is not missed.
        changed.as_mut().enable();
        self.call = self.call.reload(&source, &self.who).await?;
        if self.call.cancelled_at().is_some() {
            return Ok(Some(Step::Ended(RunOutcome::cancelled())));
        }
        let Some(turn) = self.call.runs.get(self.done).cloned() else {
            select(changed, source.clock.sleep(READ_AGAIN)).await;
            return Ok(Some(Step::Quiet(READ_AGAIN)));
        };
        let followed = source.platform.follow(&self.who, &turn.at.run).await;
        let RunHandle { events, outcome, .. } =
            followed.map_err(|fault| McpError::of_fault(&fault))?;
        self.current = Some(Current { turn, events, outcome });
        Ok(None)
    }
}
