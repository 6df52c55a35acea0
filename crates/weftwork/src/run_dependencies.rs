//! Models of single runs, in place of the model of the app.

use crate::{Config, Error};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_models::{ChatModel, RunModel};
use weftwork_runtime::DependencyError;
use weftwork_store::NewRun;
use weftwork_types::Principal;
use weftwork_types::port::Dependencies;

/// Function that makes the values of a run.
pub(crate) type MakeDependencies =
    dyn Fn(&Principal, &NewRun) -> Result<Dependencies, DependencyError> + Send + Sync;

/// Models that were opened for single runs, and the program's values of runs.
pub(crate) struct RunDependencies {
    config: Config,
    /// Id of the model that the graphs were opened with.
    instead_of: String,
    opened: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
    make: Option<Box<MakeDependencies>>,
}

impl fmt::Debug for RunDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunDependencies")
            .field("instead_of", &self.instead_of)
            .finish_non_exhaustive()
    }
}

impl RunDependencies {
    pub(crate) fn new(
        config: Config,
        model: &dyn ChatModel,
        make: Option<Box<MakeDependencies>>,
    ) -> Self {
        Self { config, instead_of: model.info().id(), opened: Mutex::default(), make }
    }

    /// Opens a model by its id. It stays open.
    pub(crate) fn open(&self, id: &str) -> Result<Arc<dyn ChatModel>, Error> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = opened().get(id) {
            return Ok(Arc::clone(model));
        }
        let model = self.config.open_model(id)?;
        opened().insert(id.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    /// Returns the dependencies of a run: those of the program, and its model, if it has one of its
    /// own.
    pub(crate) fn dependencies(
        &self,
        who: &Principal,
        run: &NewRun,
    ) -> Result<Dependencies, DependencyError> {
        let values = match &self.make {
            Some(make) => make(who, run)?,
            None => Dependencies::new(),
        };
        let Some(id) = &run.options.run_model else { return Ok(values) };
        let model = self.open(id)?;
        let instead_of = self.instead_of.clone();
        Ok(values.with(RunModel { instead_of, model }))
    }
}
