//! Budgets of the runs of defined agents, and their turns.

use crate::source::{Agents, name_of};
use crate::turns::{Turn, Turns};
use std::sync::Arc;
use weftwork_types::port::{
    Budget, BudgetError, BudgetScope, BudgetWithin, Budgets, Demand, LimitedBudget, Limits,
    Reservation, WallTime,
};
use weftwork_types::{BoxFuture, Timestamp};

/// Adds the budget of a definition to that of each run of its agent. A run whose agent has as many
/// runs as it may have opens its budget when it is its turn, before its first superstep.
#[derive(Debug)]
struct AgentBudgets {
    agents: Agents,
    others: Arc<dyn Budgets>,
    turns: Arc<Turns>,
}

/// The budget of a run that has its turn until the budget is dropped.
#[derive(Debug)]
struct BudgetInTurn {
    budget: Arc<dyn Budget>,
    _turn: Turn,
}

impl Budget for BudgetInTurn {
    fn reserve<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> BoxFuture<'a, Result<Reservation, BudgetError>> {
        self.budget.reserve(demand)
    }

    fn wall_time(&self, now: Timestamp) -> Option<WallTime> {
        self.budget.wall_time(now)
    }

    fn remaining(&self, now: Timestamp) -> Limits {
        self.budget.remaining(now)
    }
}

impl Agents {
    /// Returns a source of budgets that adds those of the definitions to the ones of another source.
    #[must_use]
    pub fn budgets(&self, others: Arc<dyn Budgets>) -> Arc<dyn Budgets> {
        Arc::new(AgentBudgets { agents: self.clone(), others, turns: Arc::default() })
    }
}

impl Budgets for AgentBudgets {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        Box::pin(async move {
            let folder = self.agents.of_version(&scope.principal, &scope.caller.graph);
            let execution = folder.as_ref().and_then(|of| of.definition.execution.as_ref());
            let limit = execution.and_then(|execution| execution.concurrency);
            let turn = match (&folder, limit.map(usize::try_from)) {
                (Some(folder), Some(Ok(limit))) => self.turns.take(&name_of(folder), limit).await,
                _ => None,
            };
            let mut budget = self.others.open(scope).await?;
            if let Some(own) = execution.and_then(|execution| execution.budget.as_ref()) {
                let own = LimitedBudget::new(own.limits(), scope.used).named("budget of the agent");
                budget = Arc::new(BudgetWithin::new(budget, own));
            }
            Ok(match turn {
                Some(turn) => Arc::new(BudgetInTurn { budget, _turn: turn }),
                None => budget,
            })
        })
    }
}
