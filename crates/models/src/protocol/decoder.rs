//! Decodes the bytes of a response into events: framing, limits and the end of an answer.

use super::end::End;
use super::failure::{self, Source};
use super::signature::Format;
use super::surrogates::{OpenHalves, join_all, mark_halves};
use crate::ModelError;
use crate::chat::{ChatEvent, FinishReason};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use weftwork_types::json::read_liberal;
use weftwork_types::port::EgressError;
use weftwork_types::sse::{SseEvent, SseParser};
use weftwork_types::usage::Tokens;

/// Maximum size of an event, in bytes.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// Byte order mark, which some servers have at the beginning.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the JSON documents of one answer in a protocol.
pub(super) trait Reader: Debug + Send {
    /// Reads a document of the stream, or the only document of an answer that was not streamed.
    fn read(&mut self, document: Value, progress: &mut Progress) -> Result<(), Flaw>;

    /// Adds what is only known at the end of a complete answer.
    fn end(&mut self, _progress: &mut Progress) {}
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
    /// The reason for the end, if the provider named one that is known.
    pub(super) finish: Option<FinishReason>,
    /// A reason for the end that no rule knows.
    unknown_end: Option<String>,
    /// `true` once text or a part of a call was received.
    has_content: bool,
    /// The calls that have begun, by their indexes: `true` once a part of the arguments was received.
    calls: BTreeMap<usize, bool>,
    /// Name of the provider, which reads its own signatures only.
    pub(super) provider: String,
    /// Name of the model on the wire.
    pub(super) model: String,
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

    /// Adds a signature of the provider.
    pub(super) fn sign(&mut self, format: Format, issued: &str) {
        if !issued.is_empty() {
            let signature = format.signature(issued, &self.provider);
            self.events.push_back(ChatEvent::ReasoningSignature(signature));
        }
    }

    /// Marks the reasoning so far as that of the provider, without a signature.
    pub(super) fn mark(&mut self, format: Format) {
        let signature = format.signature("", &self.provider);
        self.events.push_back(ChatEvent::ReasoningSignature(signature));
    }

    /// Notes the reason for the end by its name; an empty one is none.
    pub(super) fn end(&mut self, word: &str, message: Option<&str>) -> Result<(), Flaw> {
        if word.is_empty() {
            return Ok(());
        }
        match End::of(word) {
            // A limit or a filter stays one, whatever follows.
            Some(End::Finish(reason)) => {
                let is_cut = |reason: &FinishReason| {
                    matches!(
                        reason,
                        FinishReason::Length
                            | FinishReason::ContentFilter
                            | FinishReason::ContextLength
                    )
                };
                self.finish = self.finish.filter(is_cut).or(Some(reason));
            }
            Some(End::GaveUp) => {
                let message = message.map(|message| format!(": {message}")).unwrap_or_default();
                return Err(Flaw::Truncated(format!("the provider gave up: `{word}`{message}")));
            }
            None => self.unknown_end = Some(word.to_owned()),
        }
        Ok(())
    }

    /// Takes what was received as a complete answer, if the provider said that nothing follows but
    /// gave no reason that is known. A call whose arguments did not come was cut.
    fn settle(&mut self) {
        if self.has_content && !self.is_within_call() {
            self.finish = self.finish.or(Some(FinishReason::Stop));
        }
    }

