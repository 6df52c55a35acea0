//! Functions that make the dependencies of runs.

use std::fmt;
use std::sync::Arc;
use weftwork_store::NewRun;
use weftwork_types::port::Dependencies;
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

    /// Calls the function.
    pub(crate) fn make(&self, who: Principal, run: NewRun) -> Made {
        self.0(who, run)
    }
}

impl fmt::Debug for MakeDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeDependencies")
    }
}
