//! A call as it goes on, over all its runs.

use crate::call_runs::CallRuns;
use crate::error::{McpError, Result};
use crate::source::Source;
use std::time::Duration;
use weftwork_server::{TurnFollower, TurnStep};
use weftwork_types::Principal;
use weftwork_types::event::{BegunCalls, RunEvent};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::TurnRun;
use weftwork_types::run::RunOutcome;

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

/// A call that is followed.
pub(crate) struct Follower {
    turns: TurnFollower,
    /// Calls of tools without a known outcome.
    pub(crate) begun: BegunCalls,
}

impl Follower {
    /// Follows a call after its first `done` runs, which have ended.
    pub(crate) fn new(source: &Source, who: Principal, call: CallRuns, done: usize) -> Self {
        let turns = TurnFollower::new(source.turns.clone(), who, call.chain, done);
        Self { turns, begun: BegunCalls::default() }
    }

    /// Returns the call, as it was read last.
    pub(crate) fn call(&self) -> CallRuns {
        CallRuns { chain: self.turns.chain().clone() }
    }

    /// Returns the next step. After questions, it waits for an answer.
    ///
    /// # Errors
    /// Those of the store.
    ///
    /// # Cancel safety
    /// As [`TurnFollower::next`].
    pub(crate) async fn next(&mut self) -> Result<Step> {
        loop {
            let step = self.turns.next().await.map_err(|fault| McpError::of_fault(&fault))?;
            if let Some(step) = self.read(step) {
                return Ok(step);
            }
        }
    }

    fn read(&mut self, step: TurnStep) -> Option<Step> {
        match step {
            TurnStep::Begins(_) => None,
            TurnStep::Event(event) => {
                self.begun.read(&event);
                Some(Step::Event(event))
            }
            TurnStep::Quiet(time) => Some(Step::Quiet(time)),
            TurnStep::Ends { turn, outcome } => {
                outcome.questions().iter().for_each(|question| self.begun.read_question(question));
                let RunOutcome::Interrupted { questions, .. } = outcome else {
                    return Some(Step::Ended(outcome));
                };
                let questions: Vec<_> = questions.into_iter().filter(Interrupt::asks).collect();
                // A timer alone asks nobody: the next run comes by itself.
                (!questions.is_empty()).then_some(Step::Asks { run: turn, questions })
            }
            TurnStep::RolledBack => Some(Step::Ended(RunOutcome::cancelled())),
            TurnStep::Stops => Some(Step::Stopped),
        }
    }
}
