//! Messages as events of content blocks: each block starts, grows, and is finished before the next
//! one starts.
//!
//! Partial text opens a message. The message that its node returns finishes it, under the same id,
//! and decides the content: a client that missed partial text gets all of it with the end of the
//! block.

use super::blocks;
use super::number::MESSAGE_FINISH;
use crate::translate::partial::{Missing, PartialMessages};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_types::ToolCallId;
use weftwork_types::event::{
    AiEvent, Delta, MessageText, OpenText, PieceAt, PieceKind, TextSource, ToolCallPart, Transcript,
};
use weftwork_types::message::{Message, Part, Role};

/// Maximum size of the arguments of a call that is sent while they grow, in bytes. Larger arguments are
/// sent when the call is complete, because each part repeats the parts before it.
const ARGS_BYTES_MAX: usize = 16 << 10;

/// An event of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MessageEvent {
    /// Namespace of the graph in the form of the log.
    pub(crate) ns: String,
    /// Node of a message that overlaps with another one of its graph.
    pub(crate) node: Option<String>,
    /// Name of the event within the run; `None` for partial text, which its position names.
    pub(crate) key: Option<String>,
    /// Order among the events of the message: 0 for its start, two for each block.
    pub(crate) order: u64,
    pub(crate) data: Value,
}

/// A block that is not finished.
#[derive(Debug)]
struct OpenBlock {
    index: usize,
    kind: PieceKind,
    content: String,
}

/// A message that is not finished.
#[derive(Debug, Default)]
struct Open {
    id: String,
    ns: String,
    node: String,
    /// `true` if another message of its graph was open when it began.
    overlaps: bool,
    block: Option<OpenBlock>,
    /// Number of blocks so far.
    blocks: usize,
    /// Text and reasoning of the finished blocks.
    finished: MessageText,
    /// Calls whose blocks were started.
    calls: Vec<ToolCallId>,
    /// Bytes of the text that the client has from an earlier stream.
    received: usize,
}

/// The messages of a run that are not finished.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    open: Transcript<Open>,
    /// Text that the client has of them, and of messages that it had when it left.
    texts: PartialMessages,
    /// Number of failed attempts of each node, and number of times at which the text of all unfinished
    /// messages became void. Both are counted from the log: a message that begins again has another
    /// name than before, also for a client that received nothing of the void text.
    resets: BTreeMap<String, usize>,
    ends: usize,
}

impl Messages {
    /// Sets the text that the client has from an earlier stream.
    pub(crate) fn resume(&mut self, received: PartialMessages) {
        self.texts = received;
    }

    /// Returns the text that the client has of unfinished messages, for the ids of events.
    pub(crate) fn received(&self) -> String {
        self.texts.to_string()
    }

    /// Returns the events of partial text, or of the end of the attempt that emitted some.
    pub(crate) fn follow(&mut self, event: &AiEvent, piece: Option<&PieceAt>) -> Vec<MessageEvent> {
        match event {
            AiEvent::AttemptReset(reset) => {
                let void = self.open.reset(reset);
                let reason = "the attempt failed; its text is void";
                let events = self.abandon_messages(void, "attempt_reset", reason);
                *self.resets.entry(reset.node.clone()).or_default() += 1;
                events
            }
            AiEvent::TakenOver { .. } => {
                let void = self.open.end();
                let reason = "another process goes on with the run; the text is void";
                let events = self.abandon_messages(void, "attempt_reset", reason);
                self.ends += 1;
                events
            }
            event => match (event.delta(), piece) {
                (Some(Delta { kind, text }), Some(at)) => self.grow_message(at, kind, text),
                _ => Vec::new(),
            },
        }
    }

    fn grow_message(&mut self, at: &PieceAt, kind: PieceKind, delta: &str) -> Vec<MessageEvent> {
        let Some(id) = &at.message else { return Vec::new() };
        let mut events = Vec::new();
        if self.open.text(&TextSource::of(at)).is_none() {
            let open = self.begin_message(id.as_str(), &at.ns, &at.node, "ai", &mut events);
            self.open.text_at(at).content = open;
        }
        let void = self.void_of(&at.node);
        if kind == PieceKind::Text {
            // Events that the client has are left out by their numbers.
            self.texts.add(id.as_str(), delta);
        }
        self.open.text_at(at).content.grow(kind, delta, void, &mut events);
        events
    }

    fn begin_message(
        &self,
        id: &str,
        ns: &str,
        node: &str,
        role: &str,
        events: &mut Vec<MessageEvent>,
    ) -> Open {
        let open = Open {
            id: id.to_owned(),
            ns: ns.to_owned(),
            node: node.to_owned(),
            overlaps: self.open.open_texts().any(|other| other.content.ns == ns),
            ..Open::default()
        };
        let void = self.void_of(node);
        let data = json!({"event": "message-start", "role": role, "id": id});
        events.push(open.event("start", void, 0, data));
        open
    }

