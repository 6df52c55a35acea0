//! OpenAI's chat completions protocol, which most providers and local servers support.

mod failure;
mod quirk;
mod request;
mod response;
mod stream;

pub use quirk::{Quirk, Quirks};

use crate::chat::{ChatEvent, ChatModel, ChatRequest, ChatStream, ModelInfo, ModelOption};
use crate::form::{Form, FormReader};
use crate::{ModelError, Price, Secret};
use bytes::Bytes;
use failure::Source;
use futures_util::{StreamExt as _, stream as streams};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use stream::Decoder;
use weftwork_types::BoxStream;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method};

/// Maximum size of an answer, in bytes on the wire.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of an error body, in bytes; the rest is ignored.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Connection settings of a server with this protocol.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The provider's id, such as `openai`.
    pub provider: String,
    /// The base URL as normalised by [`base_url`], such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, if the provider requires one.
    pub key: Option<Secret>,
    /// The environment variable of the key, for error messages.
    pub key_variable: String,
    /// Deviations of the server from the protocol.
    pub quirks: Quirks,
    /// Timeout for the response head.
    pub head_timeout: Duration,
    /// Timeout between two chunks of a response.
    pub idle_timeout: Duration,
}

/// A model behind a server of this protocol. Each stream is one HTTP request.
#[derive(Debug)]
pub struct OpenAiModel {
    info: ModelInfo,
    config: Arc<OpenAiConfig>,
    egress: Arc<dyn Egress>,
    price: Option<Price>,
}

impl OpenAiModel {
    /// Creates a model with the given name on the wire, whose price is unknown.
    #[must_use]
    pub fn new(config: OpenAiConfig, model: &str, egress: Arc<dyn Egress>) -> Self {
        let info =
            ModelInfo { provider: config.provider.clone(), model: model.to_owned(), label: None };
        Self { info, config: Arc::new(config), egress, price: None }
    }

    /// Returns the model with a price.
    #[must_use]
    pub fn with_price(self, price: Option<Price>) -> Self {
        Self { price, ..self }
    }
}

impl ChatModel for OpenAiModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn lacks(&self) -> &[ModelOption] {
        // The schema of an answer has one call.
        if self.config.quirks.has(Quirk::ToolsAsSchema) {
            return &[ModelOption::ParallelToolCalls];
        }
        &[]
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let attempt = Attempt {
            model: self.info.model.clone(),
            config: Arc::clone(&self.config),
            egress: Arc::clone(&self.egress),
        };
        let form = self.config.quirks.has(Quirk::ToolsAsSchema).then(|| Form::of(&request));
        let first = async move {
            let asked = form.as_ref().map_or(&*request, Form::request);
            match attempt.send(asked).await {
                Ok(events) => match form {
                    Some(form) => FormReader::read(form, &attempt.config.provider, events),
                    None => events,
                },
                Err(error) => streams::iter([Err(error)]).boxed(),
            }
        };
        streams::once(first).flatten().boxed()
    }
}

/// Normalises a base URL: removes a trailing slash and the path of the endpoint. A URL without a
/// path gets `/v1`, where every server of this protocol listens.
///
/// # Errors
/// The reason why the text is not a usable base URL.
pub fn base_url(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.contains(['?', '#']) {
        return Err("a base URL has no query and no fragment");
    }
    let text = text.trim_end_matches('/');
    let text = text.strip_suffix("/chat/completions").unwrap_or(text).trim_end_matches('/');
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match rest {
        None => Err("a base URL begins with `https://` or `http://`"),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Err("the base URL names no host"),
        Some(rest) if rest.contains('/') => Ok(text.to_owned()),
        Some(_) => Ok(format!("{text}/v1")),
    }
}

/// A single attempt.
struct Attempt {
    model: String,
    config: Arc<OpenAiConfig>,
    egress: Arc<dyn Egress>,
}

