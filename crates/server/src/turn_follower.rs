//! A chain of turns as it goes on, over all its runs, in this process or another: what protocols follow as
//! a task, or as a call.

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_types::code::Fault;
use weftwork_types::event::RunEvent;
use weftwork_types::port::{Clock, Platform, RunHandle, TurnChain, TurnRun};
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxFuture, BoxStream, Principal};

/// Time after which a chain that waits is read again, for answers that another process took.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Time without an event after which a step says so.
const QUIET: Duration = Duration::from_secs(5);

/// The agents whose chains are followed, the clock, and the signal of chains that continue.
#[derive(Debug, Clone)]
pub struct TurnSource {
    /// The agents.
    pub platform: Arc<dyn Platform>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Notified when an answer continued a chain, or a client cancelled one.
    pub changed: Arc<Notify>,
}

impl TurnSource {
    /// Creates the source of a server.
    #[must_use]
    pub fn new(platform: Arc<dyn Platform>, clock: Arc<dyn Clock>) -> Self {
        Self { platform, clock, changed: Arc::new(Notify::new()) }
    }
}

/// A step of a chain that is followed.
#[derive(Debug)]
pub enum TurnStep {
    /// A run is followed from now on.
    Begins(TurnRun),
    /// An event of its log.
    Event(Box<RunEvent>),
    /// Nothing has happened for this time.
    Quiet(Duration),
    /// The run has ended.
    Ends {
        /// The run, as it is stored.
        turn: Box<TurnRun>,
        /// Its outcome.
        outcome: RunOutcome,
    },
    /// A client cancelled the chain while it waited. There is no step after it.
    RolledBack,
    /// This process stops, and another one continues the run. There is no step after it.
    Stops,
}

/// The run that is followed.
struct Current {
    turn: TurnRun,
    events: BoxStream<'static, RunEvent>,
    outcome: BoxFuture<'static, RunOutcome>,
}

/// A chain of turns that is followed.
pub struct TurnFollower {
    source: TurnSource,
    who: Principal,
    chain: TurnChain,
    /// Number of its runs that were followed to their end.
    done: usize,
    current: Option<Current>,
}

impl std::fmt::Debug for TurnFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnFollower").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl TurnFollower {
    /// Follows a chain after its first `done` runs, which have ended.
    #[must_use]
    pub fn new(source: TurnSource, who: Principal, chain: TurnChain, done: usize) -> Self {
        Self { source, who, chain, done, current: None }
    }

    /// The chain, as it was read last.
    #[must_use]
    pub fn chain(&self) -> &TurnChain {
        &self.chain
    }

    /// Returns the number of runs that were followed to their end; `None` within a run.
    #[must_use]
    pub fn completed(&self) -> Option<usize> {
        self.current.is_none().then_some(self.done)
    }

    /// Returns the next step. Behind the end of a run, it waits for one that answers its questions.
    ///
    /// # Errors
    /// Those of the store.
    ///
    /// # Cancel safety
    /// If the future is dropped, a step may be lost: the chain is followed no further then.
    pub async fn next(&mut self) -> Result<TurnStep, Fault> {
        let Some(current) = &mut self.current else { return self.open().await };
        let quiet = self.source.clock.sleep(QUIET);
        match select(current.events.next(), quiet).await {
            Either::Left((Some(event), _)) => Ok(TurnStep::Event(Box::new(event))),
            Either::Right(_) => Ok(TurnStep::Quiet(QUIET)),
            Either::Left((None, _)) => self.end().await,
        }
    }

    /// Reads the outcome of the run, after its events.
    async fn end(&mut self) -> Result<TurnStep, Fault> {
        let Some(Current { turn, outcome, .. }) = self.current.take() else {
            return Ok(TurnStep::Stops);
        };
        let outcome = outcome.await;
        self.reload().await?;
        let ended = self.chain.iter().find(|run| run.at == turn.at);
        let Some(ended) = ended.filter(|run| run.status.is_final()).cloned() else {
            return Ok(TurnStep::Stops);
        };
        self.done += 1;
        Ok(TurnStep::Ends { turn: Box::new(ended), outcome })
    }

    /// Opens the next run, or waits for it.
    async fn open(&mut self) -> Result<TurnStep, Fault> {
        let source = self.source.clone();
        let mut changed = std::pin::pin!(source.changed.notified());
        // A change after this line is not missed.
        changed.as_mut().enable();
        self.reload().await?;
        if self.chain.rolled_back_at().is_some() {
            return Ok(TurnStep::RolledBack);
        }
        let Some(turn) = self.chain.get(self.done).cloned() else {
            select(changed, source.clock.sleep(READ_AGAIN)).await;
            return Ok(TurnStep::Quiet(READ_AGAIN));
        };
        let handle = source.platform.follow(&self.who, &turn.at.run).await?;
        let RunHandle { events, outcome, .. } = handle;
        self.current = Some(Current { turn: turn.clone(), events, outcome });
        Ok(TurnStep::Begins(turn))
    }

    async fn reload(&mut self) -> Result<(), Fault> {
        self.chain = self.source.platform.chain(&self.who, &self.chain.first().at.run).await?;
        Ok(())
    }
}
