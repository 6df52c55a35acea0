//! Decodes the bytes of a response into events: framing, limits and the end of an answer.

use super::failure::{self, Source};
use crate::ModelError;
use crate::chat::{ChatEvent, FinishReason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Debug;
use weftwork_types::json;
use weftwork_types::port::EgressError;
use weftwork_types::sse::SseParser;
use weftwork_types::usage::Tokens;

/// Maximum size of an event, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Reads the JSON documents of one answer in a protocol.
pub(super) trait Reader: Debug + Send {
    /// Reads a document of the stream, or the only document of an answer that was not streamed.
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw>;
}

/// State of an answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Events for the caller, in order.
    pub(super) events: VecDeque<ChatEvent>,
    /// The provider's id of the call.
    pub(super) id: Option<String>,
    /// The counts, complete so far.
    pub(super) tokens: Option<Tokens>,
    /// The provider's own cost in millionths of a US dollar.
    pub(super) cost_micro_usd: Option<u64>,
    /// The reason for the end. An answer without one is truncated.
    pub(super) finish: Option<FinishReason>,
    /// `true` once the provider said that nothing follows.
    pub(super) is_over: bool,
}

impl Progress {
    pub(super) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_back(ChatEvent::TextDelta(text.to_owned()));
        }
    }

    pub(super) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_back(ChatEvent::ReasoningDelta(text.to_owned()));
        }
    }

    /// Keeps the first id that is not empty.
    pub(super) fn set_id(&mut self, id: Option<String>) {
        self.id = self.id.take().or(id.filter(|id| !id.is_empty()));
    }
}

/// A defect of an answer.
#[derive(Debug)]
pub(super) enum Flaw {
    /// The answer does not follow the protocol.
    Malformed(String),
    /// The provider gave up.
    Truncated(String),
    /// The provider sent an error object.
    Refused(Value),
}

/// A decoder for one answer.
///
/// An answer is complete once the provider has sent a reason for its end. If the last marker or the
/// usage is missing after that, only the exact token counts are lost. An answer without a reason is
/// truncated, with or without `[DONE]`.
#[derive(Debug)]
pub(super) struct Decoder {
    source: Source,
    status: u16,
    body: Body,
    reader: Box<dyn Reader>,
    progress: Progress,
    documents: u64,
    done: bool,
}

#[derive(Debug)]
enum Body {
    /// Only white space was received so far.
    Unknown,
    /// An event stream.
    Events(SseParser),
    /// A single JSON document, from a server that does not stream or reports an error.
    Json(Vec<u8>),
}

impl Decoder {
    pub(super) fn new(source: Source, status: u16, reader: Box<dyn Reader>) -> Self {
        Self {
            source,
            status,
            body: Body::Unknown,
            reader,
            progress: Progress::default(),
            documents: 0,
            done: false,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns `true` once the final event was returned.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Decodes a chunk of the body.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        let mut events = Vec::new();
        match &mut self.body {
            Body::Unknown => match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{') => self.body = Body::Json(piece.to_vec()),
                Some(b'<') => {
                    return Err(self
                        .source
                        .malformed("expected an event stream, found a web page"));
                }
                Some(_) => {
                    self.body = Body::Events(SseParser::new(EVENT_BYTES_MAX));
                    return self.push(piece, out);
                }
            },
            Body::Json(bytes) => bytes.extend_from_slice(piece),
            Body::Events(parser) => parser
                .push(piece, &mut events)
                .map_err(|_| self.source.malformed("one event is larger than 1 MiB"))?,
        }
        for event in events {
            if self.done {
                break;
            }
            self.event(&event.data, out)?;
        }
        Ok(())
    }

    /// Handles the end of the body, with the transport error if there was one.
    pub(super) fn cut(
        &mut self,
        error: Option<EgressError>,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        if let (Body::Json(bytes), None) = (&mut self.body, &error) {
            let bytes = std::mem::take(bytes);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.document(&text, out)?;
        }
        match (self.progress.finish, error) {
            (Some(_), _) => {
                self.end(out);
                Ok(())
            }
            (None, Some(source)) if self.documents == 0 => {
                Err(ModelError::Transport { provider: self.source.provider().to_owned(), source })
            }
            (None, Some(error)) => Err(self.truncated(error.to_string())),
            (None, None) => Err(self.truncated("the stream ended without a finish reason".into())),
        }
    }

    fn event(&mut self, data: &str, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        match data.trim() {
            "" => Ok(()),
            "[DONE]" if self.progress.finish.is_some() => {
                self.end(out);
                Ok(())
            }
            "[DONE]" => Err(self.truncated("the stream is done without a finish reason".into())),
            data => self.document(data, out),
        }
    }

    fn document(&mut self, data: &str, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        // Accounts have numbers of any size, and are no reason to refuse an answer. Arguments of calls
        // keep their digits, and their schema says if a text will do.
        let document: Value = json::read_liberal(data.as_bytes()).map_err(|error| {
            let shown: String = data.chars().take(80).collect();
            // The mark of a cut, so that a secret is found that is cut with the text.
            let mark = if shown.len() < data.len() { "…" } else { "" };
            let shown = self.source.quote(&shown);
            let problem = format!("a chunk is not JSON: {error}; it begins with `{shown}{mark}`");
            self.source.malformed(problem)
        })?;
        let read = self.reader.read(document, &mut self.progress);
        // An error object is no part of the answer.
        self.documents += u64::from(!matches!(read, Err(Flaw::Refused(_))));
        out.append(&mut self.progress.events);
        read.map_err(|flaw| self.error(flaw))?;
        if self.progress.is_over && self.progress.finish.is_some() {
            self.end(out);
        }
        Ok(())
    }

    fn error(&self, flaw: Flaw) -> ModelError {
        match flaw {
            Flaw::Malformed(reason) => self.source.malformed(self.source.quote(&reason)),
            Flaw::Truncated(reason) => self.truncated(self.source.quote(&reason)),
            Flaw::Refused(object) => failure::from_object(&self.source, self.status, &object),
        }
    }

    fn end(&mut self, out: &mut VecDeque<ChatEvent>) {
        let Some(reason) = self.progress.finish.filter(|_| !self.done) else { return };
        out.extend(self.progress.tokens.map(ChatEvent::Usage));
        out.extend(self.progress.cost_micro_usd.map(ChatEvent::Cost));
        out.push_back(ChatEvent::Finish { reason, provider_call_id: self.progress.id.take() });
        self.done = true;
    }

    fn truncated(&self, reason: String) -> ModelError {
        let provider = self.source.provider().to_owned();
        ModelError::Truncated { provider, events: self.documents, reason }
    }
}

/// Reads a document in its expected structure.
pub(super) fn structure<T: DeserializeOwned>(document: Value) -> Result<T, Flaw> {
    if !document.is_object() {
        return Err(Flaw::Malformed("a chunk is no JSON object".to_owned()));
    }
    serde_json::from_value(document)
        .map_err(|error| Flaw::Malformed(format!("a chunk has an unexpected structure: {error}")))
}

/// The flaw of an end for a reason that no rule knows.
pub(super) fn unknown_reason(reason: &str) -> Flaw {
    Flaw::Malformed(format!("unknown finish reason `{reason}`"))
}

/// Treats `null` as a missing member.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Treats a member that cannot be read as missing. For members that an answer can be used without.
pub(super) fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let member = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(member).unwrap_or_default())
}
