//! Resources that a process opens once for each run it executes.

use super::claimed::ClaimedRun;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::port::{Budget, BudgetScope};
use weftwork_types::usage::Usage;

/// Resources of one run. They stay the same while this process executes it.
#[derive(Debug, Clone)]
pub(crate) struct RunScope {
    pub(super) budget: Arc<dyn Budget>,
}

impl RunScope {
    /// Opens the resources of a run that has used this much before.
    pub(super) async fn open(run: &ClaimedRun, used: Usage) -> Result<Self, RuntimeError> {
        let scope = BudgetScope {
            principal: run.who.clone(),
            caller: Arc::new(run.caller()),
            thread: run.claim.at.thread.clone(),
            used,
        };
        Ok(Self { budget: run.context.budgets.open(&scope).await? })
    }
}
