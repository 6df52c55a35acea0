//! Events of the calls of an attempt.

use crate::clock::millis;
use crate::run_loop::context::{Attempt, AttemptSignals, EventSource, TaskContext};
use std::sync::Arc;
use weftwork_types::MessageId;
use weftwork_types::event::AiEvent;
use weftwork_types::port::Emit;

/// Emits the events of an attempt's calls, and counts each as a sign of life. Sets the task in
/// events, because models and tools do not know it.
#[derive(Debug)]
pub(crate) struct CallEvents {
    at: TaskContext,
    signals: Arc<AttemptSignals>,
}

impl Emit for CallEvents {
    fn emit_of(&self, message: &MessageId, event: AiEvent) {
        // The next attempt derives the same ids of messages: late text would be taken for its own.
        if self.signals.is_cut_off() {
            return;
        }
        match &event {
            AiEvent::TextDelta { delta } => self.at.emit_chunk(message, delta),
            AiEvent::AttemptReset(_) => self.at.reset_chunks_of(message),
            _ => {}
        }
        let message = Some(message.clone());
        self.emit_by(EventSource { message, ..self.at.event_source() }, event);
    }

    fn emit(&self, event: AiEvent) {
        self.emit_by(self.at.event_source(), event);
    }
}

impl CallEvents {
    /// The events of an attempt of a task.
    pub(crate) fn new(at: &TaskContext, attempt: Attempt<'_>) -> Self {
        Self { at: at.clone(), signals: Arc::clone(attempt.signals) }
    }

    fn emit_by(&self, by: EventSource, mut event: AiEvent) {
        // An attempt that is cut off reports what it used, which counts against the budget.
        let is_bill = matches!(event, AiEvent::UsageReport { .. });
        if self.signals.is_cut_off() && !is_bill {
            return;
        }
        match &mut event {
            AiEvent::AttemptReset(reset) => *reset = by.reset(),
            AiEvent::Custom { ns, node, .. } if node.is_empty() => {
                *ns = by.ns.to_string();
                *node = by.node.to_string();
            }
            AiEvent::ToolCallStart { task, ns, .. } => {
                *task = Some(by.task);
                *ns = by.ns.to_string();
            }
            AiEvent::ToolCallResult { task, .. } | AiEvent::UsageReport { task, .. } => {
                *task = Some(by.task);
            }
            _ => {}
        }
        self.signals.beat(millis(self.at.loop_context.run.host.clock().elapsed()));
        self.at.emit_event(by, event);
    }
}
