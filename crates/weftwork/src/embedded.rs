//! The embedded model as a provider, and where its weights are.

use crate::Config;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_local::chat::{LocalModel, Settings};
use weftwork_local::weights::{self, Known};
use weftwork_local::{Error, cpu};
use weftwork_models::{ChatModel, ModelError, ModelInfo, ModelProvider};

/// Where the weights of the embedded model are, and where those that were fetched are kept. Also
/// the provider `local`.
#[derive(Debug, Clone)]
pub struct Weights {
    named: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Config {
    /// Where the weights of the embedded model are.
    #[must_use]
    pub fn weights(&self) -> Weights {
        let named = self.model_file.as_ref().map(|setting| setting.value.clone());
        Weights { named, cache: self.cache.clone() }
    }
}

impl Weights {
    /// The file that somebody named, which is taken as it is.
    #[must_use]
    pub fn named(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// The folder in which fetched weights are kept.
    ///
    /// # Errors
    /// [`Error::NoCacheDirectory`] when there is none.
    pub fn folder(&self) -> Result<PathBuf, Error> {
        self.cache.as_ref().map(|cache| cache.join("models")).ok_or(Error::NoCacheDirectory)
    }

    /// The file of a known model, whether or not it is there.
    ///
    /// # Errors
    /// [`Error::NoCacheDirectory`] when there is no folder for it.
    pub fn file(&self, known: &Known) -> Result<PathBuf, Error> {
        Ok(known.path_in(&self.folder()?))
    }

    /// Loads a model. Blocks for a fraction of a second.
    ///
    /// # Errors
    /// What is wrong with its file, or with this CPU.
    pub fn load(&self, model: &str) -> Result<LocalModel, Error> {
        cpu::check()?;
        let snapshots = self.cache.as_ref().map(|cache| cache.join("prompts"));
        let known = weights::find(model)?;
        if let Some(file) = &self.named {
            return LocalModel::open(Settings { file: file.clone(), expected: None, snapshots });
        }
        let (file, expected) = (self.file(known)?, Some(known.expected()));
        LocalModel::open(Settings { file, expected, snapshots })
    }
}

fn failed(error: &Error) -> ModelError {
    ModelError::Engine { source: error.fault() }
}

impl ModelProvider for Weights {
    fn name(&self) -> &'static str {
        "local"
    }

    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(Arc::new(self.load(model).map_err(|error| failed(&error))?))
    }

    fn list(&self) -> Vec<ModelInfo> {
        let known = weights::known().iter();
        known
            .map(|known| ModelInfo {
                provider: "local".to_owned(),
                model: known.name.to_owned(),
                label: Some(known.label.to_owned()),
            })
            .collect()
    }

    fn ready(&self) -> Result<(), ModelError> {
        let check = || {
            cpu::check()?;
            let file = match &self.named {
                Some(file) => file.clone(),
                None => self.file(weights::find(weights::DEFAULT)?)?,
            };
            let there = file.is_file();
            let model = weights::DEFAULT.to_owned();
            if there { Ok(()) } else { Err(Error::FileMissing { path: file, model }) }
        };
        check().map_err(|error: Error| failed(&error))
    }
}
