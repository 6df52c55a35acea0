//! Budgets: reservations before calls, and their settlement with what the calls used.

mod limit_reached;
mod limits;

pub use limit_reached::LimitReached;
pub use limits::{LimitedBudget, Limits};

use crate::caller::GraphCaller;
use crate::code::{Fault, ReachedLimit};
use crate::usage::{Tokens, Usage, dollars};
use crate::{BoxFuture, ErrorCode, InvocationId, Principal, ThreadId, Timestamp};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Unit of costs.
const MICRO_USD: &str = "millionths of a US dollar";

/// Source of budgets. It is asked once for each run that a process executes.
pub trait Budgets: Send + Sync + std::fmt::Debug {
    /// Returns the budget of a run. Runs of one session or one principal share a budget if the
    /// source returns the same one for them.
    ///
    /// # Errors
    /// Returns [`BudgetError`] if the budget is used up or cannot be read; the run then fails.
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>>;
}

impl<T: Budgets + ?Sized> Budgets for Arc<T> {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        self.as_ref().open(scope)
    }
}

/// The run that a budget is opened for.
#[derive(Debug, Clone)]
pub struct BudgetScope {
    /// Principal of the run.
    pub principal: Principal,
    /// Billing account, run and graph.
    pub caller: Arc<GraphCaller>,
    /// Thread of the run, which identifies its session.
    pub thread: ThreadId,
    /// Named settings given to the run.
    pub configurable: Arc<Map<String, Value>>,
    /// Usage that the log of the run reports from before: not zero if the run was executed by
    /// another process, or was requeued.
    pub used: Usage,
}

/// Remaining budget of a run, shared by everything the run starts.
pub trait Budget: Send + Sync + std::fmt::Debug {
    /// Reserves the demand of one attempt of a call, before the attempt is made. Concurrent
    /// reservations never exceed the budget together.
    ///
    /// # Errors
    /// Returns [`BudgetError`] if the demand does not fit in the budget, or the budget cannot be
    /// read. The attempt is then not made.
    ///
    /// # Cancel safety
    /// Dropping the future reserves nothing.
    fn reserve<'a>(&'a self, demand: &'a Demand)
    -> BoxFuture<'a, Result<Reservation, BudgetError>>;

    /// Returns the limit of wall time, if the budget has one. The first call starts the time, at
    /// `now`; later ones return the same limit.
    fn wall_time(&self, now: Timestamp) -> Option<WallTime> {
        let _ = now;
        None
    }

    /// Returns what is left of each limit at a time, without what is reserved. A member is `None`
    /// without a limit, and for a budget that reports nothing, as one does that does not implement
    /// this method. Nothing is set aside: calls beside this one may take what is left, so only
    /// [`reserve`](Self::reserve) decides if an attempt is made.
    fn remaining(&self, now: Timestamp) -> Limits {
        let _ = now;
        Limits::default()
    }
}

/// The limit of wall time of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime {
    /// Time at which it is used up.
    pub until: Timestamp,
    /// The limit in milliseconds.
    pub limit_ms: u64,
    /// Name of the budget, such as `thread budget`.
    pub budget: &'static str,
}

impl WallTime {
    /// Unit of the limit.
    const UNIT: &str = "ms of wall time";

    /// Returns the error for a time that is used up.
    #[must_use]
    pub fn exceeded(&self) -> BudgetError {
        let Self { limit_ms, budget, .. } = *self;
        BudgetExceeded { budget, unit: Self::UNIT, used: limit_ms, needed: 0, limit: limit_ms }
            .into()
    }

    /// Checks that something is left at the end of a wait that begins at `now`.
    ///
    /// # Errors
    /// Returns [`BudgetError::Exceeded`], which needs the time of the wait.
    pub fn check_wait(&self, now: Timestamp, wait: Duration) -> Result<(), BudgetError> {
        let Self { until, limit_ms: limit, budget } = *self;
        let left = until.since(now);
        if wait < left {
            return Ok(());
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let used = limit.saturating_sub(ms(left));
        Err(BudgetExceeded { budget, unit: Self::UNIT, used, needed: ms(wait), limit }.into())
    }
}

/// Demand of one attempt of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Demand {
    /// An attempt of a model call.
    ModelCall {
        /// Id of the attempt, which its usage fact has.
        invocation: InvocationId,
        /// The model, `provider:model`.
        model: String,
        /// Estimate of the tokens: the request, and the maximum of the answer if it has one.
        tokens: Tokens,
        /// Estimate of the cost in millionths of a US dollar; `None` if the price is unknown.
        cost_micro_usd: Option<u64>,
    },
    /// A tool call.
    ToolCall {
        /// Canonical name of the tool.
        tool: String,
    },
    /// A run on another server, which reports no usage.
    RemoteRun {
        /// Name of the server.
        remote: String,
    },
}

