//! Resolves names such as `openai:gpt-4o-mini` to models.

mod table;

pub use table::{ProviderOverride, ProviderRow, ProviderTable};

use crate::chat::{ChatModel, ModelInfo};
use crate::protocol::{HttpModel, ServerConfig};
use crate::settings::{ConfiguredModel, FallbackOn, Next, SettingsTable};
use crate::transcripts::TranscriptFolder;
use crate::{ModelError, RequestExtras};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use weftwork_types::port::Egress;

/// Opens the models of one provider.
pub trait ModelProvider: Send + Sync + Debug {
    /// The provider's name: the part of a model id before the colon.
    fn name(&self) -> &str;

    /// Opens a model by the part of its id after the colon.
    ///
    /// # Errors
    /// [`ModelError`] if there is no such model, or it cannot be opened at the moment.
    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError>;

    /// Opens a model whose requests have additions.
    ///
    /// # Errors
    /// [`ModelError::BadProvider`] for a provider whose requests take none.
    fn open_with(
        &self,
        model: &str,
        extras: &RequestExtras,
    ) -> Result<Arc<dyn ChatModel>, ModelError> {
        if *extras == RequestExtras::default() {
            return self.open(model);
        }
        let provider = self.name().to_owned();
        let reason = format!("its model `{model}` takes no `headers`, `query` and `body`");
        Err(ModelError::BadProvider { provider, reason })
    }

    /// The models that are known without a network request, the default first. Empty for network
    /// providers.
    fn list(&self) -> Vec<ModelInfo>;

    /// Checks that a model could be opened now.
    ///
    /// # Errors
    /// [`ModelError`] with the missing prerequisite.
    fn ready(&self) -> Result<(), ModelError>;
}

/// All providers, by name.
#[derive(Debug, Default)]
pub struct ModelRegistry {
    providers: BTreeMap<String, Arc<dyn ModelProvider>>,
    settings: SettingsTable,
    transcripts: Option<Arc<TranscriptFolder>>,
}

impl ModelRegistry {
    /// Creates a registry with the providers of a table, all reached through one client.
    #[must_use]
    pub fn new(table: &ProviderTable, egress: &Arc<dyn Egress>) -> Self {
        let mut registry = Self::default();
        for row in table.rows() {
            let provider = HttpProvider { row: row.clone(), egress: Arc::clone(egress) };
            registry.register(Arc::new(provider));
        }
        registry
    }

    /// Returns the registry with settings of models.
    #[must_use]
    pub fn with_settings(self, settings: SettingsTable) -> Self {
        Self { settings, ..self }
    }

    /// Returns the registry with a folder for full requests and answers of its models.
    #[must_use]
    pub fn with_transcripts(self, transcripts: Option<Arc<TranscriptFolder>>) -> Self {
        Self { transcripts, ..self }
    }

    /// Adds a provider, replacing one with the same name.
    pub fn register(&mut self, provider: Arc<dyn ModelProvider>) {
        self.providers.insert(provider.name().to_owned(), provider);
    }

    /// All providers, ordered by name.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<dyn ModelProvider>> {
        self.providers.values()
    }

    /// Resolves an id `provider:model` to a model with its settings. A provider's name alone means
    /// its default model.
    ///
    /// # Errors
    /// [`ModelError::Unknown`] with the known names, the closest first, or the provider's error
    /// when it cannot open the model or one of its fallbacks.
    pub fn resolve(&self, id: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        let model = self.open(id)?;
        let Some(settings) = self.settings.get(&model.info().id()) else {
            return Ok(match &self.transcripts {
                None => model,
                Some(_) => self.configured(model, None),
            });
        };
        let usual = || FallbackOn::USUAL.to_vec();
        let on: Arc<[FallbackOn]> = settings.fallback_on.clone().unwrap_or_else(usual).into();
        let mut next = None;
        for id in settings.fallback.iter().rev() {
            let model = self.configured(self.open(id)?, next);
            next = Some(Next { model, on: Arc::clone(&on) });
        }
        Ok(self.configured(model, next))
    }

    /// A model with the settings that it shares with its other users.
    fn configured(&self, model: Arc<dyn ChatModel>, next: Option<Next>) -> Arc<dyn ChatModel> {
        let parts = self.settings.parts(&model.info().id());
        Arc::new(ConfiguredModel { model, parts, next, transcripts: self.transcripts.clone() })
    }

    fn open(&self, id: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        let (name, model) = id.trim().split_once(':').unwrap_or((id.trim(), ""));
        let Some(provider) = self.providers.get(name) else {
            return Err(self.unknown_model(id, name));
        };
        let extras = |model: &str| self.settings.extras(&format!("{name}:{model}"));
        match (model, provider.list().into_iter().next()) {
            ("", Some(usual)) => provider.open_with(&usual.model, &extras(&usual.model)),
            ("", None) => Err(ModelError::Unknown {
                found: id.to_owned(),
                known: vec![format!("{name}:MODEL")],
            }),
            (model, _) => provider.open_with(model, &extras(model)),
        }
    }

    fn unknown_model(&self, found: &str, name: &str) -> ModelError {
        let name = name.to_ascii_lowercase();
        let mut known: Vec<String> = self
            .providers
            .values()
            .map(|provider| match provider.list().first() {
                Some(usual) => usual.id(),
                None => format!("{}:MODEL", provider.name()),
            })
            .collect();
        known.sort_by_key(|id| distance(&name, id.split(':').next().unwrap_or_default()));
        ModelError::Unknown { found: found.to_owned(), known }
    }
}

/// The edit distance between two names, in insertions, deletions and substitutions.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A provider from the table.
#[derive(Debug)]
struct HttpProvider {
    row: ProviderRow,
    egress: Arc<dyn Egress>,
}

impl ModelProvider for HttpProvider {
    fn name(&self) -> &str {
        &self.row.name
    }

    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        self.open_with(model, &RequestExtras::default())
    }

    fn open_with(
        &self,
        model: &str,
        extras: &RequestExtras,
    ) -> Result<Arc<dyn ChatModel>, ModelError> {
        self.ready()?;
        let row = &self.row;
        if let Some(missing) = &extras.missing {
            let reason = format!("model `{model}`: {missing}");
            return Err(ModelError::BadProvider { provider: row.name.clone(), reason });
        }
        let config = ServerConfig {
            provider: row.name.clone(),
            protocol: row.protocol,
            base_url: row.url.clone(),
            key: row.key.clone(),
            key_variable: row.key_env.clone(),
            key_header: row.key_header.clone(),
            extras: row.extras.with(extras),
            quirks: row.quirks.clone(),
            head_timeout: row.head_timeout,
            idle_timeout: row.idle_timeout,
        };
        let opened = HttpModel::new(config, model, Arc::clone(&self.egress));
        Ok(Arc::new(opened.with_price(row.price(model))))
    }

    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    fn ready(&self) -> Result<(), ModelError> {
        self.row.ready()
    }
}

#[cfg(test)]
mod tests;
