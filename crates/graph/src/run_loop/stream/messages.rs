//! Messages in streams: the partial text of models, and the messages that nodes return.
//!
//! Source: `pregel/_messages.py` of LangGraph 1.2.22. A message is emitted once: whole messages
//! whose id was emitted, in chunks or whole, or was in the input of a node, are not emitted again.

use crate::run_loop::checkpointer::TaskKey;
use crate::run_loop::context::{LoopContext, TaskContext};
use crate::run_loop::event::{MessagePart, Modes, StreamEvent};
use crate::run_loop::sync::lock;
use serde_json::Value as Json;
use weftwork_engine::TaskOutput;
use weftwork_engine::channel::{MessageWrite, ids_in_json};
use weftwork_types::MessageId;

/// The task that emits a message.
pub(crate) struct By<'a> {
    pub(crate) ns: &'a str,
    pub(crate) node: &'a str,
    pub(crate) step: i64,
}

impl LoopContext {
    /// The messages in a node's result; none unless the run streams them.
    pub(crate) fn messages_in(&self, output: &TaskOutput) -> Vec<MessageWrite> {
        let wanted = self.run.wants(Modes::MESSAGES);
        if wanted { self.graph.plan().messages_in(output) } else { Vec::new() }
    }

    /// Emits messages that a task returned, unless they were emitted before.
    pub(crate) fn emit_messages(&self, by: &By<'_>, messages: Vec<MessageWrite>) {
        for message in messages {
            let id = match &message {
                MessageWrite::Put(message) => &message.id,
                MessageWrite::Remove { remove } => remove,
            };
            // Two nodes may return the same message in one superstep: the first emits it.
            if lock(&self.run.messages).insert(id.to_string()) {
                self.emit_part(by, MessagePart::Returned(message));
            }
        }
    }

    /// Marks the messages that a task gets as known.
    pub(crate) fn note_messages_in(&self, arg: &Json) {
        if self.run.wants(Modes::MESSAGES) {
            let mut known = lock(&self.run.messages);
            ids_in_json(arg, |id| {
                known.insert(id.to_owned());
            });
        }
    }

    fn emit_part(&self, by: &By<'_>, part: MessagePart) {
        let node = by.node.to_owned();
        let step = by.step;
        self.emit_from(by.ns, StreamEvent::Message { part, node, step });
    }
}

impl TaskContext {
    /// The task as streams of messages name it. A task that a node's code calls belongs to the
    /// graph of that node.
    fn source_of_messages(&self) -> By<'_> {
        let ns = match self.key {
            TaskKey::Call { .. } => &self.loop_context.address.ns,
            TaskKey::Node { .. } => &self.from,
        };
        By { ns, node: self.key.name(), step: self.step }
    }

    pub(crate) fn emit_messages(&self, messages: Vec<MessageWrite>) {
        self.loop_context.emit_messages(&self.source_of_messages(), messages);
    }

    /// Emits partial text of a message.
    pub(crate) fn emit_chunk(&self, id: &MessageId, text: &str) {
        self.emit_chunk_in(self.source_of_messages().ns, id, text);
    }

    /// Emits partial text of a message of a graph with this namespace.
    pub(crate) fn emit_chunk_in(&self, ns: &str, id: &MessageId, text: &str) {
        if !self.loop_context.run.wants(Modes::MESSAGES) {
            return;
        }
        {
            let mut chunked = lock(&self.task_state.chunked);
            if !chunked.contains(id) {
                chunked.push(id.clone());
                lock(&self.loop_context.run.messages).insert(id.to_string());
            }
        }
        let part = MessagePart::Chunk { id: id.clone(), text: text.to_owned() };
        self.loop_context.emit_part(&By { ns, ..self.source_of_messages() }, part);
    }

    /// Voids the chunks of a message: the attempt that emitted them failed.
    pub(crate) fn reset_chunks_of(&self, id: &MessageId) {
        let mut chunked = lock(&self.task_state.chunked);
        if let Some(at) = chunked.iter().position(|known| known == id) {
            self.emit_reset(chunked.remove(at));
        }
    }

    /// Voids all chunks that the task has emitted.
    pub(crate) fn reset_chunks(&self) {
        let chunked = std::mem::take(&mut *lock(&self.task_state.chunked));
        chunked.into_iter().for_each(|id| self.emit_reset(id));
    }

    fn emit_reset(&self, id: MessageId) {
        // Not known any more: the next attempt may return the message without chunks before it.
        lock(&self.loop_context.run.messages).remove(id.as_str());
        self.loop_context.emit_part(&self.source_of_messages(), MessagePart::Reset { id });
    }
}