    /// Returns the events that finish a message that a node returned. Results of tools are not part
    /// of this channel.
    pub(crate) fn returned(
        &mut self,
        message: &Message,
        ns: &str,
        node: &str,
    ) -> Vec<MessageEvent> {
        let role = match message.role {
            Role::Assistant => "ai",
            Role::User => "human",
            Role::System => "system",
            Role::Tool => return Vec::new(),
        };
        let mut events = Vec::new();
        let id = message.id.as_str();
        let whole = message.joined_text();
        let missing = self.texts.end(id, &whole);
        let mut open = match self.open.finish(&message.id) {
            Some(text) => text.content,
            None => self.begin_message(id, ns, node, role, &mut events),
        };
        if let (false, Missing::Rest { received }) = (events.is_empty(), missing) {
            // The log has the partial text no more, of which the client has a part.
            events.clear();
            open.received = received.len();
        }
        let void = self.void_of(node);
        open.complete(message, void, &mut events);
        let data = json!({"event": "message-finish"});
        events.push(open.event("finish", void, MESSAGE_FINISH, data));
        events
    }

    /// Ends the messages that the end of the run leaves unfinished.
    pub(crate) fn end(&mut self) -> Vec<MessageEvent> {
        let open = self.open.end();
        let events = self.abandon_messages(open, "aborted", "the run ended before the message");
        self.ends += 1;
        events
    }

    /// Returns the number of times at which a message of a node would have begun before.
    fn void_of(&self, node: &str) -> usize {
        self.ends + self.resets.get(node).copied().unwrap_or(0)
    }

    fn abandon_messages(
        &mut self,
        void: Vec<OpenText<Open>>,
        code: &str,
        reason: &str,
    ) -> Vec<MessageEvent> {
        for open in &void {
            self.texts.reset(&open.content.id);
        }
        let event = |OpenText { content: open, .. }: OpenText<Open>| {
            let data = json!({"event": "error", "message": reason, "code": code});
            open.event("error", self.void_of(&open.node), MESSAGE_FINISH, data)
        };
        void.into_iter().map(event).collect()
    }
}

impl Open {
    /// Returns an event that is named by the message.
    fn event(&self, what: &str, void: usize, order: u64, data: Value) -> MessageEvent {
        let again = if void == 0 { String::new() } else { format!("~{void}") };
        let key = Some(format!("{}{again}/{what}", self.id));
        MessageEvent { key, ..self.unnamed_event(order, data) }
    }

    fn unnamed_event(&self, order: u64, mut data: Value) -> MessageEvent {
        if self.overlaps {
            // Clients distinguish messages of one graph by these members.
            data["message_id"] = json!(self.id);
            data["run_id"] = json!(self.id);
        }
        let node = self.overlaps.then(|| self.node.clone());
        MessageEvent { ns: self.ns.clone(), node, key: None, order, data }
    }

    fn grow(&mut self, kind: PieceKind, delta: &str, void: usize, events: &mut Vec<MessageEvent>) {
        if self.block.as_ref().is_some_and(|block| block.kind != kind) {
            self.finish_block(None, void, events);
        }
        if self.block.is_none() {
            self.start_block(kind, void, events);
        }
        let Some(block) = &mut self.block else { return };
        block.content.push_str(delta);
        let change = match &block.kind {
            PieceKind::Text => json!({"type": "text-delta", "text": delta}),
            PieceKind::Reasoning => json!({"type": "reasoning-delta", "reasoning": delta}),
            PieceKind::ToolCall(_) if block.content.len() > ARGS_BYTES_MAX => return,
            PieceKind::ToolCall(_) => json!({"type": "block-delta",
                "fields": {"type": "tool_call_chunk", "args": block.content}}),
        };
        let index = block.index;
        let data = json!({"event": "content-block-delta", "index": index, "delta": change});
        events.push(self.unnamed_event(start_order(index), data));
    }

    fn start_block(&mut self, kind: PieceKind, void: usize, events: &mut Vec<MessageEvent>) {
        let content = match &kind {
            PieceKind::Text => json!({"type": "text", "text": ""}),
            PieceKind::Reasoning => json!({"type": "reasoning", "reasoning": ""}),
            PieceKind::ToolCall(call) => {
                self.calls.push(call.tool_call_id.clone());
                json!({"type": "tool_call_chunk", "id": call.tool_call_id, "name": call.tool_name,
                    "args": ""})
            }
        };
        self.block = Some(OpenBlock { index: self.blocks, kind, content: String::new() });
        self.push_block_start(content, void, events);
    }

    fn push_block_start(&mut self, content: Value, void: usize, events: &mut Vec<MessageEvent>) {
        let index = self.blocks;
        self.blocks += 1;
        let data = json!({"event": "content-block-start", "index": index, "content": content});
        events.push(self.event(&format!("{index}/start"), void, start_order(index), data));
    }

    fn push_block_finish(
        &self,
        index: usize,
        content: Value,
        void: usize,
        events: &mut Vec<MessageEvent>,
    ) {
        let data = json!({"event": "content-block-finish", "index": index, "content": content});
        let order = start_order(index) + 1;
        events.push(self.event(&format!("{index}/finish"), void, order, data));
    }

