//! Models of single runs, in place of the model of the app.

use crate::{Config, Error};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_models::{ChatModel, RunModel};
use weftwork_runtime::DependencyError;
use weftwork_store::NewRun;
use weftwork_types::port::Dependencies;

/// Models that were opened for single runs.
#[derive(Debug)]
pub(crate) struct RunModels {
    config: Config,
    /// Id of the model that the graphs were opened with.
    instead_of: String,
    opened: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
}

impl RunModels {
    pub(crate) fn new(config: Config, model: &dyn ChatModel) -> Self {
        Self { config, instead_of: model.info().id(), opened: Mutex::default() }
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

    /// Returns the dependencies of a run: its model, if it has one of its own.
    pub(crate) fn dependencies(&self, run: &NewRun) -> Result<Dependencies, DependencyError> {
        let Some(id) = &run.options.run_model else { return Ok(Dependencies::new()) };
        let model = self.open(id)?;
        let instead_of = self.instead_of.clone();
        Ok(Dependencies::new().with(RunModel { instead_of, model }))
    }
}
