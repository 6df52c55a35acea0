//! Construction of the HTTP client and the models from a configuration.

use crate::{Config, Error};
use std::sync::{Arc, OnceLock};
use weftwork_egress::{AllowedHost, EgressConfig, GuardedClient};
use weftwork_models::ReplayProvider;
use weftwork_models::scripted::ScriptedProvider;
use weftwork_models::{ChatModel, ModelRegistry};
use weftwork_types::BoxFuture;
use weftwork_types::port::{CheckUrl, Egress, EgressError, EgressRequest, EgressResponse};

/// The HTTP client of a configuration, created for the first request: creating it reads the system's
/// certificates, and most programs send no request through it.
#[derive(Debug)]
struct EgressOnDemand {
    config: Config,
    make: fn(&Config) -> Result<Arc<dyn Egress>, Error>,
    client: OnceLock<Result<Arc<dyn Egress>, String>>,
}

impl Egress for EgressOnDemand {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let made = self
            .client
            .get_or_init(|| (self.make)(&self.config).map_err(|error| error.to_string()));
        match made {
            Ok(client) => client.send(request),
            Err(reason) => {
                // The URL may have secrets.
                let url = url::Url::parse(&request.url).ok();
                let host =
                    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
                let error = EgressError::Connect { host, reason: reason.clone() };
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }
}

impl Config {
    /// Creates the guarded HTTP client. It connects to loopback and private addresses only for
    /// hosts on the allow list and hosts of loopback providers.
    ///
    /// # Errors
    /// [`Error::Egress`] if the proxy or the trusted certificates cannot be used.
    pub fn egress(&self) -> Result<Arc<dyn Egress>, Error> {
        self.egress_with(None)
    }

    /// As [`Config::egress`], with one more allowed host.
    pub(crate) fn egress_with(&self, host: Option<AllowedHost>) -> Result<Arc<dyn Egress>, Error> {
        let mut allow = self.allow.clone();
        allow.extend(host);
        for row in self.providers.rows().filter(|row| row.is_loopback()) {
            let host: AllowedHost = row.host().parse()?;
            allow.push(host);
        }
        let config = EgressConfig { allow, proxy: self.proxy.clone(), ..EgressConfig::default() };
        Ok(Arc::new(GuardedClient::new(config)?))
    }

    /// Starts the export of traces and metrics, if a collector is set. Its address may be private: the
    /// operator has chosen it.
    ///
    /// # Errors
    /// As [`Config::egress`].
    #[cfg(feature = "otel")]
    pub(crate) fn start_telemetry(
        &self,
        store: &Arc<dyn weftwork_store::Store>,
        clock: &Arc<dyn weftwork_types::port::Clock>,
    ) -> Result<Option<Arc<weftwork_telemetry::Telemetry>>, Error> {
        let Some(settings) = self.telemetry.clone() else { return Ok(None) };
        let allow = settings.hosts().map(|host| host.parse()).collect::<Result<_, _>>()?;
        let config = EgressConfig { allow, proxy: self.proxy.clone(), ..EgressConfig::default() };
        let egress = Arc::new(GuardedClient::new(config)?);
        let parts = weftwork_telemetry::Parts {
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            egress,
        };
        Ok(Some(Arc::new(weftwork_telemetry::Telemetry::start(settings, parts))))
    }

    /// Creates the registry of all models: the providers of the table, `scripted`, `replay`, and
    /// `local` if the feature `local` is enabled.
    ///
    /// # Errors
    /// As [`Config::egress`].
    pub fn models(&self) -> Result<ModelRegistry, Error> {
        let mut registry = ModelRegistry::new(&self.providers, &self.egress()?);
        self.add_offline(&mut registry);
        Ok(registry.with_settings(self.models.clone()).with_transcripts(self.transcripts.clone()))
    }

    /// Creates the HTTP client of webhooks that clients register. It reaches public addresses, and the
    /// hosts of `allow`: those that the configuration allows to agents are not those of clients.
    ///
    /// # Errors
    /// As [`Config::egress`].
    pub fn webhook_egress(&self, allow: Vec<AllowedHost>) -> Result<Arc<dyn CheckUrl>, Error> {
        let config = EgressConfig { allow, proxy: self.proxy.clone(), ..EgressConfig::default() };
        Ok(Arc::new(GuardedClient::new(config)?))
    }

    /// Creates an HTTP client that connects to no loopback and private address, whatever the operator
    /// allows to itself.
    #[cfg(feature = "platform")]
    pub(crate) fn egress_without_exceptions(&self) -> Result<Arc<dyn Egress>, Error> {
        let config = EgressConfig { proxy: self.proxy.clone(), ..EgressConfig::default() };
        Ok(Arc::new(GuardedClient::new(config)?))
    }

    /// Returns an HTTP client that is created for the first request.
    pub(crate) fn egress_on_demand(
        &self,
        make: fn(&Self) -> Result<Arc<dyn Egress>, Error>,
    ) -> Arc<dyn Egress> {
        Arc::new(EgressOnDemand { config: self.clone(), make, client: OnceLock::new() })
    }

    /// As [`Config::models`], with an HTTP client that is created for the first request.
    pub(crate) fn models_on_demand(&self) -> ModelRegistry {
        let mut registry =
            ModelRegistry::new(&self.providers, &self.egress_on_demand(Self::egress));
        self.add_offline(&mut registry);
        registry.with_settings(self.models.clone()).with_transcripts(self.transcripts.clone())
    }

    /// As [`open_model`](Self::open_model), for callers that report errors of models.
    #[cfg(feature = "platform")]
    pub(crate) fn open_listed_model(
        &self,
        id: &str,
    ) -> Result<Arc<dyn ChatModel>, weftwork_models::ModelError> {
        self.models_on_demand().resolve(id)
    }

    /// Opens a model by its id, `provider:model`; the name of a provider alone selects its default
    /// model.
    ///
    /// # Errors
    /// [`Error::Model`] if the model does not exist, its key is missing, or it cannot be opened.
    pub fn open_model(&self, id: &str) -> Result<Arc<dyn ChatModel>, Error> {
        // Offline models need no HTTP client. Creating one reads the system's certificates, which
        // takes longer than many short runs.
        let mut offline = ModelRegistry::default().with_transcripts(self.transcripts.clone());
        self.add_offline(&mut offline);
        let provider = id.trim().split(':').next().unwrap_or_default();
        if offline.providers().any(|known| known.name() == provider) {
            let model = offline.resolve(id)?;
            if self.models.get(&model.info().id()).is_none() {
                return Ok(model);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::port::Method;

    #[test]
    fn a_client_that_cannot_be_made_is_an_error_of_its_requests_without_their_urls() {
        let config = Config { proxy: Some("no url".to_owned()), ..Config::in_memory() };
        assert!(config.egress().is_err());
        let client = EgressOnDemand { config, make: Config::egress, client: OnceLock::new() };
        let request = EgressRequest::new(Method::Get, "https://models.example/v1?key=secret");
        let sent = futures_util::FutureExt::now_or_never(client.send(request)).expect("no wait");
        let error = sent.expect_err("no client").to_string();
        assert!(error.contains("`models.example`") && error.contains("proxy"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
