//! Resources that a process opens once for each run it executes.

use super::claimed::{ClaimedRun, RunResources};
use crate::limits::CallerBudget;
use crate::usage::StoredUsage;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::approval::BindingThread;
use weftwork_types::port::{BudgetScope, BudgetWithin, Dependencies, LimitedBudget, Unlimited};
use weftwork_types::usage::Usage;

impl RunResources {
    /// Resources of a run that executes no node.
    pub(super) fn empty(run: &ClaimedRun) -> Self {
        let caller = Arc::new(run.caller());
        Self { caller, budget: Arc::new(Unlimited), dependencies: Dependencies::new() }
    }

    /// Opens the resources of a run that has used its budget so far.
    pub(super) async fn open(run: &ClaimedRun, used: Usage) -> Result<Self, RuntimeError> {
        let caller = Arc::new(run.caller());
        let scope = BudgetScope {
            principal: run.who.clone(),
            caller: Arc::clone(&caller),
            thread: run.claim.at.thread.clone(),
            configurable: Arc::new(run.row.new.options.configurable.clone()),
            used,
        };
        let mut budget = run.context.budgets.open(&scope).await?;
        if let Some(limits) = run.context.thread_budget {
            let usage = StoredUsage { store: run.context.store.as_ref(), who: &run.who };
            // Usage of this run is in `used` already.
            let used = used + usage.of_other_runs(&run.claim.at).await?;
            let of_thread = LimitedBudget::new(limits, used).named("thread budget");
            budget = Arc::new(BudgetWithin::new(budget, of_thread));
        }
        let limited = run.context.limits.as_ref();
        let of_caller =
            limited.and_then(|check| CallerBudget::new(check, &run.who, &caller.caller));
        if let Some(of_caller) = of_caller {
            budget = Arc::new(BudgetWithin::new(budget, of_caller));
        }
        let options = &run.row.new.options;
        // These limits hold for the run together with those that it continues.
        if let Some(limits) = options.budget {
            let used = used + options.spent.unwrap_or_default();
            budget = Arc::new(BudgetWithin::new(budget, LimitedBudget::new(limits, used)));
        }
        Ok(Self { caller, budget, dependencies: make_dependencies(run).await? })
    }
}

async fn make_dependencies(run: &ClaimedRun) -> Result<Dependencies, RuntimeError> {
    let id = &run.row.new.graph;
    let made = match &run.made {
        Some(made) => made.clone(),
        None => run.context.make_dependencies(&run.who, &run.row.new).await?,
    };
    let mut made = run.context.provided.extend(&run.who, &run.row.new, made);
    // An activity that was set aside has approvals that were bound to the thread of its instance.
    if let Some(activity) = &run.row.new.options.activity {
        made = made.with(BindingThread(activity.thread.clone()));
    }
    match run.graph.dependencies().missing_in(&made) {
        None => Ok(made),
        Some(type_name) => Err(RuntimeError::missing_dependency(id, type_name)),
    }
}
