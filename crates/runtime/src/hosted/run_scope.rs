//! Resources that a process opens once for each run it executes.

use super::Run;
use std::fmt;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_store::NewRun;
use weftwork_types::port::{Budget, BudgetScope, Dependencies, Unlimited};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, Principal};

/// An error of a function that makes the dependencies of runs; any error converts into one with
/// `?`.
pub type DependencyError = Box<dyn std::error::Error + Send + Sync>;

type Made = BoxFuture<'static, Result<Dependencies, DependencyError>>;

/// A function that makes the dependencies of the runs of a graph.
#[derive(Clone)]
pub(crate) struct MakeDependencies(Arc<dyn Fn(Principal, NewRun) -> Made + Send + Sync>);

impl MakeDependencies {
    pub(crate) fn new(make: impl Fn(Principal, NewRun) -> Made + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl fmt::Debug for MakeDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeDependencies")
    }
}

/// Resources of one run. They stay the same while this process executes it.
#[derive(Debug, Clone)]
pub(crate) struct RunScope {
    pub(super) budget: Arc<dyn Budget>,
    pub(super) dependencies: Dependencies,
}

impl RunScope {
    pub(super) fn empty() -> Self {
        Self { budget: Arc::new(Unlimited), dependencies: Dependencies::new() }
    }
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
        let budget = self.host.budgets.open(&scope).await?;
        Ok(RunScope { budget, dependencies: self.make_dependencies().await? })
    }

    async fn make_dependencies(&self) -> Result<Dependencies, RuntimeError> {
        let graph = &self.row.new.graph;
        let made = match self.host.dependencies.get(graph) {
            None => Dependencies::new(),
            Some(MakeDependencies(make)) => make(self.who.clone(), self.row.new.clone())
                .await
                .map_err(|error| RuntimeError::dependencies(graph, error))?,
        };
        match self.graph.dependencies().missing_in(&made) {
            None => Ok(made),
            Some(type_name) => Err(RuntimeError::missing_dependency(graph, type_name)),
        }
    }
}