    /// Returns `true` if a call has begun whose arguments did not come.
    fn is_within_call(&self) -> bool {
        self.calls.values().any(|has_args| !has_args)
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
/// An answer is complete once the provider has sent a reason for its end, whatever follows then. If
/// the last marker or the usage is missing after that, only the exact token counts are lost. Content
/// is complete, too, if a reason that is not known or a last marker follows it. Otherwise an answer
/// without a reason is truncated.
#[derive(Debug)]
pub(super) struct Decoder {
    source: Source,
    status: u16,
    body: Body,
    reader: Box<dyn Reader>,
    progress: Progress,
    documents: u64,
    /// Halves of characters whose other half may follow.
    halves: OpenHalves,
    /// `true` once a half of a character was received alone.
    has_halves: bool,
    /// Something that is no document, which may say why there is none.
    remark: Option<String>,
    /// Counts that the caller has.
    reported: Option<Tokens>,
    /// Cost that the caller has.
    reported_cost: Option<u64>,
    /// Name of the current event, which some servers send in place of a document's type.
    event_name: String,
    done: bool,
}

#[derive(Debug)]
enum Body {
    /// Only white space was received so far, or a part of a byte order mark.
    Unknown(Vec<u8>),
    /// An event stream.
    Events(SseParser),
    /// A single JSON document, from a server that does not stream or reports an error.
    Json(Vec<u8>),
}

impl Decoder {
    pub(super) fn new(source: Source, status: u16, model: &str, reader: Box<dyn Reader>) -> Self {
        let progress = Progress {
            provider: source.provider().to_owned(),
            model: model.to_owned(),
            ..Progress::default()
        };
        Self {
            source,
            status,
            body: Body::Unknown(Vec::new()),
            reader,
            progress,
            documents: 0,
            halves: OpenHalves::default(),
            has_halves: false,
            remark: None,
            reported: None,
            reported_cost: None,
            event_name: String::new(),
            done: false,
        }
    }

    /// Sets the cost that the head of the response states; a cost in the answer goes before it.
    pub(super) fn set_cost(&mut self, cost_micro_usd: Option<u64>) {
        self.progress.cost_micro_usd = cost_micro_usd;
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
            Body::Unknown(so_far) => {
                so_far.extend_from_slice(piece);
                if so_far.len() < MARK.len() && MARK.starts_with(so_far) {
                    return Ok(());
                }
                let piece = std::mem::take(so_far);
                let piece = piece.strip_prefix(MARK).unwrap_or(&piece);
                match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                    None => return Ok(()),
                    Some(b'{' | b'[') => self.body = Body::Json(piece.to_vec()),
                    Some(b'<') => {
                        let problem = "expected an event stream, found a web page";
                        return Err(self.source.garbled(problem));
                    }
                    Some(_) => {
                        self.body = Body::Events(SseParser::new(EVENT_BYTES_MAX));
                        return self.push(piece, out);
                    }
                }
            }
            Body::Json(bytes) => bytes.extend_from_slice(piece),
            Body::Events(parser) => parser
                .push(piece, &mut events)
                .map_err(|_| self.source.malformed("one event is larger than 16 MiB"))?,
        }
        self.read_events(events, out)
    }

    /// Handles the end of the body, with the transport error if there was one.
    pub(super) fn cut(
        &mut self,
        error: Option<EgressError>,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        if error.is_none() {
            match &mut self.body {
                Body::Json(bytes) => {
                    let bytes = std::mem::take(bytes);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.read_documents(&text, out)?;
                    self.progress.settle();
                }
                Body::Events(parser) => {
                    // The last event may have no blank line after it.
                    let mut events = Vec::new();
                    parser.finish(&mut events);
                    match self.read_events(events, out) {
                        // It is not whole.
                        Err(ModelError::Malformed { .. }) => {}
                        read => read?,
                    }
                }
                Body::Unknown(_) => {}
            }
            if self.progress.unknown_end.is_some() {
                self.progress.settle();
            }
        }
        match (self.progress.finish, error) {
            // A call began after the reason for the end.
            (Some(_), Some(error)) if self.progress.is_within_call() => {
                Err(self.truncated_answer(error.to_string()))
            }
            (Some(_), _) => {
                self.end(out);
                Ok(())
            }
            (None, Some(source)) if self.documents == 0 => {
                Err(ModelError::Transport { provider: self.source.provider().to_owned(), source })
            }
            (None, Some(error)) => Err(self.truncated_answer(error.to_string())),
            (None, None) => Err(self.endless_answer("the stream ended without a finish reason")),
        }
    }

    fn read_events(
        &mut self,
        events: Vec<SseEvent>,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        for event in events {
            if self.done {
                break;
            }
            self.event_name = event.name.clone();
            match event.data.trim() {
                data if event.name == "error" && !data.starts_with('{') => {
                    return Err(self.error_of_flaw(Flaw::Refused(json!({"message": data}))));
                }
                _ => self.read_documents(&event.data, out)?,
            }
        }
        Ok(())
    }

    /// Reads the data of an event. Without blank lines between them, it has several documents, each
    /// on a line.
    fn read_documents(
        &mut self,
        data: &str,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        let is_whole = |data: &str| serde_json::from_str::<IgnoredAny>(data).is_ok();
        match data.trim() {
            data if !data.contains('\n') || is_whole(data) => self.read_event(data, out),
            data => data.lines().try_for_each(|line| match self.done {
                true => Ok(()),
                false => self.read_event(line.strip_prefix("data:").unwrap_or(line).trim(), out),
            }),
        }
    }

    fn read_event(&mut self, data: &str, out: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        let read = match data.trim_matches('"') {
            "" | "null" => Ok(()),
            "[DONE]" => {
                self.progress.settle();
                if self.progress.finish.is_none() {
                    return Err(self.endless_answer("the stream is done without a finish reason"));
                }
                self.end(out);
                Ok(())
            }
            _ if !data.starts_with(['{', '[']) => {
                self.remark = Some(data.to_owned());
                Ok(())
            }
            _ => self.read_document(data, out),
        };
        match read {
            // The answer was complete before.
            Err(_) if self.progress.finish.is_some() => {
                self.end(out);
                Ok(())
            }
            read => read,
        }
    }

