//! Budgets of the runs of defined agents.

use crate::source::Agents;
use std::sync::Arc;
use weftwork_types::BoxFuture;
use weftwork_types::port::{
    Budget, BudgetError, BudgetScope, BudgetWithin, Budgets, LimitedBudget,
};

/// Adds the budget of a definition to that of each run of its agent.
#[derive(Debug)]
struct AgentBudgets {
    agents: Agents,
    others: Arc<dyn Budgets>,
}

impl Agents {
    /// Returns a source of budgets that adds those of the definitions to the ones of another source.
    #[must_use]
    pub fn budgets(&self, others: Arc<dyn Budgets>) -> Arc<dyn Budgets> {
        Arc::new(AgentBudgets { agents: self.clone(), others })
    }
}

impl Budgets for AgentBudgets {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        Box::pin(async move {
            let budget = self.others.open(scope).await?;
            let folder = self.agents.of_version(&scope.principal, &scope.caller.graph);
            let execution = folder.as_ref().and_then(|of| of.definition.execution.as_ref());
            let Some(own) = execution.and_then(|execution| execution.budget.as_ref()) else {
                return Ok(budget);
            };
            let own = LimitedBudget::new(own.limits(), scope.used).named("budget of the agent");
            Ok(Arc::new(BudgetWithin::new(budget, own)) as Arc<dyn Budget>)
        })
    }
}
