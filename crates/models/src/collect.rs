//! Assembles the events of an attempt into a message.

mod tool_name;

use self::tool_name::resolve_name;
use crate::call::ChatResponse;
use crate::chat::{ChatEvent, ChatRequest, FinishReason, ModelInfo};
use crate::protocol::{UNNAMED, is_paused_turn};
use crate::{ModelError, RefusalKind};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::collections::HashSet;
use weftwork_types::event::ToolCallPart;
use weftwork_types::json;
use weftwork_types::message::{Message, Part, Role, ToolCall};
use weftwork_types::port::CallKey;
use weftwork_types::usage::Tokens;
use weftwork_types::{MessageId, ToolCallId};

/// Maximum nesting of arguments. Records of a run add levels of their own, and a JSON text is read up to
/// 128 levels.
const ARGS_DEPTH_MAX: usize = 64;

/// The content of an attempt received so far.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    parts: Vec<Piece>,
    calls: BTreeMap<usize, CallPieces>,
    tokens: Option<Tokens>,
    cost_micro_usd: Option<u64>,
    finish: Option<(FinishReason, Option<String>)>,
    /// Ids of the calls, once one is needed.
    ids: Option<CallIds>,
    events: u64,
    bytes: u64,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Reasoning(String, Option<String>),
    Call(usize),
}

#[derive(Debug, Default)]
struct CallPieces {
    id: Option<String>,
    name: String,
    args: String,
    /// Id of the call in the message, once a part of it was emitted.
    made: Option<ToolCallId>,
}

impl Collector {
    /// Returns the call with this index as partial output refers to it; `None` before its name is
    /// received.
    pub(crate) fn call(
        &mut self,
        index: usize,
        key: CallKey,
        request: &ChatRequest,
    ) -> Option<ToolCallPart> {
        let call = self.calls.get_mut(&index).filter(|call| !call.name.is_empty())?;
        let tool_name = resolve_name(&call.name, request);
        let ids = self.ids.get_or_insert_with(|| CallIds::new(key, request));
        let made = call.made.get_or_insert_with(|| ids.of(index, call.id.clone()));
        Some(ToolCallPart { tool_call_id: made.clone(), tool_name, index })
    }

    pub(crate) fn push(&mut self, event: ChatEvent) {
        self.events += u64::from(!matches!(event, ChatEvent::Usage(_) | ChatEvent::Cost(_)));
        match event {
            ChatEvent::TextDelta(text) => {
                self.bytes += text.len() as u64;
                match self.parts.last_mut() {
                    Some(Piece::Text(so_far)) => so_far.push_str(&text),
                    _ => self.parts.push(Piece::Text(text)),
                }
            }
            ChatEvent::ReasoningDelta(text) => {
                self.bytes += text.len() as u64;
                match self.parts.last_mut() {
                    Some(Piece::Reasoning(so_far, None)) => so_far.push_str(&text),
                    _ => self.parts.push(Piece::Reasoning(text, None)),
                }
            }
            ChatEvent::ToolCallDelta { index, id, name, args } => {
                self.bytes += args.len() as u64;
                let call = self.calls.entry(index).or_insert_with(|| {
                    self.parts.push(Piece::Call(index));
                    CallPieces::default()
                });
                call.id = call.id.take().or(id);
                call.name.push_str(name.as_deref().unwrap_or_default());
                call.args.push_str(&args);
            }
            ChatEvent::ReasoningSignature(signature) => match self.parts.last_mut() {
                Some(Piece::Reasoning(_, unsigned @ None)) => *unsigned = Some(signature),
                _ => self.parts.push(Piece::Reasoning(String::new(), Some(signature))),
            },
            ChatEvent::Usage(tokens) => self.tokens = Some(tokens),
            ChatEvent::Cost(micro_usd) => self.cost_micro_usd = Some(micro_usd),
            ChatEvent::Finish { reason, provider_call_id } => {
                self.finish = Some((reason, provider_call_id));
            }
        }
    }

