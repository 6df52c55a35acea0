//! Settings of single models: fallbacks, limits of the rate, and the response cache.

use crate::cache::ResponseCache;
use crate::chat::{ChatModel, ChatRequest, ChatStream, FinishReason, ModelInfo};
use crate::limiter::{Limiter, RateLimits};
use crate::transcripts::TranscriptFolder;
use crate::{Additions, Capability, ModelError, Price, RefusalKind, RequestExtras, TokenLimits};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::message::Media;
use weftwork_types::port::Clock;

/// Settings of a model, as a configuration states them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Ids of the models to call if this one fails, in order.
    pub fallback: Vec<String>,
    /// The failures after which the next model is called; [`FallbackOn::USUAL`] by default.
    pub fallback_on: Option<Vec<FallbackOn>>,
    /// The maximum number of calls at the same time.
    pub concurrent: Option<u32>,
    /// The maximum number of calls within a minute.
    pub requests_per_minute: Option<u32>,
    /// The maximum number of tokens within a minute, as estimated before each call.
    pub tokens_per_minute: Option<u64>,
    /// The time for which an answer is used again for the same request of the same principal, in
    /// seconds. Without it, no answer is.
    pub cache_seconds: Option<u64>,
    /// Headers of each request; see [`Additions`].
    pub headers: BTreeMap<String, String>,
    /// Members of the query of each request.
    pub query: BTreeMap<String, String>,
    /// Members of the body of each request.
    pub body: Map<String, Value>,
}

impl ModelSettings {
    /// Returns what the settings add to requests.
    fn additions(&self) -> Additions {
        Additions {
            headers: self.headers.clone(),
            query: self.query.clone(),
            body: self.body.clone(),
        }
    }
}

/// A failure of a model that another model may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FallbackOn {
    /// [`RefusalKind::RateLimit`].
    RateLimit,
    /// [`RefusalKind::QuotaExhausted`].
    QuotaExhausted,
    /// [`RefusalKind::Timeout`].
    Timeout,
    /// [`RefusalKind::Overloaded`].
    Overloaded,
    /// [`RefusalKind::Unavailable`].
    Unavailable,
    /// [`RefusalKind::Auth`].
    Auth,
    /// [`RefusalKind::NotFound`].
    NotFound,
    /// [`RefusalKind::ContextLength`].
    ContextLength,
    /// [`RefusalKind::ContentFilter`].
    ContentFilter,
    /// [`ModelError::Transport`].
    Unreachable,
    /// [`ModelError::Truncated`], [`ModelError::Malformed`] or [`ModelError::Empty`].
    BrokenAnswer,
}

impl FallbackOn {
    /// The failures that are not the request's or the configuration's.
    pub const USUAL: [Self; 7] = [
        Self::RateLimit,
        Self::QuotaExhausted,
        Self::Timeout,
        Self::Overloaded,
        Self::Unavailable,
        Self::Unreachable,
        Self::BrokenAnswer,
    ];

    /// Returns the failure that an error is; `None` if no other model would do better.
    #[must_use]
    pub fn of(error: &ModelError) -> Option<Self> {
        match error {
            ModelError::Transport { .. } => return Some(Self::Unreachable),
            ModelError::Truncated { .. }
            | ModelError::Malformed { .. }
            | ModelError::Paused { .. } => {
                return Some(Self::BrokenAnswer);
            }
            // Another model may reason less, but the limit is the request's.
            ModelError::Empty { finish, .. } => {
                return (*finish != FinishReason::Length).then_some(Self::BrokenAnswer);
            }
            _ => {}
        }
        Some(match error.refusal()? {
            RefusalKind::RateLimit => Self::RateLimit,
            RefusalKind::QuotaExhausted => Self::QuotaExhausted,
            RefusalKind::Timeout => Self::Timeout,
            RefusalKind::Overloaded => Self::Overloaded,
            RefusalKind::Unavailable => Self::Unavailable,
            RefusalKind::Auth => Self::Auth,
            RefusalKind::NotFound => Self::NotFound,
            RefusalKind::ContextLength => Self::ContextLength,
            RefusalKind::ContentFilter => Self::ContentFilter,
            RefusalKind::InvalidRequest => return None,
        })
    }
}

/// Settings of models, by id. Clones share the limits and the caches.
#[derive(Debug, Clone, Default)]
pub struct SettingsTable(Arc<BTreeMap<String, (ModelSettings, SharedParts)>>);

