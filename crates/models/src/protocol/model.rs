//! A model behind an HTTP server.

use super::account::cost_of_header;
use super::decoder::Decoder;
use super::encoding::{BodyDecoder, EncodingError};
use super::failure::{self, Source};
use super::redirect::next_address;
use super::refused_media::RefusedMedia;
use super::{Protocol, Quirk, Quirks};
use crate::capability::{self, ModelFacts};
use crate::chat::{ChatEvent, ChatModel, ChatRequest, ChatStream, ModelInfo};
use crate::form::{Form, FormReader};
use crate::{Capability, ModelError, Price, RequestExtras, Secret, TokenLimits};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream as streams};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::BoxStream;
use weftwork_types::message::Media;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse, Method, Redirects};

/// Maximum size of an answer, in bytes on the wire, and in bytes once it is decompressed.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of an error body, in bytes; the rest is ignored.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Connection settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The provider's id, such as `openai`.
    pub provider: String,
    /// The server's protocol.
    pub protocol: Protocol,
    /// The normalised base URL, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, if the provider requires one.
    pub key: Option<Secret>,
    /// The environment variable of the key, for error messages.
    pub key_variable: String,
    /// The header that carries the key alone, in place of the protocol's.
    pub key_header: Option<String>,
    /// Additions to each request.
    pub extras: RequestExtras,
    /// Deviations of the server from the protocol.
    pub quirks: Quirks,
    /// Timeout for the response head.
    pub head_timeout: Duration,
    /// Timeout between two chunks of a response.
    pub idle_timeout: Duration,
}

/// Returns what is known of a model behind a server with a protocol and quirks.
pub(crate) fn facts(id: &str, protocol: Protocol, quirks: &Quirks) -> ModelFacts {
    let mut facts = capability::facts(id);
    facts.lacks.extend(protocol.lacks());
    if quirks.has(Quirk::ToolsAsSchema) {
        // The schema of an answer has one call, and a stop text would cut the JSON of it.
        facts.lacks.extend([Capability::ParallelToolCalls, Capability::Stop]);
    }
    facts.lacks.sort_unstable();
    facts.lacks.dedup();
    facts
}

/// A model behind an HTTP server. Each stream is one HTTP request.
#[derive(Debug)]
pub struct HttpModel {
    info: ModelInfo,
    facts: ModelFacts,
    config: Arc<ServerConfig>,
    egress: Arc<dyn Egress>,
    price: Option<Price>,
}

impl HttpModel {
    /// Creates a model with the given name on the wire, whose price is unknown.
    #[must_use]
    pub fn new(config: ServerConfig, model: &str, egress: Arc<dyn Egress>) -> Self {
        let info =
            ModelInfo { provider: config.provider.clone(), model: model.to_owned(), label: None };
        let facts = facts(&info.id(), config.protocol, &config.quirks);
        Self { info, facts, config: Arc::new(config), egress, price: None }
    }

    /// Returns the model with a price.
    #[must_use]
    pub fn with_price(self, price: Option<Price>) -> Self {
        Self { price, ..self }
    }
}

impl ChatModel for HttpModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn lacks(&self) -> &[Capability] {
        &self.facts.lacks
    }

    fn check_medium(&self, media: &Media) -> Result<(), String> {
        self.config.protocol.check_medium(media)
    }

    fn check_options(&self, request: &ChatRequest) -> Result<(), String> {
        self.config.protocol.check_options(request)
    }

    fn token_limits(&self) -> TokenLimits {
        self.facts.limits
    }

    fn price(&self) -> Option<Price> {
        self.price
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let attempt = HttpAttempt {
            model: self.info.model.clone(),
            reasons: !self.facts.lacks.contains(&Capability::Reasoning),
            config: Arc::clone(&self.config),
            egress: Arc::clone(&self.egress),
        };
        let mut request = capability::note_result_media(&self.facts.lacks, request);
        let id = self.info.id();
        let first = async move {
            let refused = RefusedMedia::new(&attempt.config, &attempt.model);
            request = refused.note_known(request);
            loop {
                match attempt.answer(&request).await {
                    Ok(events) => return events,
                    Err(error) => match refused.note_new(&error, &request) {
                        Some(noted) => {
                            tracing::warn!(model = %id, "sent again without the refused media");
                            request = noted;
                        }
                        None => return streams::iter([Err(error)]).boxed(),
                    },
                }
            }
        };
        streams::once(first).flatten().boxed()
    }
}

/// A single attempt.
struct HttpAttempt {
    model: String,
    /// `true` unless the model is known to give no reasoning.
    reasons: bool,
    config: Arc<ServerConfig>,
    egress: Arc<dyn Egress>,
}

impl HttpAttempt {
    /// Sends a request, in the form that the server needs.
    async fn answer(&self, request: &ChatRequest) -> Result<ChatStream, ModelError> {
        if !self.config.quirks.has(Quirk::ToolsAsSchema) {
            return self.send(request).await;
        }
        let form = Form::of(request);
        let events = self.send(form.request()).await?;
        Ok(FormReader::read(form, &self.config.provider, events))
    }