    /// Returns `true` once the final event has been received.
    pub(crate) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    /// Number of events of the answer; accounts are not counted.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.tokens
    }

    /// The cost by the provider's own account, in millionths of a US dollar.
    pub(crate) fn cost_micro_usd(&self) -> Option<u64> {
        self.cost_micro_usd
    }

    pub(crate) fn provider_call_id(&self) -> Option<String> {
        self.finish.as_ref().and_then(|(_, id)| id.clone())
    }

    /// The size of the received text and arguments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the message of a complete answer.
    ///
    /// A text truncated by the token limit is an answer whose `finish` says so. A tool call
    /// truncated by it is an error: its arguments must not be used.
    pub(crate) fn response(
        self,
        info: &ModelInfo,
        key: CallKey,
        id: MessageId,
        request: &ChatRequest,
        tokens: Tokens,
    ) -> Result<ChatResponse, ModelError> {
        let provider = || info.provider.clone();
        let Some((reason, provider_call_id)) = self.finish else {
            let reason = "the stream ended before its last event".to_owned();
            return Err(ModelError::Truncated {
                provider: provider(),
                events: self.events,
                reason,
            });
        };
        let is_context = reason == FinishReason::ContextLength;
        let reason = if is_context { FinishReason::Length } else { reason };
        let too_long = || ModelError::BadRequest {
            provider: provider(),
            status: 200,
            message: "the answer reached the end of the model's context window".to_owned(),
            kind: RefusalKind::ContextLength,
        };
        let mut ids = self.ids.unwrap_or_else(|| CallIds::new(key, request));
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut calls = self.calls;
        for piece in self.parts {
            parts.push(match piece {
                Piece::Text(text) => Part::Text { text },
                Piece::Reasoning(text, signature) => Part::Reasoning { text, signature },
                Piece::Call(index) => {
                    let mut call = calls.remove(&index).unwrap_or_default();
                    if call.name.is_empty() {
                        // The model is told that there is no such tool.
                        UNNAMED.clone_into(&mut call.name);
                    }
                    let id = call.made.unwrap_or_else(|| ids.of(index, call.id));
                    let name = resolve_name(&call.name, request);
                    let Some(args) = read_args(call.args, reason) else {
                        return Err(match is_context {
                            true => too_long(),
                            false => ModelError::CutByLimit { provider: provider(), tool: name },
                        });
                    };
                    Part::ToolCall(ToolCall { id, name, args, shown: None })
                }
            });
        }
        let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        if has_calls {
            // The results of the calls continue the answer.
            parts.retain(|part| !is_paused_turn(part));
        }
        let mut message = Message::new(id, Role::Assistant, parts);
        // No call of an answer that was withheld is made.
        if reason == FinishReason::ContentFilter && (has_calls || message.joined_text().is_empty())
        {
            return Err(ModelError::BadRequest {
                provider: provider(),
                status: 200,
                message: "its content filter withheld the answer".to_owned(),
                kind: RefusalKind::ContentFilter,
            });
        }
        if !has_calls && is_empty(&message, reason) {
            if is_context {
                return Err(too_long());
            }
            return Err(ModelError::Empty {
                provider: provider(),
                finish: reason,
                tokens,
                limit: request.max_tokens,
            });
        }
        if reason == FinishReason::Paused && !has_calls && !message.parts.iter().any(is_paused_turn)
        {
            return Err(ModelError::Paused { provider: provider(), continued: 0 });
        }
        let finish = match (reason, has_calls) {
            // Some servers report "stop" after a tool call.
            (FinishReason::Stop | FinishReason::Paused, true) => FinishReason::ToolCalls,
            (FinishReason::ToolCalls, false) if message.joined_text().is_empty() => {
                // Another attempt may have them.
                let reason = "its finish reason is tool calls, but it contains none".to_owned();
                return Err(ModelError::Truncated {
                    provider: provider(),
                    events: self.events,
                    reason,
                });
            }
            (FinishReason::ToolCalls, false) => FinishReason::Stop,
            (reason, _) => reason,
        };
        mark_cut(&mut message, finish);
        Ok(ChatResponse { message, finish, tokens, model: info.id(), provider_call_id })
    }
}

/// Notes in a message that its text was cut, under the name that OpenAI gives to the reason.
fn mark_cut(message: &mut Message, finish: FinishReason) {
    let word = match finish {
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        _ => return,
    };
    let extra = message.extra.get_or_insert_default();
    extra.response_metadata.insert("finish_reason".to_owned(), word.into());
}

