//! Texts of a message: partial text as nodes emit it, and the messages that complete it.

use super::{Block, ChatMessage, LastText};
use crate::chat::calls::{CallEnd, Named, Origin};
use crate::chat::cut::{PART_BYTES_MAX, split_text};
use crate::chat::part::FinishReason;
use crate::chat::part::{ChatPart, TextKind};
use crate::chat::speech::Held;
use serde_json::json;
use weftwork_types::event::{AttemptReset, PieceAt, PieceKind, TextSource};
use weftwork_types::message::{Media, Message, Part, Role};

/// Text between two messages that no other part separates.
const PARAGRAPH: &str = "\n\n";
/// Text between a text that is void and the next one. No format has a part that all its readers
/// understand and that takes text back, so that the void text stays in clients that do not read the
/// fact `retry`, which has the positions of void texts among the texts of the response.
const RULE: &str = "\n\n---\n\n";

impl ChatMessage {
    pub(super) fn end_texts(&mut self) {
        self.end_speakers();
        self.close_block();
    }

    /// Emits all text that waits.
    fn end_speakers(&mut self) {
        self.speech.end();
        self.speak_held();
        while self.speech.has_held() {
            self.speech.end();
            self.speak_held();
        }
    }

    pub(super) fn piece(&mut self, at: &PieceAt, kind: PieceKind, text: &str) {
        if at.message.as_ref().is_some_and(|id| self.speech.is_final(id)) || text.is_empty() {
            return;
        }
        if self.speech.admits(&TextSource::of(at), Some(at)) {
            self.speak(at, &kind, text);
        } else {
            self.speech.hold(Held::Piece { at: at.clone(), kind, text: text.to_owned() });
        }
    }

    /// Emits the waiting text of each message whose turn it is, unless another message is being emitted.
    pub(super) fn speak_held(&mut self) {
        while let Some(held) = self.speech.next_held() {
            match held {
                Held::Piece { at, kind, text } => self.speak(&at, &kind, &text),
                Held::Final(message) => self.complete_message(&message),
            }
        }
    }

    fn speak(&mut self, at: &PieceAt, kind: &PieceKind, text: &str) {
        let who = &TextSource::of(at);
        self.begin_step_of(who);
        self.speech.add(at, kind, text);
        match kind {
            PieceKind::Text => self.emit_text(who, TextKind::Text, text),
            PieceKind::Reasoning => self.emit_text(who, TextKind::Reasoning, text),
            PieceKind::ToolCall(call) => {
                self.close_block();
                self.last_text = None;
                let origin = Origin::model(who, Some(&at.ns));
                self.calls.delta(call, text, origin, &mut self.parts);
            }
        }
    }

    fn emit_text(&mut self, who: &TextSource, kind: TextKind, text: &str) {
        if self.block.as_ref().is_none_or(|block| block.kind != kind || block.by != *who) {
            self.close_block();
            self.blocks += 1;
            let id = format!("{}-{}", self.run.run, self.blocks);
            self.parts.push(ChatPart::TextStart { kind, id: id.clone() });
            self.texts_of.push((who.clone(), self.texts));
            self.texts += 1;
            let last = self.last_text.as_ref().filter(|_| kind == TextKind::Text);
            if let Some(last) = last {
                let separator = if last.is_void { RULE } else { PARAGRAPH };
                let delta = separator.to_owned();
                self.parts.push(ChatPart::TextDelta { kind, id: id.clone(), delta });
            }
            self.block = Some(Block { kind, id, by: who.clone() });
        }
        let last = || LastText { by: who.clone(), is_void: false };
        self.last_text = (kind == TextKind::Text).then(last);
        let Some(Block { id, .. }) = &self.block else { return };
        let pieces = split_text(text).map(str::to_owned);
        self.parts.extend(pieces.map(|delta| ChatPart::TextDelta { kind, id: id.clone(), delta }));
    }

    pub(super) fn close_block(&mut self) {
        if let Some(Block { kind, id, .. }) = self.block.take() {
            self.parts.push(ChatPart::TextEnd { kind, id });
        }
    }

    pub(super) fn reset(&mut self, reset: &AttemptReset) {
        let void = self.speech.reset(reset);
        // Text of another message that is being emitted stays one block.
        let is_beside = void.is_empty() && self.block.is_some();
        let mut texts = Vec::new();
        let mut calls = Vec::new();
        for who in void {
            self.close_block();
            calls.extend(self.calls.reset(&who, &mut self.parts));
            texts.extend(self.void_texts(&who));
            if let Some(step) = self.step.as_mut().filter(|step| step.by.as_ref() == Some(&who)) {
                step.by = None;
            }
        }
        let AttemptReset { node, ns, message, .. } = reset;
        let void = json!({"texts": texts, "calls": calls});
        let fact = json!({"node": node, "ns": ns, "message": message, "void": void});
        self.add_fact("retry", fact, !is_beside);
        self.speak_held();
    }

