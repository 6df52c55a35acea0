//! Limits of accounts and keys: what the operator configures, and the checks before calls and requests.

mod call;
mod report;
mod rules;
mod start;
mod tracked;
mod window;

pub(crate) use call::CallerBudget;
pub use report::{LimitLine, report_all_limits, report_limits};
pub use rules::{
    InvalidLimit, LimitName, LimitOwner, LimitRules, LimitUnit, UsageLimits, subjects_of,
};

use self::rules::Limit;
use self::tracked::Tracked;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_store::{BilledTo, LimitWindow, Store, SubjectUsage};
use weftwork_types::port::{BudgetError, Clock, LimitReached};
use weftwork_types::{InvocationId, Timestamp};

/// Treatment of calls that are being made, of which the estimates are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenCalls {
    Counted,
    LeftOut,
}

/// The limits of a process, with the calls that it makes now.
#[derive(Debug)]
pub(crate) struct LimitCheck {
    rules: UsageLimits,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Held while a call is compared with limits, so that no two calls get the same rest.
    comparing: tokio::sync::Mutex<()>,
    /// Calls of this process whose usage is not yet in the bill.
    tracked: Mutex<BTreeMap<InvocationId, Tracked>>,
}

impl LimitCheck {
    pub(crate) fn new(rules: UsageLimits, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rules,
            store,
            clock,
            comparing: tokio::sync::Mutex::default(),
            tracked: Mutex::default(),
        }
    }

    pub(crate) fn rules(&self) -> &UsageLimits {
        &self.rules
    }

    fn tracked(&self) -> MutexGuard<'_, BTreeMap<InvocationId, Tracked>> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the usage of an account or key from a time: that in the bill, and that of calls of
    /// this process which is not there yet. A call counts once, also if it is moved meanwhile.
    async fn usage(
        &self,
        subject: &BilledTo,
        from: Timestamp,
        open: OpenCalls,
    ) -> weftwork_store::Result<SubjectUsage> {
        let except: Vec<_> = {
            let tracked = self.tracked();
            let own = tracked.iter().filter(|(_, call)| subject.has(&call.caller));
            own.map(|(id, _)| id.clone()).collect()
        };
        let mut usage = self.store.subject_usage(subject, from, &except).await?;
        let tracked = self.tracked();
        let own = except.iter().filter_map(|id| tracked.get(id));
        let counted = own.filter(|call| call.counts_from(from, open));
        counted.for_each(|call| usage += call.usage);
        Ok(usage)
    }

    /// Returns the earliest time at which a need may fit a limit of usage: the end of the day or
    /// month, or the time at which enough calls have left the minute. Reservations of calls that are
    /// being made may be returned at any time.
    async fn free_at(
        &self,
        limit: &Limit,
        needed: u64,
        now: Timestamp,
    ) -> weftwork_store::Result<Timestamp> {
        let after = |seconds: i64| Timestamp(now.0.saturating_add(seconds * 1_000));
        let window = limit.name.window;
        if self.fits(limit, needed, now).await? {
            return Ok(after(1));
        }
        if window != LimitWindow::Minute {
            return Ok(self.rules.end(window, now));
        }
        // Usage only leaves the window, so that a binary search finds the first second.
        let mut first = 1;
        let mut last = 60;
        while first < last {
            let middle = (first + last) / 2;
            match self.fits(limit, needed, after(middle)).await? {
                true => last = middle,
                false => first = middle + 1,
            }
        }
        Ok(after(first))
    }

    /// Returns `true` if a need fits a limit at a time, without the calls that are being made.
    async fn fits(
        &self,
        limit: &Limit,
        needed: u64,
        then: Timestamp,
    ) -> weftwork_store::Result<bool> {
        let from = self.rules.start(limit.name.window, then);
        let usage = self.usage(&limit.subject, from, OpenCalls::LeftOut).await?;
        Ok(limit.name.unit.of_usage(usage).saturating_add(needed) <= limit.max)
    }

    fn reached(&self, limit: &Limit, used: u64, needed: u64, until: Timestamp) -> BudgetError {
        Box::new(LimitReached {
            subject: limit.subject.to_string(),
            unit: limit.name.unit.word(),
            window: limit.name.window_text(),
            used,
            needed,
            limit: limit.max,
            until,
            until_text: self.rules.show(until),
        })
        .into()
    }
}

/// Returns the error of a store that cannot be read.
fn unavailable(error: &weftwork_store::StoreError) -> BudgetError {
    BudgetError::Unavailable { source: error.fault() }
}

#[cfg(test)]
mod tests;