/// Returns `true` if an answer without calls says nothing. Reasoning alone is no answer.
fn is_empty(message: &Message, reason: FinishReason) -> bool {
    let is_said = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        _ => false,
    };
    matches!(reason, FinishReason::Stop | FinishReason::Length)
        && !message.parts.iter().any(is_said)
}

/// Parses arguments as JSON. Text that is not JSON, or has integers that would be rounded, stays a
/// string, which no tool's schema accepts. So does JSON that is nested more deeply than a record of a
/// run can have.
/// Returns `None` if the token limit truncated it.
fn read_args(text: String, reason: FinishReason) -> Option<Value> {
    let is_cut = reason == FinishReason::Length;
    if text.trim().is_empty() {
        // Many servers send an empty text for a call without arguments.
        return (!is_cut).then(|| Value::Object(Map::new()));
    }
    let is_deep = |text: &str| json::without_depth(text.as_bytes(), ARGS_DEPTH_MAX).is_some();
    if is_deep(&text) {
        return Some(Value::String(text));
    }
    match json::read(text.as_bytes()) {
        Ok(Value::Null) => Some(Value::Object(Map::new())),
        // A text of an object, in JSON once more.
        Ok(Value::String(inner)) => match json::read(inner.as_bytes()) {
            Ok(args @ Value::Object(_)) if !is_deep(&inner) => Some(args),
            _ => Some(Value::String(inner)),
        },
        Ok(args) => Some(args),
        Err(_) if is_cut => None,
        Err(_) => Some(repeated(&text).unwrap_or(Value::String(text))),
    }
}

/// Returns the object of arguments that were sent several times, with empty ones between them, or
/// within a fence of Markdown.
fn repeated(text: &str) -> Option<Value> {
    let fenced = text.trim().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let text = fenced.map_or(text, |rest| rest.strip_prefix("json").unwrap_or(rest));
    let mut found: Option<Value> = None;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut from = 0;
    while let Some(value) = values.next() {
        let IgnoredAny = value.ok()?;
        let value = json::read(&text.as_bytes()[from..values.byte_offset()]).ok()?;
        from = values.byte_offset();
        if value.is_null() {
            continue;
        }
        match (value.as_object()?.is_empty(), &found) {
            (true, Some(_)) => {}
            (_, Some(known)) if *known != value && known.as_object()?.is_empty() => {
                found = Some(value);
            }
            (_, Some(known)) if *known != value => return None,
            _ => found = Some(value),
        }
    }
    found
}

/// Derives the message id from the call key, so that it is the same after a crash.
pub(crate) fn message_id(key: CallKey) -> MessageId {
    #[expect(clippy::expect_used, reason = "hex digits are valid in ids")]
    MessageId::new(&key.0.to_string()[..32]).expect("32 hex digits are a message id")
}

/// Ids of tool calls: the model's own id if it is valid and new in the conversation, otherwise an
/// id derived from the call key and the index.
#[derive(Debug)]
struct CallIds {
    key: String,
    known: HashSet<String>,
    given: HashSet<String>,
}

impl CallIds {
    fn new(key: CallKey, request: &ChatRequest) -> Self {
        let calls = request.messages.iter().flat_map(|message| message.tool_calls());
        let known = calls.map(|call| call.id.as_str().to_owned()).collect();
        Self { key: key.0.to_string()[..24].to_owned(), known, given: HashSet::new() }
    }

    fn of(&mut self, index: usize, id: Option<String>) -> ToolCallId {
        let own = id.filter(|id| !self.known.contains(id.as_str()) && !self.given.contains(id));
        let own = own.and_then(|id| ToolCallId::new(id).ok());
        let made = own.unwrap_or_else(|| {
            let text = format!("call_{}_{index}", self.key);
            #[expect(clippy::expect_used, reason = "hex digits and an index are valid in ids")]
            ToolCallId::new(text).expect("hex digits and an index are a tool call id")
        });
        self.given.insert(made.as_str().to_owned());
        made
    }
}

#[cfg(test)]
mod tests;