impl Demand {
    /// Returns the demand as the usage that is reserved.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match self {
            Self::ModelCall { tokens, cost_micro_usd, .. } => {
                Usage::model_call(*tokens).costing(*cost_micro_usd)
            }
            Self::ToolCall { .. } => Usage::tool_call(),
            Self::RemoteRun { .. } => Usage::default(),
        }
    }
}

/// A part of a budget that is set aside for one attempt of a call.
///
/// [`settle`](Self::settle) replaces it by what the attempt used, also if the attempt failed. A
/// reservation that is dropped, because its call was cancelled, is released: the budget gets it
/// back, less the usage given to [`spend`](Self::spend).
#[derive(Debug)]
#[must_use = "a reservation that is dropped is released"]
pub struct Reservation {
    hold: Option<Box<dyn Hold>>,
    spent: Usage,
}

/// A reservation as the budget holds it. Exactly one of the two methods is called, once.
pub trait Hold: Send + Sync + std::fmt::Debug {
    /// Replaces the reserved amount by the used one. Usage beyond the limit is charged too.
    ///
    /// # Cancel safety
    /// The future may be dropped before it ends. A budget that settles elsewhere must take over the
    /// work when the method is called, not when the future is polled.
    fn settle(self: Box<Self>, used: Usage) -> BoxFuture<'static, ()>;

    /// Returns the reserved amount, and charges what a cancelled call used. Must not block.
    fn release(self: Box<Self>, used: Usage);
}

impl Reservation {
    /// Creates a reservation.
    pub fn new(hold: impl Hold + 'static) -> Self {
        Self { hold: Some(Box::new(hold)), spent: Usage::default() }
    }

    /// Creates a reservation of a budget without limits.
    pub fn unlimited() -> Self {
        Self { hold: None, spent: Usage::default() }
    }

    /// Sets the usage that is charged if the reservation is released.
    pub fn spend(&mut self, used: Usage) {
        self.spent = used;
    }

    /// Replaces the reserved amount by the used one.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll releases the reservation, and later leaves it to
    /// the budget ([`Hold::settle`]).
    pub async fn settle(mut self, used: Usage) {
        if let Some(hold) = self.hold.take() {
            hold.settle(used).await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release(self.spent);
        }
    }
}

/// An error of a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A limit was reached.
    #[error(transparent)]
    Exceeded(#[from] BudgetExceeded),
    /// A limit of the account or key was reached.
    #[error(transparent)]
    Limit(#[from] Box<LimitReached>),
    /// The budget, or a limit of the account or key, limits the cost, and the price of the model is unknown.
    #[error(
        "the cost is limited, and the price of model `{model}` is unknown; limit tokens or calls instead"
    )]
    NoPrice {
        /// The model, `provider:model`.
        model: String,
    },
    /// The budget, or the account or key, has limits, and a run on another server cannot be counted.
    #[error(
        "the run has a budget, or its account or key a limit, and remote `{remote}` reports no usage that could be counted; leave them out, or mark the remote as `uncounted`"
    )]
    Uncounted {
        /// Name of the server.
        remote: String,
    },
    /// The budget cannot be read or written.
    #[error("the budget of the run cannot be checked: {source}")]
    Unavailable {
        /// Cause.
        source: Fault,
    },
}

impl BudgetError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Exceeded(exceeded) => exceeded.code(),
            Self::Limit(_) => LimitReached::CODE,
            Self::NoPrice { .. } => ErrorCode("W0609"),
            Self::Uncounted { .. } => ErrorCode("W0659"),
            Self::Unavailable { .. } => ErrorCode("W0603"),
        }
    }

    /// Returns `true` if the same demand may be met later without a change.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Unavailable { source } if source.retriable)
    }

    /// Returns the error in the form that is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let fault = Fault::new(self.code(), self.to_string())
            .retriable(self.is_retriable())
            .with_sources_of(self);
        match self {
            Self::Exceeded(exceeded) => fault.with_limit(exceeded.reached_limit()),
            Self::Limit(reached) => fault.with_limit(reached.reached_limit()),
            _ => fault,
        }
    }
}

