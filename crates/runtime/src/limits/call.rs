//! The check before each model call.

use super::rules::{Limit, LimitUnit};
use super::tracked::{Tracked, counted};
use super::{LimitCheck, OpenCalls, unavailable};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::move_all_usage;
use weftwork_types::caller::Caller;
use weftwork_types::port::{Budget, BudgetError, Demand, Hold, Reservation};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, InvocationId, Principal, Timestamp};

/// The limits of the account and key of a caller, as a budget.
#[derive(Debug)]
pub(crate) struct CallerBudget {
    check: Arc<LimitCheck>,
    who: Principal,
    caller: Caller,
    /// Limits of tokens and costs; not empty.
    limits: Vec<Limit>,
}

/// A model call that is to be made.
struct PlannedCall<'a> {
    invocation: &'a InvocationId,
    usage: Usage,
}

impl CallerBudget {
    /// Returns the budget of a caller; `None` if no limit of tokens or costs applies.
    pub(crate) fn new(check: &Arc<LimitCheck>, who: &Principal, caller: &Caller) -> Option<Self> {
        let mut limits = check.rules.of_caller(caller);
        limits.retain(|limit| limit.name.unit.of_starts().is_none());
        let found =
            Self { check: Arc::clone(check), who: who.clone(), caller: caller.clone(), limits };
        Some(found).filter(|found| !found.limits.is_empty())
    }

    fn limits_cost(&self) -> bool {
        self.limits.iter().any(|limit| limit.name.unit == LimitUnit::Cost)
    }

    async fn reserve_call(&self, call: PlannedCall<'_>) -> Result<Reservation, BudgetError> {
        let check = &self.check;
        let _alone = check.comparing.lock().await;
        // The evaluation of a prompt within a run has the budget of the run and one of its own.
        if check.tracked().contains_key(call.invocation) {
            return Ok(Reservation::unlimited());
        }
        check.move_usage().await.map_err(|error| unavailable(&error))?;
        let now = check.clock.now();
        let needed = counted(call.usage);
        for limit in &self.limits {
            let from = check.rules.start(limit.name.window, now);
            let used = check.usage(&limit.subject, from, OpenCalls::Counted).await;
            let used = limit.name.unit.of_usage(used.map_err(|error| unavailable(&error))?);
            let needed = limit.name.unit.of_usage(needed);
            if needed > 0 && used.saturating_add(needed) > limit.max {
                let until = check.free_at(limit, needed, now).await;
                let until = until.map_err(|error| unavailable(&error))?;
                return Err(check.reached(limit, used, needed, until));
            }
        }
        let tracked = Tracked {
            who: self.who.clone(),
            caller: self.caller.clone(),
            usage: needed,
            ended_at: None,
        };
        check.tracked().insert(call.invocation.clone(), tracked);
        let check = Arc::clone(check);
        Ok(Reservation::new(HeldCall { check, invocation: call.invocation.clone() }))
    }
}

impl Budget for CallerBudget {
    fn reserve<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        Box::pin(async move {
            match demand {
                Demand::ModelCall { model, cost_micro_usd: None, .. } if self.limits_cost() => {
                    Err(BudgetError::NoPrice { model: model.clone() })
                }
                Demand::ModelCall { invocation, .. } => {
                    self.reserve_call(PlannedCall { invocation, usage: demand.usage() }).await
                }
                Demand::RemoteRun { remote } => {
                    Err(BudgetError::Uncounted { remote: remote.clone() })
                }
                _ => Ok(Reservation::unlimited()),
            }
        })
    }
}

impl LimitCheck {
    /// Moves usage to the bill, and stops tracking the calls that are there.
    pub(super) async fn move_usage(&self) -> weftwork_store::Result<()> {
        move_all_usage(self.store.as_ref()).await?;
        for (who, ended) in self.ended_calls(self.clock.now()) {
            let billed = self.store.billed(&who, &ended).await?;
            let mut tracked = self.tracked();
            billed.iter().for_each(|id| drop(tracked.remove(id)));
        }
        Ok(())
    }

    /// Returns the calls that have ended and are not known to be in the bill, by organisation.
    fn ended_calls(&self, now: Timestamp) -> Vec<(Principal, Vec<InvocationId>)> {
        let mut tracked = self.tracked();
        tracked.retain(|_, call| !call.is_lost(now));
        let mut ended: BTreeMap<_, (Principal, Vec<InvocationId>)> = BTreeMap::new();
        for (id, call) in tracked.iter().filter(|(_, call)| call.ended_at.is_some()) {
            let of_org = ended.entry(call.who.org.clone());
            of_org.or_insert_with(|| (call.who.clone(), Vec::new())).1.push(id.clone());
        }
        ended.into_values().collect()
    }

    fn end(&self, invocation: &InvocationId, used: Usage) {
        let now = self.clock.now();
        let mut tracked = self.tracked();
        // An attempt that never began has no usage, and no row in the bill.
        if used == Usage::default() {
            tracked.remove(invocation);
        } else if let Some(call) = tracked.get_mut(invocation) {
            call.usage = counted(used);
            call.ended_at = Some(now);
        }
    }
}

/// The reservation of a call.
#[derive(Debug)]
struct HeldCall {
    check: Arc<LimitCheck>,
    invocation: InvocationId,
}

impl Hold for HeldCall {
    fn settle(self: Box<Self>, used: Usage) -> BoxFuture<'static, ()> {
        self.release(used);
        Box::pin(std::future::ready(()))
    }

    fn release(self: Box<Self>, used: Usage) {
        self.check.end(&self.invocation, used);
    }
}