    async fn send(&self, request: &ChatRequest) -> Result<ChatStream, ModelError> {
        let mut http = self.http_request(request)?;
        let mut followed = 0;
        let response = loop {
            let response = self.egress.send(http.clone()).await;
            let response = response.map_err(|error| self.transport_error(error))?;
            match next_address(&http.url, &response, followed) {
                None => break response,
                Some(Err(error)) => return Err(self.transport_error(error)),
                Some(Ok(url)) => http.url = url,
            }
            followed += 1;
        };
        if !(200..300).contains(&response.status) {
            return Err(self.read_refusal(response).await);
        }
        let reader = self.config.protocol.reader();
        let source = Source::of(&self.config);
        let encoding = BodyDecoder::new(&response, ANSWER_BYTES_MAX);
        let mut decoder = Decoder::new(source, response.status, &self.model, reader);
        decoder.set_cost(response.header("x-litellm-response-cost").and_then(cost_of_header));
        let reading = Reading::new(response.body, encoding, decoder);
        Ok(streams::unfold(Some(reading), Reading::next).boxed())
    }

    fn http_request(&self, request: &ChatRequest) -> Result<EgressRequest, ModelError> {
        let config = &self.config;
        let outgoing = config.protocol.write(&self.model, self.reasons, request, config);
        let outgoing = outgoing.map_err(|what| ModelError::Unsupported {
            model: format!("{}:{}", config.provider, self.model),
            what,
        })?;
        let url = format!("{}{}", config.base_url, config.extras.path(&outgoing.path));
        let mut http = EgressRequest::new(Method::Post, url);
        let mut set = |name: &str, value: String| http.headers.push((name.to_owned(), value));
        set("content-type", "application/json".to_owned());
        set("accept", "text/event-stream, application/json".to_owned());
        let own = |name: &str| config.extras.headers.iter().any(|(own, _)| own == name);
        // Without this header, a server may compress its answer in any way.
        if !own("accept-encoding") {
            set("accept-encoding", "identity".to_owned());
        }
        for (name, value) in outgoing.headers.into_iter().filter(|(name, _)| !own(name)) {
            set(name, value);
        }
        match (&config.key, &config.key_header) {
            (Some(key), Some(name)) => set(name, key.expose().to_owned()),
            (Some(key), None) => {
                let (name, value) = config.protocol.key_header(key.expose());
                if !own(name) {
                    set(name, value);
                }
            }
            (None, _) => {}
        }
        for (name, value) in &config.extras.headers {
            set(name, value.expose().to_owned());
        }
        let mut body = outgoing.body;
        config.extras.add_to(&mut body);
        http.body = Bytes::from(body.to_string());
        http.head_timeout = config.head_timeout;
        http.idle_timeout = config.idle_timeout;
        http.redirects = Redirects::Return;
        Ok(http)
    }

    async fn read_refusal(&self, mut response: EgressResponse) -> ModelError {
        let mut body = Vec::new();
        let mut encoding = BodyDecoder::new(&response, ERROR_BYTES_MAX);
        // A body that breaks off may still have a message; the status decides the error.
        loop {
            let piece = response.body.next().await;
            let decoded = match &piece {
                Some(Ok(piece)) => encoding.decode(piece),
                _ => encoding.end(),
            };
            match decoded {
                Ok(decoded) => {
                    let room = ERROR_BYTES_MAX - body.len();
                    body.extend_from_slice(&decoded[..decoded.len().min(room)]);
                }
                Err(EncodingError::Damaged(_) | EncodingError::TooLarge(_)) if !body.is_empty() => {
                    break;
                }
                Err(error) => {
                    body = format!("its body {error}").into_bytes();
                    break;
                }
            }
            if !matches!(piece, Some(Ok(_))) || body.len() == ERROR_BYTES_MAX {
                break;
            }
        }
        failure::from_response(&Source::of(&self.config), &response, &body)
    }

    fn transport_error(&self, source: EgressError) -> ModelError {
        ModelError::Transport { provider: self.config.provider.clone(), source }
    }
}

/// A response body being decoded into events.
struct Reading {
    body: BoxStream<'static, Result<Bytes, EgressError>>,
    encoding: BodyDecoder,
    decoder: Decoder,
    ready: VecDeque<ChatEvent>,
    bytes: usize,
    /// Set when nothing more is read: the result of decoding.
    ended: Option<Result<(), ModelError>>,
}

impl Reading {
    fn new(
        body: BoxStream<'static, Result<Bytes, EgressError>>,
        encoding: BodyDecoder,
        decoder: Decoder,
    ) -> Self {
        Self { body, encoding, decoder, ready: VecDeque::new(), bytes: 0, ended: None }
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

    /// Decodes a piece of the body, or what is left at its end.
    fn decode(&mut self, piece: Option<&[u8]>) -> Result<(), ModelError> {
        let source = self.decoder.source();
        let decoded = match piece {
            Some(piece) => self.encoding.decode(piece),
            None => self.encoding.end(),
        };
        let decoded = decoded.map_err(|error| match error {
            EncodingError::Damaged(_) => source.garbled(format!("it {error}")),
            _ => source.malformed(format!("it {error}")),
        })?;
        self.decoder.push(&decoded, &mut self.ready)
    }

    /// Handles the end of the body.
    fn end(&mut self) -> Result<(), ModelError> {
        self.decode(None)?;
        match self.decoder.is_done() {
            true => Ok(()),
            false => self.decoder.cut(None, &mut self.ready),
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
                    self.decode(Some(&piece))
                }
            }
            Some(Err(error)) => self.decoder.cut(Some(error), &mut self.ready),
            None => self.end(),
        };
        if outcome.is_err() || self.decoder.is_done() {
            self.ended = Some(outcome);
        }
    }
}
