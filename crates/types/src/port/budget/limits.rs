//! Limits of what runs use, and a budget with them in memory.

use super::{
    Budget, BudgetError, BudgetExceeded, BudgetScope, Budgets, Demand, Hold, MICRO_USD,
    Reservation, WallTime,
};
use crate::usage::Usage;
use crate::{BoxFuture, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Maximum wall time in milliseconds for which runs are executed. Time in which none is executed
    /// does not count: a run that waits in a queue, or for a person. A run that is executed at that
    /// time is cut off, and its checkpoints stay. The time is read from the logs of the runs: of a
    /// run with durability `exit`, and of a process that died, it counts as far as it was logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
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

    /// Returns the smaller one of each of two limits.
    pub(super) fn or_less(self, other: Self) -> Self {
        let less = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            model_calls: less(self.model_calls, other.model_calls),
            tool_calls: less(self.tool_calls, other.tool_calls),
            tokens: less(self.tokens, other.tokens),
            cost_micro_usd: less(self.cost_micro_usd, other.cost_micro_usd),
            wall_ms: less(self.wall_ms, other.wall_ms),
        }
    }

    /// Limits the wall time alone.
    #[must_use]
    pub fn wall_time(max: Duration) -> Self {
        let wall_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
        Self { wall_ms: Some(wall_ms), ..Self::default() }
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

/// A budget in memory, with limits. Clones share it. Its wall time begins with the first run that
/// opens it, and passes until it is used up.
#[derive(Debug, Clone)]
pub struct LimitedBudget {
    name: &'static str,
    limits: Limits,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    used: Usage,
    reserved: Usage,
    /// Time at which its wall time began.
    begun: Option<Timestamp>,
}

impl LimitedBudget {
    /// Creates a budget of which a part is used.
    #[must_use]
    pub fn new(limits: Limits, used: Usage) -> Self {
        let counts = Counts { used, ..Counts::default() };
        Self { name: "budget", limits, counts: Arc::new(Mutex::new(counts)) }
    }

    /// Sets the name of the budget in errors, such as `thread budget`.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
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
        let Limits { model_calls, tool_calls, tokens, cost_micro_usd, wall_ms: _ } = self.limits;
        let units = [
            ("model calls", taken.model_calls, demand.model_calls, model_calls),
            ("tool calls", taken.tool_calls, demand.tool_calls, tool_calls),
            ("tokens", taken.tokens.total(), demand.tokens.total(), tokens),
            (MICRO_USD, taken.cost_micro_usd, demand.cost_micro_usd, cost_micro_usd),
        ];
        for (unit, used, needed, limit) in units {
            let Some(limit) = limit.filter(|_| needed > 0) else { continue };
            if used.saturating_add(needed) > limit {
                return Err(BudgetExceeded { budget: self.name, unit, used, needed, limit });
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
                && (Limits { wall_ms: None, ..self.limits }) != Limits::default()
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

    fn wall_time(&self, now: Timestamp) -> Option<WallTime> {
        let limit_ms = self.limits.wall_ms?;
        let mut counts = self.counts();
        let left = limit_ms.saturating_sub(counts.used.wall_ms);
        let begun = *counts.begun.get_or_insert(now);
        let until = begun.plus(Duration::from_millis(left));
        Some(WallTime { until, limit_ms, budget: self.name })
    }

    fn remaining(&self, now: Timestamp) -> Limits {
        let counts = self.counts();
        let taken = counts.used + counts.reserved;
        let passed = counts.begun.map(|begun| now.since(begun).as_millis()).unwrap_or_default();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let left = |limit: Option<u64>, taken: u64| limit.map(|limit| limit.saturating_sub(taken));
        Limits {
            model_calls: left(self.limits.model_calls, taken.model_calls),
            tool_calls: left(self.limits.tool_calls, taken.tool_calls),
            tokens: left(self.limits.tokens, taken.tokens.total()),
            cost_micro_usd: left(self.limits.cost_micro_usd, taken.cost_micro_usd),
            wall_ms: left(self.limits.wall_ms, counts.used.wall_ms.saturating_add(passed)),
        }
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