impl SettingsTable {
    /// Creates a table whose limits and caches follow a clock. Values of headers and of the query
    /// are read from the environment.
    ///
    /// # Errors
    /// [`ModelError::BadProvider`] for an addition to requests that cannot be used.
    pub fn new(
        settings: BTreeMap<String, ModelSettings>,
        env: &dyn Fn(&str) -> Option<String>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, ModelError> {
        let parts = settings.into_iter().map(|(id, settings)| {
            let extras = settings
                .additions()
                .resolve(env)
                .map_err(|reason| ModelError::BadProvider { provider: id.clone(), reason })?;
            let parts = SharedParts::new(&settings, extras, clock);
            Ok((id, (settings, parts)))
        });
        Ok(Self(Arc::new(parts.collect::<Result<_, ModelError>>()?)))
    }

    /// Returns what the settings of a model add to its requests.
    pub(crate) fn extras(&self, id: &str) -> RequestExtras {
        self.0.get(id).map(|(_, parts)| parts.extras.clone()).unwrap_or_default()
    }

    /// Returns the settings of a model by its id, `provider:model`, if it has any.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ModelSettings> {
        self.0.get(id).map(|(settings, _)| settings)
    }

    pub(crate) fn parts(&self, id: &str) -> Option<SharedParts> {
        self.0.get(id).map(|(_, parts)| parts.clone())
    }
}

/// The parts of a model's settings that all users of the model share.
#[derive(Debug, Clone)]
pub(crate) struct SharedParts {
    limiter: Option<Arc<Limiter>>,
    cache: Option<Arc<ResponseCache>>,
    extras: RequestExtras,
}

impl SharedParts {
    pub(crate) fn new(
        settings: &ModelSettings,
        extras: RequestExtras,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let limits = RateLimits {
            concurrent: settings.concurrent,
            requests_per_minute: settings.requests_per_minute,
            tokens_per_minute: settings.tokens_per_minute,
        };
        let lifetime = settings.cache_seconds.map(Duration::from_secs);
        Self {
            limiter: limits.any().then(|| Arc::new(Limiter::new(limits, Arc::clone(clock)))),
            cache: lifetime.map(|lifetime| Arc::new(ResponseCache::new(lifetime))),
            extras,
        }
    }
}

/// Returns a model that calls others, in their order, after the errors that usually lead to a fallback.
#[must_use]
pub fn with_fallbacks(
    model: Arc<dyn ChatModel>,
    others: impl DoubleEndedIterator<Item = Arc<dyn ChatModel>>,
) -> Arc<dyn ChatModel> {
    let on: Arc<[FallbackOn]> = FallbackOn::USUAL.into();
    let mut next = None;
    for model in others.rev() {
        let configured = ConfiguredModel { model, parts: None, next, transcripts: None };
        next = Some(Next { model: Arc::new(configured), on: Arc::clone(&on) });
    }
    match next {
        None => model,
        next => Arc::new(ConfiguredModel { model, parts: None, next, transcripts: None }),
    }
}

/// A model with settings.
#[derive(Debug)]
pub(crate) struct ConfiguredModel {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) parts: Option<SharedParts>,
    pub(crate) next: Option<Next>,
    pub(crate) transcripts: Option<Arc<TranscriptFolder>>,
}

/// The model to call if another one fails.
#[derive(Debug, Clone)]
pub(crate) struct Next {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) on: Arc<[FallbackOn]>,
}

impl ChatModel for ConfiguredModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn lacks(&self) -> &[Capability] {
        self.model.lacks()
    }

    fn check_medium(&self, media: &Media) -> Result<(), String> {
        self.model.check_medium(media)
    }

    fn check_options(&self, request: &ChatRequest) -> Result<(), String> {
        self.model.check_options(request)
    }

    fn token_limits(&self) -> TokenLimits {
        self.model.token_limits()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn fallback(&self, error: &ModelError) -> Option<&dyn ChatModel> {
        if let Some(own) = self.model.fallback(error) {
            return Some(own);
        }
        let failure = FallbackOn::of(error)?;
        let next = self.next.as_ref().filter(|next| next.on.contains(&failure))?;
        Some(next.model.as_ref())
    }

    fn cache(&self) -> Option<&ResponseCache> {
        let own = self.parts.as_ref().and_then(|parts| parts.cache.as_deref());
        own.or_else(|| self.model.cache())
    }

    fn limiter(&self) -> Option<&Limiter> {
        let own = self.parts.as_ref().and_then(|parts| parts.limiter.as_deref());
        own.or_else(|| self.model.limiter())
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        match &self.transcripts {
            None => self.model.stream(request),
            Some(folder) => {
                let stream = self.model.stream(Arc::clone(&request));
                folder.record(self.info(), &request, stream)
            }
        }
    }
}