    fn read_document(
        &mut self,
        data: &str,
        out: &mut VecDeque<ChatEvent>,
    ) -> Result<(), ModelError> {
        // Accounts have numbers of any size, and are no reason to refuse an answer. Arguments of calls
        // keep their digits, and their schema says if a text will do.
        let marked = mark_halves(data);
        self.has_halves |= matches!(marked, Cow::Owned(_));
        let document: Value = read_liberal(marked.as_bytes()).map_err(|error| {
            let shown: String = data.chars().take(80).collect();
            // The mark of a cut, so that a secret is found that is cut with the text.
            let mark = if shown.len() < data.len() { "…" } else { "" };
            let shown = self.source.quote(&shown);
            let problem = format!("a chunk is not JSON: {error}; it begins with `{shown}{mark}`");
            self.source.garbled(problem)
        })?;
        let documents = match document {
            Value::Array(documents) => documents,
            document => vec![document],
        };
        for mut document in documents {
            let members = document.as_object_mut();
            if let Some(members) = members.filter(|_| !self.event_name.is_empty()) {
                members.entry("type").or_insert_with(|| self.event_name.as_str().into());
            }
            let read = self.reader.read(document, &mut self.progress);
            // An error object is no part of the answer.
            self.documents += u64::from(!matches!(read, Err(Flaw::Refused(_))));
            if self
                .progress
                .events
                .iter()
                .filter_map(ChatEvent::args)
                .any(|call| call.1.contains("null"))
                && serde_json::from_str::<IgnoredAny>(data).is_err()
            {
                self.progress.events.iter_mut().for_each(refuse_null);
            }
            let is_content = |event: &ChatEvent| {
                !matches!(event, ChatEvent::ReasoningDelta(_) | ChatEvent::ReasoningSignature(_))
            };
            self.progress.has_content |= self.progress.events.iter().any(is_content);
            for (index, args) in self.progress.events.iter().filter_map(ChatEvent::args) {
                *self.progress.calls.entry(index).or_default() |= !args.is_empty();
            }
            self.join_halves();
            out.append(&mut self.progress.events);
            self.report_counts(out);
            read.map_err(|flaw| self.error_of_flaw(flaw))?;
        }
        if self.progress.is_over {
            self.progress.settle();
            self.end(out);
        }
        Ok(())
    }

    fn join_halves(&mut self) {
        if self.has_halves {
            self.halves.join(&mut self.progress.events);
        }
    }

    /// The error for an answer without a reason for its end.
    fn endless_answer(&self, what: &str) -> ModelError {
        let Progress { unknown_end, .. } = &self.progress;
        let reason = match (unknown_end, &self.remark) {
            (Some(word), _) => format!("it has no content; its finish reason is `{word}`"),
            (None, Some(remark)) => format!("{what}; the provider said: {remark}"),
            (None, None) => what.to_owned(),
        };
        self.truncated_answer(self.source.quote(&reason))
    }

    fn error_of_flaw(&self, flaw: Flaw) -> ModelError {
        match flaw {
            Flaw::Malformed(reason) => self.source.malformed(self.source.quote(&reason)),
            Flaw::Truncated(reason) => self.truncated_answer(self.source.quote(&reason)),
            Flaw::Refused(object) if self.has_halves => {
                let object = serde_json::from_str(&join_all(&object.to_string())).unwrap_or(object);
                failure::from_object(&self.source, self.status, &object)
            }
            Flaw::Refused(object) => failure::from_object(&self.source, self.status, &object),
        }
    }

    fn end(&mut self, out: &mut VecDeque<ChatEvent>) {
        let Some(reason) = self.progress.finish.filter(|_| !self.done) else { return };
        self.reader.end(&mut self.progress);
        self.join_halves();
        self.progress.events.extend(self.halves.end());
        out.append(&mut self.progress.events);
        self.report_counts(out);
        out.push_back(ChatEvent::Finish { reason, provider_call_id: self.progress.id.take() });
        self.done = true;
    }

    /// Adds the counts and the cost that are new: an answer that is cut later was paid for too.
    fn report_counts(&mut self, out: &mut VecDeque<ChatEvent>) {
        let Progress { tokens, cost_micro_usd, .. } = self.progress;
        if tokens != self.reported {
            out.extend(tokens.map(ChatEvent::Usage));
        }
        if cost_micro_usd != self.reported_cost {
            out.extend(cost_micro_usd.map(ChatEvent::Cost));
        }
        self.reported = tokens;
        self.reported_cost = cost_micro_usd;
    }

    fn truncated_answer(&self, reason: String) -> ModelError {
        let provider = self.source.provider().to_owned();
        ModelError::Truncated { provider, events: self.documents, reason }
    }
}

/// Leaves arguments as they came that have a null which may have been no number: a tool may accept a
/// null, and none accepts a text that is no JSON.
fn refuse_null(event: &mut ChatEvent) {
    if let ChatEvent::ToolCallDelta { args, .. } = event {
        *args = args.replace("null", "NaN");
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