    /// Finishes the block that grows, with the call of the final message if it is one.
    fn finish_block(
        &mut self,
        last: Option<&Message>,
        void: usize,
        events: &mut Vec<MessageEvent>,
    ) {
        let Some(OpenBlock { index, kind, content }) = self.block.take() else { return };
        let part = match kind {
            PieceKind::Text => {
                self.finished.append(&kind, &content);
                json!({"type": "text", "text": content})
            }
            PieceKind::Reasoning => {
                self.finished.append(&kind, &content);
                json!({"type": "reasoning", "reasoning": content})
            }
            PieceKind::ToolCall(ToolCallPart { tool_call_id: id, tool_name: name, .. }) => {
                let known = last
                    .into_iter()
                    .flat_map(|last| &last.parts)
                    .find(|part| matches!(part, Part::ToolCall(call) if call.id == id));
                match (known, serde_json::from_str::<Value>(&content)) {
                    (Some(part), _) => blocks::block_of_part(part),
                    (None, Ok(args)) if args.is_object() => {
                        json!({"type": "tool_call", "id": id, "name": name, "args": args})
                    }
                    (None, _) => json!({"type": "invalid_tool_call", "id": id, "name": name,
                        "args": content, "error": "the arguments are not a JSON object"}),
                }
            }
        };
        self.push_block_finish(index, part, void, events);
    }

    /// Completes the content with the parts of the final message that were not sent.
    fn complete(&mut self, message: &Message, void: usize, events: &mut Vec<MessageEvent>) {
        self.send_rest(message, void, events);
        self.finish_block(Some(message), void, events);
        let mut text = self.finished.of_kind(&PieceKind::Text).to_owned();
        let mut reasoning = self.finished.of_kind(&PieceKind::Reasoning).to_owned();
        for part in &message.parts {
            let is_sent = match part {
                Part::Text { text: whole } => consume_prefix(&mut text, whole),
                Part::Reasoning { text: whole, .. } => consume_prefix(&mut reasoning, whole),
                Part::ToolCall(call) => self.calls.contains(&call.id),
                _ => false,
            };
            if !is_sent {
                self.add(part, void, events);
            }
        }
    }

    /// Sends the rest of the text that grows, if the final message continues it.
    fn send_rest(&mut self, message: &Message, void: usize, events: &mut Vec<MessageEvent>) {
        let Some(block) = self.block.as_ref().filter(|block| block.kind == PieceKind::Text) else {
            return;
        };
        let whole = message.joined_text();
        let finished = self.finished.of_kind(&PieceKind::Text);
        let known = format!("{finished}{}", block.content);
        let rest = whole.strip_prefix(known.as_str()).unwrap_or_default().to_owned();
        if !rest.is_empty() {
            self.grow(PieceKind::Text, &rest, void, events);
        }
    }

    /// Adds a part as a block of its own, which starts with all its text. A client that has the beginning
    /// of the text gets the rest.
    fn add(&mut self, part: &Part, void: usize, events: &mut Vec<MessageEvent>) {
        let whole = blocks::block_of_part(part);
        match part {
            // It came before the text that the client has.
            Part::Reasoning { .. } if self.received > 0 => {
                self.blocks += 1;
                return self.push_block_finish(self.blocks - 1, whole, void, events);
            }
            Part::Text { text } if self.received > 0 => {
                self.blocks += 1;
                self.rest_of_received(text, void, events);
                return self.push_block_finish(self.blocks - 1, whole, void, events);
            }
            _ => {}
        }
        let begin = match part {
            Part::ToolCall(call) => json!({"type": "tool_call_chunk", "id": call.id,
                "name": call.name, "args": ""}),
            _ => whole.clone(),
        };
        let index = self.blocks;
        self.push_block_start(begin, void, events);
        self.push_block_finish(index, whole, void, events);
    }

    /// Sends the part of the text of the last block that the client does not have.
    fn rest_of_received(&mut self, text: &str, void: usize, events: &mut Vec<MessageEvent>) {
        let index = self.blocks - 1;
        let from = self.received;
        self.received = from.saturating_sub(text.len());
        let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) else { return };
        let change = json!({"type": "text-delta", "text": rest});
        let data = json!({"event": "content-block-delta", "index": index, "delta": change});
        let key = format!("{index}/rest-{from}");
        events.push(self.event(&key, void, start_order(index), data));
    }
}

/// Returns the order of the start of a block. That of its end follows.
fn start_order(index: usize) -> u64 {
    (index as u64).saturating_mul(2).saturating_add(1)
}

/// Removes a text from the beginning of the sent text; `false` if it was not sent.
fn consume_prefix(sent: &mut String, whole: &str) -> bool {
    match sent.strip_prefix(whole) {
        Some(rest) if !whole.is_empty() => {
            *sent = rest.to_owned();
            true
        }
        _ => whole.is_empty(),
    }
}
