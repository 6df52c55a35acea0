//! Functions that make the dependencies of runs.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
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

type Extend = dyn Fn(&Principal, &NewRun, Dependencies) -> Dependencies + Send + Sync;

/// A function that adds dependencies to those of each run; none at first.
#[derive(Default)]
pub(crate) struct Provided(RwLock<Option<Arc<Extend>>>);

impl Provided {
    pub(crate) fn set(
        &self,
        extend: impl Fn(&Principal, &NewRun, Dependencies) -> Dependencies + Send + Sync + 'static,
    ) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(extend));
    }

    /// Returns the dependencies of a run with those that the function adds.
    pub(crate) fn extend(&self, who: &Principal, run: &NewRun, made: Dependencies) -> Dependencies {
        let extend = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match extend {
            Some(extend) => extend(who, run, made),
            None => made,
        }
    }
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provided")
    }
}