impl Attempt {
    async fn send(&self, request: &ChatRequest) -> Result<ChatStream, ModelError> {
        let config = &self.config;
        let body = request::body(&self.model, request, config)?;
        let response = self.egress.send(self.http(body.to_string())).await;
        let response = response.map_err(|error| self.transport(error))?;
        if !(200..300).contains(&response.status) {
            return Err(self.refusal(response).await);
        }
        let decoder = Decoder::new(Source::of(config), response.status);
        Ok(streams::unfold(Some(Reading::new(response.body, decoder)), Reading::next).boxed())
    }

    fn http(&self, body: String) -> EgressRequest {
        let config = &self.config;
        let url = format!("{}/chat/completions", config.base_url);
        let mut http = EgressRequest::new(Method::Post, url);
        http.headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "text/event-stream, application/json".to_owned()),
        ];
        if let Some(key) = &config.key {
            http.headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose())));
        }
        http.body = Bytes::from(body);
        http.head_timeout = config.head_timeout;
        http.idle_timeout = config.idle_timeout;
        http
    }

    async fn refusal(&self, mut response: EgressResponse) -> ModelError {
        let mut body = Vec::new();
        // A body that breaks off may still have a message; the status decides the error.
        while let Some(Ok(piece)) = response.body.next().await {
            let room = ERROR_BYTES_MAX - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() == ERROR_BYTES_MAX {
                break;
            }
        }
        failure::from_response(&Source::of(&self.config), &response, &body)
    }

    fn transport(&self, source: EgressError) -> ModelError {
        ModelError::Transport { provider: self.config.provider.clone(), source }
    }
}

/// A response body being decoded into events.
struct Reading {
    body: BoxStream<'static, Result<Bytes, EgressError>>,
    decoder: Decoder,
    ready: VecDeque<ChatEvent>,
    bytes: usize,
    /// Set when nothing more is read: the result of decoding.
    ended: Option<Result<(), ModelError>>,
}

impl Reading {
    fn new(body: BoxStream<'static, Result<Bytes, EgressError>>, decoder: Decoder) -> Self {
        Self { body, decoder, ready: VecDeque::new(), bytes: 0, ended: None }
    }

    async fn next(state: Option<Self>) -> Option<(Result<ChatEvent, ModelError>, Option<Self>)> {
        let mut state = state?;
        loop {
            if let Some(event) = state.ready.pop_front() {
                return Some((Ok(event), Some(state)));
            }
            match state.ended.take() {
                Some(Ok(())) => return None,
                Some(Err(error)) => return Some((Err(error), None)),
                None => state.read().await,
            }
        }
    }

    async fn read(&mut self) {
        let piece = self.body.next().await;
        let outcome = match piece {
            Some(Ok(piece)) => {
                self.bytes += piece.len();
                if self.bytes > ANSWER_BYTES_MAX {
                    Err(self.decoder.source().malformed("it is larger than 16 MiB"))
                } else {
                    self.decoder.push(&piece, &mut self.ready)
                }
            }
            Some(Err(error)) => self.decoder.cut(Some(error), &mut self.ready),
            None => self.decoder.cut(None, &mut self.ready),
        };
        if outcome.is_err() || self.decoder.is_done() {
            self.ended = Some(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::base_url;

    #[test]
    fn base_urls_are_normalised() {
        for (text, url) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1"),
            (" https://api.openai.com/v1/ \n", "https://api.openai.com/v1"),
            ("http://localhost:8080", "http://localhost:8080/v1"),
            ("http://localhost:8080/", "http://localhost:8080/v1"),
            ("http://h/v1/chat/completions", "http://h/v1"),
            ("https://h/api/openai/v1//", "https://h/api/openai/v1"),
        ] {
            assert_eq!(base_url(text).as_deref(), Ok(url), "{text:?}");
        }
        for text in ["", "localhost:8080", "ftp://h/v1", "https://", "https:///v1", "http://h/?a"] {
            assert!(base_url(text).is_err(), "{text:?}");
        }
    }
}
