//! Mode `messages`: messages that nodes return, and the partial text of those that models produce.
//!
//! Partial text is emitted once, and no longer when the message is final: the final message follows
//! under the same id for everyone. A message is emitted once in a run, and not at all if a node got
//! it in its input before.

use super::incident::Incident;
use std::collections::BTreeSet;
use weftwork_graph::run_loop::{MessagePart, MessageWrite, StoredStep, StreamEvent};
use weftwork_types::MessageId;
use weftwork_types::event::{AiEvent, PieceAt, RunEvent};

/// Messages of a run that were emitted or that its nodes got, and those of which text was emitted.
#[derive(Debug, Default)]
pub(super) struct Messages {
    known: BTreeSet<String>,
    partial: Vec<(MessageId, PieceAt)>,
}

/// An event of a message, with the namespace of its source.
pub(super) type OfMessage = (String, StreamEvent);

impl Messages {
    /// The messages of an incident.
    pub(super) fn events(&mut self, step: &StoredStep, incident: &Incident) -> Vec<OfMessage> {
        match incident {
            Incident::Started(task) => {
                step.message_ids(*task, |id| {
                    if !self.known.contains(id) {
                        self.known.insert(id.to_owned());
                    }
                });
                Vec::new()
            }
            Incident::Ended(end) if end.status.is_ok() => {
                let (ns, node, messages) = step.messages(end.id);
                let new = messages.into_iter().filter(|message| self.is_new(message));
                let event = |message| {
                    let part = MessagePart::Returned(message);
                    let (node, step) = (node.clone(), step.step());
                    (ns.clone(), StreamEvent::Message { part, node, step })
                };
                new.map(event).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_new(&mut self, message: &MessageWrite) -> bool {
        let id = match message {
            MessageWrite::Put(message) => &message.id,
            MessageWrite::Remove { remove } => remove,
        };
        self.partial.retain(|(partial, _)| partial != id);
        self.known.insert(id.to_string())
    }

    /// The partial text of an event, or the end of an attempt that emitted some.
    pub(super) fn partial(&mut self, event: &RunEvent) -> Vec<OfMessage> {
        match (&event.event, &event.piece) {
            (AiEvent::TextDelta { delta }, Some(at)) => {
                let Some(id) = at.message.clone() else { return Vec::new() };
                if self.partial.iter().all(|(known, _)| *known != id) {
                    self.partial.push((id.clone(), at.clone()));
                }
                vec![of(at, MessagePart::Chunk { id, text: delta.clone() })]
            }
            (AiEvent::AttemptReset { node }, _) => {
                let (void, rest) = std::mem::take(&mut self.partial)
                    .into_iter()
                    .partition::<Vec<_>, _>(|(_, at)| at.node == *node);
                self.partial = rest;
                void.into_iter().map(|(id, at)| of(&at, MessagePart::Reset { id })).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn of(at: &PieceAt, part: MessagePart) -> OfMessage {
    (at.ns.clone(), StreamEvent::Message { part, node: at.node.clone(), step: at.step })
}
