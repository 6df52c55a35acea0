//! Resources that a process opens once for each run it executes.

use super::Run;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::port::{Budget, BudgetScope};
use weftwork_types::usage::Usage;

/// Resources of one run. They stay the same while this process executes it.
#[derive(Debug, Clone)]
pub(crate) struct RunScope {
    pub(super) budget: Arc<dyn Budget>,
}

impl Run {
    /// Returns the resources of the run, and opens them first if it has none yet.
    pub(super) async fn scope(&self, used: Usage) -> Result<&RunScope, RuntimeError> {
        self.scope.get_or_try_init(|| self.open_scope(used)).await
    }

    async fn open_scope(&self, used: Usage) -> Result<RunScope, RuntimeError> {
        let scope = BudgetScope {
            principal: self.who.clone(),
            caller: Arc::new(self.caller()),
            thread: self.claim.at.thread.clone(),
            used,
        };
        Ok(RunScope { budget: self.host.budgets.open(&scope).await? })
    }
}
