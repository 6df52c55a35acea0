//! Text of messages: one message speaks at a time.
//!
//! Readers of the chat formats append text to the last block whatever its id, so texts of several
//! messages would be mixed word by word. While one message is produced, the pieces of concurrent
//! messages wait, and are emitted when it is complete.

use std::collections::{BTreeMap, VecDeque};
use weftwork_types::TaskId;
use weftwork_types::event::{AttemptReset, PieceAt, PieceKind};
use weftwork_types::message::Message;

/// The message that pieces belong to, or the task for pieces of no message.
pub(super) type Speaker = String;

/// Text that waits until the present speaker has ended.
#[derive(Debug)]
pub(super) enum Held {
    Piece { at: PieceAt, kind: PieceKind, text: String },
    Final(Box<Message>),
}

/// The messages of which text was emitted.
#[derive(Debug, Default)]
pub(super) struct Speech {
    known: BTreeMap<Speaker, Spoken>,
    current: Option<Speaker>,
    held: VecDeque<Held>,
}

/// The emitted text of a message.
#[derive(Debug, Default, Clone)]
pub(super) struct Spoken {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// Position and origin of its last piece.
    source: Option<PieceAt>,
    is_final: bool,
}

impl Spoken {
    /// Returns the namespace of the graph that emitted the text; `None` if there is none.
    pub(super) fn ns(&self) -> Option<&str> {
        self.source.as_ref().map(|source| source.ns.as_str())
    }
}

/// Returns `true` if text of a source cannot follow any more once `later` is emitted.
fn is_complete_before(source: &PieceAt, later: &PieceAt) -> bool {
    source.ns == later.ns && source.step < later.step
}

impl Held {
    fn speaker(&self) -> Speaker {
        match self {
            Self::Piece { at, .. } => speaker_of(at),
            Self::Final(message) => message.id.to_string(),
        }
    }
}

/// Returns the speaker of a piece.
pub(super) fn speaker_of(at: &PieceAt) -> Speaker {
    match &at.message {
        Some(id) => id.to_string(),
        None => format!("task {} {}", at.ns, at.task),
    }
}

impl Speech {
    /// Returns `true` if a message may speak now. It is the present speaker from then on.
    pub(super) fn admits(&mut self, who: &Speaker, at: Option<&PieceAt>) -> bool {
        let waits = self.held.iter().any(|held| held.speaker() == *who);
        let free = match &self.current {
            None => true,
            Some(current) if current == who => return true,
            Some(current) => {
                let source = self.known.get(current).and_then(|spoken| spoken.source.as_ref());
                at.is_some_and(|at| source.is_some_and(|source| is_complete_before(source, at)))
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

    /// Returns the emitted text of a message.
    pub(super) fn of(&mut self, who: &Speaker, at: Option<&PieceAt>) -> &mut Spoken {
        let spoken = self.known.entry(who.clone()).or_default();
        if let Some(at) = at {
            spoken.source = Some(at.clone());
        }
        spoken
    }

    /// Ends a speaker whose message is final.
    pub(super) fn finish(&mut self, who: &Speaker) {
        if self.current.as_ref() == Some(who) {
            self.current = None;
        }
        let spoken = self.known.entry(who.clone()).or_default();
        *spoken = Spoken { is_final: true, ..Spoken::default() };
    }

    /// Returns `true` if a message was final before.
    pub(super) fn is_final(&self, who: &str) -> bool {
        self.known.get(who).is_some_and(|spoken| spoken.is_final)
    }

    /// Ends the present speaker if its task has ended.
    pub(super) fn end_task(&mut self, task: TaskId) {
        let Some(current) = &self.current else { return };
        let source = self.known.get(current).and_then(|spoken| spoken.source.as_ref());
        if source.is_some_and(|source| source.is_of_task(task)) {
            self.current = None;
        }
    }

    /// Forgets the text of an attempt. Returns the speakers that are void.
    pub(super) fn reset(&mut self, reset: &AttemptReset) -> Vec<Speaker> {
        self.held.retain(|held| !matches!(held, Held::Piece { at, .. } if reset.voids(at)));
        let is_void = |spoken: &Spoken| {
            !spoken.is_final && spoken.source.as_ref().is_some_and(|source| reset.voids(source))
        };
        let void: Vec<_> = self
            .known
            .iter()
            .filter(|(_, spoken)| is_void(spoken))
            .map(|(who, _)| who.clone())
            .collect();
        for who in &void {
            self.known.remove(who);
            self.current = self.current.take().filter(|current| current != who);
        }
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