    /// Makes the texts of a message void, and returns their positions in the response.
    fn void_texts(&mut self, who: &TextSource) -> Vec<usize> {
        if let Some(last) = self.last_text.as_mut().filter(|last| last.by == *who) {
            last.is_void = true;
        }
        let void = self.texts_of.extract_if(.., |(by, _)| by == who);
        void.map(|(_, position)| position).collect()
    }

    pub(super) fn message(&mut self, message: &Message) {
        match message.role {
            Role::Assistant => {
                if self.speech.is_final(&message.id) {
                    return;
                }
                self.cut = reason_of_cut(message);
                if self.speech.admits(&TextSource::Message(message.id.clone()), None) {
                    self.complete_message(message);
                    self.speak_held();
                } else {
                    self.speech.hold(Held::Final(Box::new(message.clone())));
                }
            }
            // Results of nodes that call tools by themselves.
            Role::Tool => {
                for result in message.tool_results() {
                    let value = result.value.clone();
                    let end = CallEnd { value, is_error: result.is_error, at: None };
                    self.result(result.tool_call_id.as_str(), None, end);
                }
            }
            Role::System | Role::User => {}
        }
    }

    /// Adds the parts of stopped texts that their pieces did not have.
    pub(super) fn speak_stopped(&mut self) {
        self.end_speakers();
        for (at, text) in std::mem::take(&mut self.stopped) {
            let spoken = self.speech.text(&TextSource::of(&at));
            if let Some(rest) = text.strip_prefix(spoken) {
                self.piece(&at, PieceKind::Text, rest);
                self.end_speakers();
            }
        }
    }

    /// Adds a message of a member of a team that waits for a person: the log has none of them.
    pub(crate) fn work(&mut self, ns: &str, message: &Message) {
        if message.role == Role::Assistant && !self.speech.is_final(&message.id) {
            self.end_texts();
            self.complete_in(Some(ns), message);
        }
    }

    /// Adds the parts of a final message that its pieces did not have.
    fn complete_message(&mut self, message: &Message) {
        self.complete_in(None, message);
    }

    fn complete_in(&mut self, ns: Option<&str>, message: &Message) {
        let who = TextSource::Message(message.id.clone());
        let has_parts = message.parts.iter().any(|part| !matches!(part, Part::ToolResult(_)));
        if has_parts {
            self.begin_step_of(&who);
        }
        let spoken = self.speech.finish(&message.id);
        let ns = ns.or(spoken.as_ref().map(|spoken| spoken.at.ns.as_str()));
        let of_kind = |kind| spoken.as_ref().map_or("", |spoken| spoken.content.of_kind(&kind));
        let spoken_reasoning = of_kind(PieceKind::Reasoning);
        let spoken_text = of_kind(PieceKind::Text);
        let reasoning: String = message.parts.iter().filter_map(reasoning_text).collect();
        let text = message.joined_text();
        match (reasoning.strip_prefix(spoken_reasoning), text.strip_prefix(spoken_text)) {
            (Some(reasoning), Some(text)) => self.speak_whole(&who, reasoning, text),
            _ => {
                // The pieces were of an attempt of which the log has no reset.
                let void = json!({"texts": self.void_texts(&who), "calls": []});
                self.add_fact("retry", json!({"message": message.id, "void": void}), true);
                self.speak_whole(&who, &reasoning, &text);
            }
        }
        self.close_block();
        for part in &message.parts {
            match part {
                Part::Media(media) => self.emit_file(media),
                Part::ToolCall(call) => {
                    let named = Named { id: call.id.as_str(), name: &call.name, args: &call.args };
                    self.add_call(Origin::model(&who, ns), named);
                }
                _ => {}
            }
        }
    }

    fn speak_whole(&mut self, who: &TextSource, reasoning: &str, text: &str) {
        if !reasoning.is_empty() {
            self.emit_text(who, TextKind::Reasoning, reasoning);
        }
        if !text.is_empty() {
            self.emit_text(who, TextKind::Text, text);
        }
    }

    fn emit_file(&mut self, media: &Media) {
        let Media { media_type, url } = media;
        self.last_text = None;
        // Pages show files by their address, and follow no other kinds of addresses.
        let is_safe = ["https:", "http:", "data:"].iter().any(|kind| url.starts_with(kind));
        if is_safe && url.len() <= PART_BYTES_MAX {
            self.parts.push(ChatPart::File { media_type: media_type.clone(), url: url.clone() });
        } else {
            let data = json!({"mediaType": media_type, "bytes": url.len(), "omitted": true});
            self.add_fact("file", data, true);
        }
    }
}

fn reasoning_text(part: &Part) -> Option<&str> {
    match part {
        Part::Reasoning { text, .. } => Some(text),
        _ => None,
    }
}

/// Returns the reason for which the provider cut the text of a message; `None` for a whole one.
fn reason_of_cut(message: &Message) -> Option<FinishReason> {
    let metadata = &message.extra.as_ref()?.response_metadata;
    match metadata.get("finish_reason")?.as_str()? {
        "length" => Some(FinishReason::Length),
        "content_filter" => Some(FinishReason::ContentFilter),
        _ => None,
    }
}
