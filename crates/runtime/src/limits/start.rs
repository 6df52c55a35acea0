//! The check of requests that start work.

use super::rules::{Limit, LimitUnit};
use super::{LimitCheck, OpenCalls, unavailable};
use weftwork_store::{NewStart, StartCheck, StartCounts};
use weftwork_types::Timestamp;
use weftwork_types::caller::Caller;
use weftwork_types::port::BudgetError;

impl LimitCheck {
    /// Compares a request that starts runs with the limits of its caller, and counts it if it passes
    /// none.
    pub(crate) async fn admit(&self, caller: &Caller, runs: u64) -> Result<(), BudgetError> {
        let mut limits = self.rules.of_caller(caller);
        let of_usage = limits.extract_if(.., |limit| limit.name.unit.of_starts().is_none());
        let of_usage: Vec<_> = of_usage.collect();
        let now = self.clock.now();
        self.check_usage(&of_usage, now).await?;
        self.count_start(&limits, now, runs).await
    }

    /// Checks that something is left of limits of usage.
    async fn check_usage(&self, limits: &[Limit], now: Timestamp) -> Result<(), BudgetError> {
        if limits.is_empty() {
            return Ok(());
        }
        let _alone = self.comparing.lock().await;
        self.move_usage().await.map_err(|error| unavailable(&error))?;
        for limit in limits {
            let from = self.rules.start(limit.name.window, now);
            // A call that is being made may use less than its estimate.
            let usage = self.usage(&limit.subject, from, OpenCalls::LeftOut).await;
            let used = limit.name.unit.of_usage(usage.map_err(|error| unavailable(&error))?);
            if used >= limit.max {
                let until = self.free_at(limit, 1, now).await;
                let until = until.map_err(|error| unavailable(&error))?;
                return Err(self.reached(limit, used, 0, until));
            }
        }
        Ok(())
    }

    /// Counts a request and its runs if they pass none of the limits.
    async fn count_start(
        &self,
        limits: &[Limit],
        now: Timestamp,
        runs: u64,
    ) -> Result<(), BudgetError> {
        let checks: Vec<_> = limits
            .iter()
            .filter_map(|limit| {
                Some(StartCheck {
                    subject: limit.subject.clone(),
                    unit: limit.name.unit.of_starts()?,
                    window: limit.name.window,
                    from: self.rules.start(limit.name.window, now),
                    limit: limit.max,
                })
            })
            .collect();
        if checks.is_empty() {
            return Ok(());
        }
        let counts = StartCounts { requests: 1, runs };
        let start = NewStart { at: now, counts, checks };
        let refused = self.store.count_start(&start).await;
        let Some(refusal) = refused.map_err(|error| unavailable(&error))? else { return Ok(()) };
        let is_refused = |limit: &&Limit| {
            limit.subject == refusal.check.subject
                && limit.name.window == refusal.check.window
                && limit.name.unit.of_starts() == Some(refusal.check.unit)
        };
        let Some(limit) = limits.iter().find(is_refused) else { return Ok(()) };
        let needed = if limit.name.unit == LimitUnit::Runs { runs } else { 1 };
        let end = || self.rules.end(limit.name.window, now);
        let until = refusal.free_at.unwrap_or_else(end);
        Err(self.reached(limit, refusal.used, needed, until))
    }
}
