//! From settings to the things they name.

use crate::{Config, Error};
use std::sync::Arc;
use weftwork_egress::{AllowedHost, EgressConfig, GuardedClient};
use weftwork_models::replay::ReplayProvider;
use weftwork_models::scripted::ScriptedProvider;
use weftwork_models::{ChatModel, ModelRegistry};
use weftwork_types::port::Egress;

impl Config {
    /// The guarded HTTP client. It reaches loopback and private addresses only where the
    /// configuration says so: hosts on the allow list, and those of loopback providers.
    ///
    /// # Errors
    /// [`Error::Egress`] when the proxy or the trusted certificates cannot be used.
    pub fn egress(&self) -> Result<Arc<dyn Egress>, Error> {
        let mut allow = self.allow.clone();
        for row in self.providers.rows().filter(|row| row.is_loopback()) {
            let host: AllowedHost = row.host().parse()?;
            allow.push(host);
        }
        let config = EgressConfig { allow, proxy: self.proxy.clone(), ..EgressConfig::default() };
        Ok(Arc::new(GuardedClient::new(config)?))
    }

    /// Every model there is: the table's providers, `scripted`, `replay`, and `local` where it is
    /// built in.
    ///
    /// # Errors
    /// As [`Config::egress`].
    pub fn models(&self) -> Result<ModelRegistry, Error> {
        let mut registry = ModelRegistry::new(&self.providers, &self.egress()?);
        self.add_offline(&mut registry);
        Ok(registry)
    }

    /// Opens a model by its id, `provider:model`; a provider's name alone means its usual model.
    ///
    /// # Errors
    /// [`Error::Model`] when there is none, its key is missing, or it cannot be opened.
    pub fn open_model(&self, id: &str) -> Result<Arc<dyn ChatModel>, Error> {
        // Reading the machine's certificates takes longer than many a short run.
        let mut offline = ModelRegistry::default();
        self.add_offline(&mut offline);
        let provider = id.trim().split(':').next().unwrap_or_default();
        if offline.providers().any(|known| known.name() == provider) {
            return Ok(offline.resolve(id)?);
        }
        Ok(self.models()?.resolve(id)?)
    }

    fn add_offline(&self, registry: &mut ModelRegistry) {
        registry.register(Arc::new(ScriptedProvider));
        registry.register(Arc::new(ReplayProvider));
        #[cfg(feature = "local")]
        registry.register(Arc::new(self.weights()));
    }
}
