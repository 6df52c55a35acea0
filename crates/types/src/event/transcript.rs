//! Texts of a run that are not final, by one set of rules for all that store, deliver or show them.

#[cfg(test)]
mod tests;

use super::{AttemptReset, PieceAt, PieceKind};
use crate::{MessageId, TaskId};
use std::collections::BTreeSet;

/// Source of partial text. Text of one source is one text, however it is divided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextSource {
    /// The message that the text is part of.
    Message(MessageId),
    /// The task that emitted the text, for text of no message.
    Task {
        /// Namespace of the graph of the task.
        ns: String,
        /// The task.
        task: TaskId,
    },
}

impl TextSource {
    /// Returns the source of a text.
    #[must_use]
    pub fn of(at: &PieceAt) -> Self {
        match &at.message {
            Some(id) => Self::Message(id.clone()),
            None => Self::Task { ns: at.ns.clone(), task: at.task },
        }
    }

    /// Returns the message; `None` for text of no message.
    #[must_use]
    pub fn message(&self) -> Option<&MessageId> {
        match self {
            Self::Message(id) => Some(id),
            Self::Task { .. } => None,
        }
    }
}

/// A text that is not final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenText<T> {
    /// Source of the text.
    pub source: TextSource,
    /// Position and origin of its last piece. A reset voids the text by this origin.
    pub at: PieceAt,
    /// Content of the text, as its reader needs it.
    pub content: T,
}

/// The texts of a run that are not final, and the messages that are.
///
/// A text begins with its first piece. It ends when its message is final, when the attempt that
/// emitted it is reset, or with the run. A text that goes on after its end begins anew. The content
/// of texts is the reader's: [`MessageText`] for a reader of the whole text, less for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript<T = MessageText> {
    /// In the order of their first pieces.
    open: Vec<OpenText<T>>,
    finals: BTreeSet<MessageId>,
}

impl<T> Default for Transcript<T> {
    fn default() -> Self {
        Self { open: Vec::new(), finals: BTreeSet::new() }
    }
}

impl<T> Transcript<T> {
    /// Returns the texts that are not final, in the order in which they began.
    pub fn open_texts(&self) -> impl Iterator<Item = &OpenText<T>> {
        self.open.iter()
    }

    /// Returns `true` if every text is void or part of a final message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the text of a source; `None` if it is void, final or not begun.
    #[must_use]
    pub fn text(&self, source: &TextSource) -> Option<&OpenText<T>> {
        self.open.iter().find(|text| text.source == *source)
    }

    /// Returns `true` if a message was final.
    #[must_use]
    pub fn is_final(&self, id: &MessageId) -> bool {
        self.finals.contains(id)
    }

    /// Returns the text that a piece belongs to, and begins it if this is its first piece. The
    /// caller adds the content.
    pub fn text_at(&mut self, at: &PieceAt) -> &mut OpenText<T>
    where
        T: Default,
    {
        let source = TextSource::of(at);
        let index = self.open.iter().position(|text| text.source == source);
        let index = index.unwrap_or_else(|| {
            let content = T::default();
            self.open.push(OpenText { source, at: at.clone(), content });
            self.open.len() - 1
        });
        let text = &mut self.open[index];
        text.at = at.clone();
        text
    }

    /// Records that a message is final, and returns its text, which the final message repeats.
    pub fn finish(&mut self, id: &MessageId) -> Option<OpenText<T>> {
        self.finals.insert(id.clone());
        let is_of =
            |text: &OpenText<T>| matches!(&text.source, TextSource::Message(of) if of == id);
        let index = self.open.iter().position(is_of)?;
        Some(self.open.remove(index))
    }

    /// Removes and returns the text of a source, as if it had not begun.
    pub fn remove(&mut self, source: &TextSource) -> Option<OpenText<T>> {
        let index = self.open.iter().position(|text| text.source == *source)?;
        Some(self.open.remove(index))
    }

    /// Retains the texts that are not final for which `is_kept` returns `true`.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&OpenText<T>) -> bool) {
        self.open.retain(is_kept);
    }

    pub(super) fn open_texts_mut(&mut self) -> impl Iterator<Item = &mut OpenText<T>> {
        self.open.iter_mut()
    }

    /// Removes and returns the texts that a reset makes void, in the order in which they began.
    pub fn reset(&mut self, reset: &AttemptReset) -> Vec<OpenText<T>> {
        self.open.extract_if(.., |text| reset.voids(&text.at)).collect()
    }

    /// Removes and returns all texts: the run has ended, or another process continues it.
    pub fn end(&mut self) -> Vec<OpenText<T>> {
        std::mem::take(&mut self.open)
    }
}

/// The text of a message so far, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageText {
    parts: Vec<TextOfKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TextOfKind {
    kind: PieceKind,
    text: String,
}

impl MessageText {
    /// Appends a text of a kind.
    pub fn append(&mut self, kind: &PieceKind, text: &str) {
        match self.parts.iter_mut().find(|part| part.kind == *kind) {
            Some(part) => part.text.push_str(text),
            None => self.parts.push(TextOfKind { kind: kind.clone(), text: text.to_owned() }),
        }
    }

    /// Returns the text of a kind.
    #[must_use]
    pub fn of_kind(&self, kind: &PieceKind) -> &str {
        self.parts.iter().find(|part| part.kind == *kind).map_or("", |part| &part.text)
    }
}
