//! Texts of a message: partial text as nodes emit it, and the messages that complete it.

use super::{Block, ChatMessage, LastText};
use crate::chat::calls::{CallEnd, Named, Origin};
use crate::chat::cut::{PART_BYTES_MAX, split_text};
use crate::chat::part::{ChatPart, TextKind};
use crate::chat::speech::{Held, Speaker, speaker_of};
use serde_json::json;
use weftwork_types::event::{AttemptReset, PieceAt, PieceKind};
use weftwork_types::message::{Media, Message, Part, Role};

/// Text between two messages that no other part separates.
const PARAGRAPH: &str = "\n\n";
/// Text between a text that is void and the next one. No format has a part that all its readers
/// understand and that takes text back, so that the void text stays until the page is loaded again.
const RULE: &str = "\n\n---\n\n";

impl ChatMessage {
    pub(super) fn end_texts(&mut self) {
        self.speech.end();
        self.speak_held();
        while self.speech.has_held() {
            self.speech.end();
            self.speak_held();
        }
        self.close_block();
    }

    pub(super) fn piece(&mut self, at: &PieceAt, kind: &PieceKind, text: &str) {
        let who = speaker_of(at);
        if self.speech.is_final(&who) || text.is_empty() {
            return;
        }
        if self.speech.admits(&who, Some(at)) {
            self.speak(&who, Some(at), kind, text);
        } else {
            self.speech.hold(Held::Piece {
                at: at.clone(),
                kind: kind.clone(),
                text: text.to_owned(),
            });
        }
    }

    /// Emits the waiting text of each message whose turn it is, unless another message is being emitted.
    pub(super) fn speak_held(&mut self) {
        while let Some(held) = self.speech.next_held() {
            match held {
                Held::Piece { at, kind, text } => {
                    self.speak(&speaker_of(&at), Some(&at), &kind, &text);
                }
                Held::Final(message) => self.complete_message(&message),
            }
        }
    }

    fn speak(&mut self, who: &Speaker, at: Option<&PieceAt>, kind: &PieceKind, text: &str) {
        self.begin_step_of(who);
        let spoken = self.speech.of(who, at);
        match kind {
            PieceKind::Text => {
                spoken.text.push_str(text);
                self.emit_text(who, TextKind::Text, text);
            }
            PieceKind::Reasoning => {
                spoken.reasoning.push_str(text);
                self.emit_text(who, TextKind::Reasoning, text);
            }
            PieceKind::ToolCall(call) => {
                self.close_block();
                self.last_text = None;
                let ns = at.map(|at| at.ns.as_str());
                self.calls.delta(call, text, Origin::model(who, ns), &mut self.parts);
            }
        }
    }

    fn emit_text(&mut self, who: &Speaker, kind: TextKind, text: &str) {
        if self.block.as_ref().is_none_or(|block| block.kind != kind || block.by != *who) {
            self.close_block();
            self.blocks += 1;
            let id = format!("{}-{}", self.run.run, self.blocks);
            self.parts.push(ChatPart::TextStart { kind, id: id.clone() });
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
        for who in void {
            self.close_block();
            self.calls.reset(&who, &mut self.parts);
            self.void_last_text(&who);
            if let Some(step) = self.step.as_mut().filter(|step| step.by.as_ref() == Some(&who)) {
                step.by = None;
            }
        }
        let AttemptReset { node, ns, message, .. } = reset;
        self.add_fact("retry", json!({"node": node, "ns": ns, "message": message}), !is_beside);
        self.speak_held();
    }

    fn void_last_text(&mut self, who: &Speaker) {
        if let Some(last) = self.last_text.as_mut().filter(|last| last.by == *who) {
            last.is_void = true;
        }
    }

    pub(super) fn message(&mut self, message: &Message) {
        match message.role {
            Role::Assistant => {
                let who = message.id.to_string();
                if self.speech.is_final(&who) {
                    return;
                }
                if self.speech.admits(&who, None) {
                    self.complete_message(message);
                    self.speak_held();
                } else {
                    self.speech.hold(Held::Final(Box::new(message.clone())));
                }
            }
            // Results of nodes that call tools by themselves.
            Role::Tool => {
                for result in message.tool_results() {
                    let end = CallEnd { value: result.value.clone(), is_error: result.is_error };
                    self.result(result.tool_call_id.as_str(), None, end);
                }
            }
            Role::System | Role::User => {}
        }
    }

    /// Adds a message of a member of a team that waits for a person: the log has none of them.
    pub(crate) fn work(&mut self, ns: &str, message: &Message) {
        if message.role == Role::Assistant && !self.speech.is_final(message.id.as_str()) {
            self.end_texts();
            self.complete_in(Some(ns), message);
        }
    }

    /// Adds the parts of a final message that its pieces did not have.
    fn complete_message(&mut self, message: &Message) {
        self.complete_in(None, message);
    }

    fn complete_in(&mut self, ns: Option<&str>, message: &Message) {
        let who = message.id.to_string();
        let has_parts = message.parts.iter().any(|part| !matches!(part, Part::ToolResult(_)));
        if has_parts {
            self.begin_step_of(&who);
        }
        let spoken = self.speech.of(&who, None).clone();
        let ns = ns.or(spoken.ns()).map(str::to_owned);
        let reasoning: String = message.parts.iter().filter_map(reasoning_text).collect();
        let text = message.joined_text();
        match (reasoning.strip_prefix(&spoken.reasoning), text.strip_prefix(&spoken.text)) {
            (Some(reasoning), Some(text)) => self.speak_whole(&who, reasoning, text),
            _ => {
                // The pieces were of an attempt of which the log has no reset.
                self.void_last_text(&who);
                self.add_fact("retry", json!({"message": message.id}), true);
                self.speak_whole(&who, &reasoning, &text);
            }
        }
        self.close_block();
        for part in &message.parts {
            match part {
                Part::Media(media) => self.emit_file(media),
                Part::ToolCall(call) => {
                    let named = Named { id: call.id.as_str(), name: &call.name, args: &call.args };
                    self.add_call(Origin::model(&who, ns.as_deref()), named);
                }
                _ => {}
            }
        }
        self.speech.finish(&who);
    }

    fn speak_whole(&mut self, who: &Speaker, reasoning: &str, text: &str) {
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
