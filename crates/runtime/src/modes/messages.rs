//! Mode `messages`: messages that nodes return, and the partial text of those that models produce.
//!
//! Partial text is emitted once, and no longer when the message is final: the final message follows
//! under the same id for everyone. A message is emitted once in a run, and not at all if a node got
//! it in its input before.

use super::incident::Incident;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use weftwork_graph::run_loop::{MessagePart, MessageWrite, StoredStep, StreamEvent};
use weftwork_types::MessageId;
use weftwork_types::event::{
    AiEvent, AttemptReset, OpenText, PieceAt, RunEvent, TextSource, Transcript,
};

/// Messages of a run that were emitted or that its nodes got. All followers share them, at whichever
/// event they are.
#[derive(Debug, Default)]
pub(super) struct KnownMessages {
    /// Number of the event with which each became known.
    since: BTreeMap<String, u64>,
    /// Number of the event up to which all messages are known.
    until: u64,
}

/// An event of a message, with the namespace of its source.
pub(super) type OfMessage = (String, StreamEvent);

/// Messages of one event.
pub(super) struct EventMessages<'a> {
    known: &'a Mutex<KnownMessages>,
    seq: u64,
    /// Messages that became known with this event.
    new: BTreeSet<String>,
    /// Messages that are final with this event.
    returned: Vec<MessageId>,
}

/// Messages of which a follower emitted text, and which are not final. The text itself is with the
/// client.
#[derive(Debug, Default)]
pub(super) struct PartialText(Transcript<()>);

impl KnownMessages {
    /// Returns `true` if all messages up to this event are known.
    pub(super) fn includes(&self, seq: u64) -> bool {
        seq <= self.until
    }

    /// Records that the messages of the next event are known, after the one with the number
    /// `before`.
    pub(super) fn pass(&mut self, before: u64, seq: u64) {
        if self.includes(before) {
            self.until = self.until.max(seq);
        }
    }
}

impl<'a> EventMessages<'a> {
    pub(super) fn new(known: &'a Mutex<KnownMessages>, seq: u64) -> Self {
        Self { known, seq, new: BTreeSet::new(), returned: Vec::new() }
    }

    /// The messages of an incident.
    pub(super) fn events(&mut self, step: &StoredStep, incident: &Incident) -> Vec<OfMessage> {
        match incident {
            Incident::Started(task) => {
                step.message_ids(*task, |id| {
                    self.is_new(id);
                });
                Vec::new()
            }
            Incident::Ended(end) if end.status.is_ok() => {
                let (ns, node, messages) = step.messages(end.id);
                let new = messages.into_iter().filter(|message| self.is_first(message));
                let event = |message| {
                    let part = MessagePart::Returned(message);
                    let node = node.clone();
                    let step = step.step();
                    (ns.clone(), StreamEvent::Message { part, node, step })
                };
                new.map(event).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the messages that are final with this event.
    pub(super) fn into_returned(self) -> Vec<MessageId> {
        self.returned
    }

    fn is_first(&mut self, message: &MessageWrite) -> bool {
        let id = match message {
            MessageWrite::Put(message) => &message.id,
            MessageWrite::Remove { remove } => remove,
        };
        self.returned.push(id.clone());
        self.is_new(id.as_str())
    }

    /// Returns `true` if a message was not known before, and records it.
    fn is_new(&mut self, id: &str) -> bool {
        if self.new.contains(id) {
            return false;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.since.get(id) {
            Some(since) if *since < self.seq => return false,
            Some(_) => {}
            None => drop(known.since.insert(id.to_owned(), self.seq)),
        }
        self.new.insert(id.to_owned())
    }
}

impl PartialText {
    /// Returns `true` if the text of every message is void or part of a final message.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the text of messages that are final.
    pub(super) fn end(&mut self, returned: &[MessageId]) {
        // Messages without partial text, which are the most in a log, need not be remembered.
        let is_open = |id: &&MessageId| self.0.text(&TextSource::Message((*id).clone())).is_some();
        let finals: Vec<_> = returned.iter().filter(is_open).collect();
        for id in finals {
            self.0.finish(id);
        }
    }

    /// The partial text of an event, or the end of an attempt that emitted some.
    pub(super) fn events(&mut self, event: &RunEvent) -> Vec<OfMessage> {
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(at)) => {
                let Some(id) = at.message.clone() else { return Vec::new() };
                self.0.text_at(at);
                vec![message_of_piece(at, MessagePart::Chunk { id, text: delta.clone() })]
            }
            (AiEvent::AttemptReset(reset), _) => self.reset(reset),
            _ => Vec::new(),
        }
    }

    fn reset(&mut self, reset: &AttemptReset) -> Vec<OfMessage> {
        let event = |OpenText { at, .. }: OpenText<()>| {
            let id = at.message.clone()?;
            Some(message_of_piece(&at, MessagePart::Reset { id }))
        };
        self.0.reset(reset).into_iter().filter_map(event).collect()
    }
}

fn message_of_piece(at: &PieceAt, part: MessagePart) -> OfMessage {
    (at.ns.clone(), StreamEvent::Message { part, node: at.node.clone(), step: at.step })
}
