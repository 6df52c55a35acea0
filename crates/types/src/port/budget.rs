//! Budgets: reservations before calls, and their settlement with what the calls used.

use crate::caller::GraphCaller;
use crate::code::Fault;
use crate::usage::{Tokens, Usage, dollars};
use crate::{BoxFuture, ErrorCode, Principal, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// Demand of one attempt of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Demand {
    /// An attempt of a model call.
    ModelCall {
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
    /// The budget limits the cost, and the price of the model is unknown.
    #[error(
        "the budget limits the cost, and the price of model `{model}` is unknown; limit tokens or calls instead"
    )]
    NoPrice {
        /// The model, `provider:model`.
        model: String,
    },
    /// The budget has limits, and a run on another server cannot be counted.
    #[error(
        "the run has a budget, and remote `{remote}` reports no usage that could be counted; leave the budget out, or mark the remote as `uncounted`"
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
        Fault::new(self.code(), self.to_string())
            .retriable(self.is_retriable())
            .with_sources_of(self)
    }
}

/// An error for a limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budget is used up: {}; raise the limit to go on", share(*used, *limit, unit))]
pub struct BudgetExceeded {
    /// Counted unit, such as `model calls`.
    pub unit: &'static str,
    /// Amount used and reserved.
    pub used: u64,
    /// Amount allowed.
    pub limit: u64,
}

/// Formats a used part of a limit.
fn share(used: u64, limit: u64, unit: &str) -> String {
    match unit {
        MICRO_USD => format!("{} of {} USD", dollars(used), dollars(limit)),
        unit => format!("{used} of {limit} {unit}"),
    }
}

impl BudgetExceeded {
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

/// Limits of each run. As a source of [`Budgets`], it gives every run a budget of its own, less
/// what the run used in an earlier process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of attempts of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Maximum number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Maximum number of tokens, input and output together. An attempt starts only if its estimate
    /// fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum cost of model calls in millionths of a US dollar. Calls of models without a known
    /// price are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

impl Limits {
    /// Limits the attempts of model calls alone.
    ///
    /// ```
    /// use weftwork_types::port::Limits;
    ///
    /// let limits = Limits { tokens: Some(20_000), ..Limits::model_calls(3) };
    /// assert_eq!((limits.model_calls, limits.tool_calls), (Some(3), None));
    /// ```
    #[must_use]
    pub fn model_calls(max: u64) -> Self {
        Self { model_calls: Some(max), ..Self::default() }
    }

    /// Limits the tool calls alone.
    #[must_use]
    pub fn tool_calls(max: u64) -> Self {
        Self { tool_calls: Some(max), ..Self::default() }
    }

    /// Limits the tokens alone, of input and output together.
    #[must_use]
    pub fn tokens(max: u64) -> Self {
        Self { tokens: Some(max), ..Self::default() }
    }

    /// Limits the cost alone, in millionths of a US dollar.
    #[must_use]
    pub fn cost_micro_usd(max: u64) -> Self {
        Self { cost_micro_usd: Some(max), ..Self::default() }
    }
}

impl Budgets for Limits {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        let budget: Arc<dyn Budget> = Arc::new(LimitedBudget::new(*self, scope.used));
        Box::pin(std::future::ready(Ok(budget)))
    }
}

/// A budget in memory, with limits. Clones share it.
#[derive(Debug, Clone)]
pub struct LimitedBudget {
    limits: Limits,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    used: Usage,
    reserved: Usage,
}

impl LimitedBudget {
    /// Creates a budget of which a part is used.
    #[must_use]
    pub fn new(limits: Limits, used: Usage) -> Self {
        let counts = Counts { used, reserved: Usage::default() };
        Self { limits, counts: Arc::new(Mutex::new(counts)) }
    }

    /// Returns the usage so far, without open reservations.
    #[must_use]
    pub fn used(&self) -> Usage {
        self.counts().used
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, taken: Usage, demand: Usage) -> Result<(), BudgetExceeded> {
        let Limits { model_calls, tool_calls, tokens, cost_micro_usd } = self.limits;
        let units = [
            ("model calls", taken.model_calls, demand.model_calls, model_calls),
            ("tool calls", taken.tool_calls, demand.tool_calls, tool_calls),
            ("tokens", taken.tokens.total(), demand.tokens.total(), tokens),
            (MICRO_USD, taken.cost_micro_usd, demand.cost_micro_usd, cost_micro_usd),
        ];
        for (unit, used, demand, limit) in units {
            let Some(limit) = limit.filter(|_| demand > 0) else { continue };
            if used.saturating_add(demand) > limit {
                return Err(BudgetExceeded { unit, used, limit });
            }
        }
        Ok(())
    }
}

impl Budget for LimitedBudget {
    fn reserve<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        Box::pin(async move {
            if let Demand::ModelCall { model, cost_micro_usd: None, .. } = demand
                && self.limits.cost_micro_usd.is_some()
            {
                return Err(BudgetError::NoPrice { model: model.clone() });
            }
            if let Demand::RemoteRun { remote } = demand
                && self.limits != Limits::default()
            {
                return Err(BudgetError::Uncounted { remote: remote.clone() });
            }
            let demand = demand.usage();
            let mut counts = self.counts();
            self.check(counts.used + counts.reserved, demand)?;
            counts.reserved += demand;
            drop(counts);
            Ok(Reservation::new(Held { budget: self.clone(), demand }))
        })
    }
}

/// A budget and further limits, both of which every attempt must fit.
#[derive(Debug)]
pub struct BudgetWithin {
    outer: Arc<dyn Budget>,
    inner: LimitedBudget,
}

impl BudgetWithin {
    /// Limits a budget further.
    #[must_use]
    pub fn new(outer: Arc<dyn Budget>, inner: LimitedBudget) -> Self {
        Self { outer, inner }
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

/// A reservation of a [`LimitedBudget`].
#[derive(Debug)]
struct Held {
    budget: LimitedBudget,
    demand: Usage,
}

impl Hold for Held {
    fn settle(self: Box<Self>, used: Usage) -> BoxFuture<'static, ()> {
        self.release(used);
        Box::pin(std::future::ready(()))
    }

    fn release(self: Box<Self>, used: Usage) {
        let mut counts = self.budget.counts();
        counts.reserved = counts.reserved.saturating_sub(self.demand);
        counts.used += used;
    }
}

#[cfg(test)]
mod tests;
