//! The texts of a run for a reader that may have a part of them.

#[cfg(test)]
mod tests;

use super::stream_position::ReceivedPart;
use super::{
    AiEvent, MissingText, OpenText, PieceAt, Position, ReceivedText, ReceivedTexts, RunEvent,
    TextSource, Transcript,
};
use crate::message::{Message, Role};
use crate::{MessageId, TaskId};

/// A part of the text of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPart {
    /// The message, or the task of a text that is part of no message. Text of one source is one
    /// text.
    pub source: TextSource,
    /// Bytes of the text before this part. A part with 0 begins the text, also if the reader has
    /// text of this source already.
    pub start: usize,
    /// The part.
    pub text: String,
    /// Position and origin; `None` for the rest of a text whose message became final meanwhile.
    pub at: Option<PieceAt>,
}

impl TextPart {
    /// Returns the id of the message; `None` for text that is part of no message.
    #[must_use]
    pub fn message(&self) -> Option<&MessageId> {
        self.source.message()
    }
}

/// A change of the texts that a reader has.
#[derive(Debug, Clone, PartialEq)]
pub enum TextChange {
    /// Text that follows the text that the reader has of this source.
    Part(Box<TextPart>),
    /// The text that the reader has of this source is void.
    Reset(TextSource),
}

/// A change of texts, and the texts that the reader has after it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadText {
    /// The change.
    pub change: TextChange,
    /// Unfinished texts that the reader has after the change.
    pub received: ReceivedTexts,
}

/// Reads the events of a run in order for a reader that may have a part of its texts, and finds what
/// the reader lacks. It retains no text.
///
/// The parts of a text since its last reset, in order, are the text of its final message, byte for
/// byte, wherever the reader left and came back: after a part of a text, what is missing of it comes
/// before the final message at the latest. If the text that the reader has turns out to be another
/// one, it is reset, and the whole text follows.
#[derive(Debug, Clone, Default)]
pub struct TextReader(Transcript<Received>);

/// The part of a text that the reader has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Received {
    text: ReceivedText,
    /// `true` if the task has ended. The final message, if there is one, follows the checkpoint
    /// that reports it.
    has_ended: bool,
}

impl TextReader {
    /// Creates a reader that has these texts.
    #[must_use]
    pub fn new(received: &ReceivedTexts) -> Self {
        let mut texts = Transcript::default();
        for ReceivedPart { source, ns, task, text, has_ended } in received.parts() {
            let message = source.message().cloned();
            let ns = ns.clone();
            let at = PieceAt { ns, message, ..PieceAt::new(Position::START, "", *task) };
            let content: &mut Received = &mut texts.text_at(&at).content;
            *content = Received { text: *text, has_ended: *has_ended };
        }
        Self(texts)
    }

    /// Returns the unfinished texts that the reader has.
    #[must_use]
    pub fn received(&self) -> ReceivedTexts {
        let part = |text: &OpenText<Received>| ReceivedPart {
            source: text.source.clone(),
            ns: text.at.ns.clone(),
            task: text.at.task,
            text: text.content.text,
            has_ended: text.content.has_ended,
        };
        ReceivedTexts::new(self.0.open_texts().map(part))
    }

    /// Reads the next event, and returns the changes of texts that the reader gets: in place of the
    /// event if it is a part of a text with a position, otherwise before it.
    pub fn read(&mut self, event: &RunEvent) -> Vec<ReadText> {
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(_)) if delta.is_empty() => Vec::new(),
            (AiEvent::TextDelta { delta }, Some(at)) => {
                let open = self.0.text_at(at);
                let start = open.content.text.bytes();
                open.content.text.extend(delta);
                let source = open.source.clone();
                vec![self.part(TextPart {
                    source,
                    start,
                    text: delta.clone(),
                    at: Some(at.clone()),
                })]
            }
            (AiEvent::ReasoningDelta { .. } | AiEvent::ToolCallDelta { .. }, Some(at)) => {
                // Its reset voids the answer and what came before it.
                self.0.text_at(at);
                Vec::new()
            }
            (AiEvent::AttemptReset(reset), _) => self.reset(|text| reset.voids(&text.at)),
            (AiEvent::TakenOver { .. } | AiEvent::Requeued { .. }, _) => self.reset(|_| true),
            (AiEvent::MessageFinal { message }, _) => self.finish(message),
            (AiEvent::Checkpoint(stored), _) if stored.is_step() => {
                let ended: Vec<TaskId> = stored.ended.iter().map(|end| end.id).collect();
                self.end_tasks(&ended);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn part(&self, part: TextPart) -> ReadText {
        ReadText { change: TextChange::Part(Box::new(part)), received: self.received() }
    }

    /// Resets texts one by one: a reader that leaves after one of them gets the others when it is
    /// back.
    fn reset(&mut self, is_void: impl Fn(&OpenText<Received>) -> bool) -> Vec<ReadText> {
        let void = self.0.open_texts().filter(|text| is_void(text));
        let void: Vec<_> = void.map(|text| text.source.clone()).collect();
        let reset = |source: TextSource| {
            self.0.remove(&source);
            ReadText { change: TextChange::Reset(source), received: self.received() }
        };
        void.into_iter().map(reset).collect()
    }

    /// Ends the text of a final message, after the rest of it.
    fn finish(&mut self, message: &Message) -> Vec<ReadText> {
        let source = TextSource::Message(message.id.clone());
        let received = self.0.text(&source).map(|text| text.content.text);
        if received.is_none() && message.role != Role::Assistant {
            return Vec::new();
        }
        let whole = message.joined_text();
        let start = match MissingText::of(received, &whole) {
            MissingText::Whole | MissingText::Other => 0,
            MissingText::Rest { received } => received.len(),
        };
        let mut changes = Vec::new();
        let at =
            self.0.text(&source).map_or_else(|| unknown_origin(&message.id), |of| of.at.clone());
        if received.is_some_and(|received| received.bytes() > 0) && start == 0 {
            self.0.text_at(&at).content.text = ReceivedText::default();
            let change = TextChange::Reset(source.clone());
            changes.push(ReadText { change, received: self.received() });
        }
        if let Some(rest) = whole.get(start..).filter(|rest| !rest.is_empty()) {
            self.0.text_at(&at).content.text = ReceivedText::whole(&whole);
            let part = TextPart { source: source.clone(), start, text: rest.to_owned(), at: None };
            changes.push(self.part(part));
        }
        self.0.remove(&source);
        changes
    }

    /// Removes the texts of tasks that had ended before and left no final message, and notes those
    /// whose tasks end now.
    fn end_tasks(&mut self, ended: &[TaskId]) {
        self.0.retain(|text| !text.content.has_ended);
        for text in self.0.open_texts_mut() {
            text.content.has_ended = ended.iter().any(|task| text.at.is_of_task(*task));
        }
    }
}

/// Returns the place of a text of which the reader has received nothing.
fn unknown_origin(id: &MessageId) -> PieceAt {
    let message = Some(id.clone());
    PieceAt { message, ..PieceAt::new(Position::START, "", TaskId(0)) }
}