/// An error for a limit that was reached, or that the next call would exceed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{budget} {}; raise the limit to go on", self.found())]
pub struct BudgetExceeded {
    /// Name of the budget, such as `thread budget`.
    pub budget: &'static str,
    /// Counted unit, such as `model calls`.
    pub unit: &'static str,
    /// Amount used and reserved.
    pub used: u64,
    /// Amount that the next call would reserve, or the wait before its next attempt.
    pub needed: u64,
    /// Amount allowed.
    pub limit: u64,
}

impl BudgetExceeded {
    /// Formats what is used of the limit, and what does not fit in the rest.
    fn found(&self) -> String {
        let Self { unit, used, needed, limit, .. } = self;
        let [used_text, needed_text, limit_text] = match *unit {
            MICRO_USD => [*used, *needed, *limit].map(dollars),
            _ => [*used, *needed, *limit].map(|amount| amount.to_string()),
        };
        let unit = if *unit == MICRO_USD { "USD" } else { unit };
        if used >= limit {
            return format!("is used up: {used_text} of {limit_text} {unit}");
        }
        let next = match unit {
            WallTime::UNIT => format!("attempt begins in {needed_text} ms"),
            _ => format!("call needs {needed_text}"),
        };
        format!(
            "has too little left: {used_text} of {limit_text} {unit} are used, and the next {next}"
        )
    }

    fn reached_limit(&self) -> ReachedLimit {
        let Self { unit, used, needed, limit, .. } = *self;
        let needed = (used < limit).then_some(needed);
        ReachedLimit { unit: unit.to_owned(), used, needed, limit }
    }

    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0601")
    }
}

/// A budget without limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn reserve<'a>(&'a self, _: &'a Demand) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        Box::pin(std::future::ready(Ok(Reservation::unlimited())))
    }
}

impl Budgets for Unlimited {
    fn open<'a>(
        &'a self,
        _: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        Box::pin(std::future::ready(Ok(Arc::new(Self) as Arc<dyn Budget>)))
    }
}

/// A budget and another one, both of which every attempt must fit.
#[derive(Debug)]
pub struct BudgetWithin {
    outer: Arc<dyn Budget>,
    inner: Arc<dyn Budget>,
}

impl BudgetWithin {
    /// Limits a budget further. Attempts are reserved in `inner` first.
    #[must_use]
    pub fn new(outer: Arc<dyn Budget>, inner: impl Budget + 'static) -> Self {
        Self { outer, inner: Arc::new(inner) }
    }
}

impl Budget for BudgetWithin {
    fn reserve<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        Box::pin(async move {
            let inner = self.inner.reserve(demand).await?;
            let outer = self.outer.reserve(demand).await?;
            Ok(Reservation::new(HeldTwice { inner, outer }))
        })
    }

    fn wall_time(&self, now: Timestamp) -> Option<WallTime> {
        let limits = [self.inner.wall_time(now), self.outer.wall_time(now)];
        limits.into_iter().flatten().min_by_key(|limit| limit.until)
    }

    fn remaining(&self, now: Timestamp) -> Limits {
        self.inner.remaining(now).or_less(self.outer.remaining(now))
    }
}

/// A reservation of a [`BudgetWithin`].
#[derive(Debug)]
struct HeldTwice {
    inner: Reservation,
    outer: Reservation,
}

impl Hold for HeldTwice {
    fn settle(mut self: Box<Self>, used: Usage) -> BoxFuture<'static, ()> {
        // A settlement that is dropped charges the usage too.
        self.inner.spend(used);
        self.outer.spend(used);
        Box::pin(async move {
            self.inner.settle(used).await;
            self.outer.settle(used).await;
        })
    }

    fn release(mut self: Box<Self>, used: Usage) {
        self.inner.spend(used);
        self.outer.spend(used);
    }
}

#[cfg(test)]
mod tests;
