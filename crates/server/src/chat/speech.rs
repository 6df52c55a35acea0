//! Text of messages: one message speaks at a time.
//!
//! Readers of the chat formats append text to the last block whatever its id, so texts of several
//! messages would be mixed word by word. While one message is produced, the pieces of concurrent
//! messages wait, and are emitted when it is complete.

use std::collections::VecDeque;
use weftwork_types::event::{
    AttemptReset, MessageText, OpenText, PieceAt, PieceKind, TextSource, Transcript,
};
use weftwork_types::message::Message;
use weftwork_types::{MessageId, TaskId};

/// Text that waits until the present speaker has ended.
#[derive(Debug)]
pub(super) enum Held {
    Piece { at: PieceAt, kind: PieceKind, text: String },
    Final(Box<Message>),
}

/// The messages of which text was emitted.
#[derive(Debug, Default)]
pub(super) struct Speech {
    emitted: Transcript<MessageText>,
    current: Option<TextSource>,
    held: VecDeque<Held>,
}

/// Returns `true` if text of a source cannot follow any more once `later` is emitted.
fn is_complete_before(source: &PieceAt, later: &PieceAt) -> bool {
    source.ns == later.ns && source.step < later.step
}

impl Held {
    fn speaker(&self) -> TextSource {
        match self {
            Self::Piece { at, .. } => TextSource::of(at),
            Self::Final(message) => TextSource::Message(message.id.clone()),
        }
    }
}

impl Speech {
    /// Returns `true` if a message may speak now. It is the present speaker from then on.
    pub(super) fn admits(&mut self, who: &TextSource, at: Option<&PieceAt>) -> bool {
        let waits = self.held.iter().any(|held| held.speaker() == *who);
        let free = match &self.current {
            None => true,
            Some(current) if current == who => return true,
            Some(current) => {
                let source = self.emitted.text(current);
                at.is_some_and(|at| source.is_some_and(|source| is_complete_before(&source.at, at)))
            }
        };
        let admitted = free && !waits;
        if admitted {
            self.current = Some(who.clone());
        }
        admitted
    }

    pub(super) fn hold(&mut self, held: Held) {
        self.held.push_back(held);
    }

    /// Adds emitted text.
    pub(super) fn add(&mut self, at: &PieceAt, kind: &PieceKind, text: &str) {
        self.emitted.text_at(at).content.append(kind, text);
    }

    /// Returns the emitted text of an answer that is not final.
    pub(super) fn text(&self, who: &TextSource) -> &str {
        self.emitted.text(who).map_or("", |open| open.content.of_kind(&PieceKind::Text))
    }

    /// Ends the speaker of a message that is final, and returns its emitted text.
    pub(super) fn finish(&mut self, id: &MessageId) -> Option<OpenText<MessageText>> {
        let is_of = |who: &TextSource| matches!(who, TextSource::Message(of) if of == id);
        self.current = self.current.take().filter(|current| !is_of(current));
        self.emitted.finish(id)
    }

    /// Returns `true` if a message was final before.
    pub(super) fn is_final(&self, id: &MessageId) -> bool {
        self.emitted.is_final(id)
    }

    /// Ends the present speaker if its task has ended.
    pub(super) fn end_task(&mut self, task: TaskId) {
        let Some(current) = &self.current else { return };
        if self.emitted.text(current).is_some_and(|text| text.at.is_of_task(task)) {
            self.current = None;
        }
    }

    /// Forgets the text of an attempt. Returns the speakers that are void.
    pub(super) fn reset(&mut self, reset: &AttemptReset) -> Vec<TextSource> {
        self.held.retain(|held| !matches!(held, Held::Piece { at, .. } if reset.voids(at)));
        let void = self.emitted.reset(reset).into_iter().map(|text| text.source);
        let void: Vec<_> = void.collect();
        self.current = self.current.take().filter(|current| !void.contains(current));
        void
    }

    /// Ends the present speaker: no run of the response follows.
    pub(super) fn end(&mut self) {
        self.current = None;
    }

    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the next text that waits: of the present speaker, or of any if there is none. The
    /// speaker is the present one from then on.
    pub(super) fn next_held(&mut self) -> Option<Held> {
        let position = match &self.current {
            None => 0,
            Some(current) => self.held.iter().position(|held| held.speaker() == *current)?,
        };
        let held = self.held.remove(position)?;
        self.current = Some(held.speaker());
        Some(held)
    }
}
