//! Media that models refused.
//!
//! A medium stays in its conversation, so that a model that refuses it would refuse every later message.
//! The request is sent again with notes in place of the media, and so are later requests of this process.

use super::ServerConfig;
use crate::chat::ChatRequest;
use crate::refusal::refused_media;
use crate::{Capability, ModelError, capability};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Maximum number of models whose refusals are remembered.
const MODELS_MAX: usize = 1000;

/// Kinds of media that models refused in this process, by address, protocol and model.
static REFUSED: LazyLock<Mutex<BTreeMap<String, BTreeSet<Capability>>>> =
    LazyLock::new(Mutex::default);

/// The media that one model refused.
#[derive(Debug)]
pub(super) struct RefusedMedia {
    model: String,
}

impl RefusedMedia {
    pub(super) fn new(config: &ServerConfig, model: &str) -> Self {
        Self { model: format!("{} {:?} {model}", config.base_url, config.protocol) }
    }

    /// Returns a request without the media that the model refused before.
    pub(super) fn note_known(&self, request: Arc<ChatRequest>) -> Arc<ChatRequest> {
        let models = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<Capability> =
            models.get(&self.model).into_iter().flatten().copied().collect();
        drop(models);
        capability::note_all_media(&known, request)
    }

    /// Remembers the media that an error refuses, and returns the request without them; `None` if the
    /// error is another one or the request has no such media.
    pub(super) fn note_new(
        &self,
        error: &ModelError,
        request: &Arc<ChatRequest>,
    ) -> Option<Arc<ChatRequest>> {
        let refused = refused_media(error);
        let noted = capability::note_all_media(&refused, Arc::clone(request));
        if Arc::ptr_eq(&noted, request) {
            return None;
        }
        let mut models = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() < MODELS_MAX || models.contains_key(&self.model) {
            models.entry(self.model.clone()).or_default().extend(refused);
        }
        Some(noted)
    }
}
