//! Exactly one start event and one result event per call.

use crate::error::code;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_types::ToolCallId;
use weftwork_types::event::AiEvent;
use weftwork_types::port::Emit;
use weftwork_types::tool::{ToolErrorKind, ToolFailure, ToolOutcome};

/// A call whose start event was emitted. [`Announced::finish`] or dropping it emits the result
/// event.
#[derive(Debug)]
pub(super) struct Announced {
    emit: Arc<dyn Emit>,
    tool_call_id: ToolCallId,
    open: bool,
}

/// Effect of a start on the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// The call takes its share.
    Charged,
    /// No tool runs now.
    Free,
}

impl Announced {
    pub(super) fn start(
        emit: &Arc<dyn Emit>,
        tool_call_id: &ToolCallId,
        tool_name: &str,
        args: &Value,
        charge: Charge,
    ) -> Self {
        emit.emit(AiEvent::ToolCallStart {
            tool_call_id: tool_call_id.clone(),
            tool_name: tool_name.to_owned(),
            args: args.clone(),
            charged: charge == Charge::Charged,
            task: None,
            ns: String::new(),
        });
        Self::open(emit, tool_call_id)
    }

    /// A call whose start event was emitted before, when its tool asked.
    pub(super) fn open(emit: &Arc<dyn Emit>, tool_call_id: &ToolCallId) -> Self {
        Self { emit: Arc::clone(emit), tool_call_id: tool_call_id.clone(), open: true }
    }

    /// Emits nothing: the tool asks, and the call goes on after the replies.
    pub(super) fn keep_open(mut self) {
        self.open = false;
    }

    /// Emits the result event, with only the members of a value that may be shown.
    pub(super) fn finish(mut self, outcome: &ToolOutcome) {
        let (result, is_error) = match outcome {
            ToolOutcome::Ok { value, shown } => (shown.as_ref().unwrap_or(value).clone(), false),
            ToolOutcome::Failed(failure) => (json!(failure.clone().into_shown()), true),
        };
        self.emit_result(result, is_error);
    }

    fn emit_result(&mut self, result: Value, is_error: bool) {
        self.open = false;
        self.emit.emit(AiEvent::ToolCallResult {
            tool_call_id: self.tool_call_id.clone(),
            result,
            is_error,
            task: None,
        });
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.open {
            let failure = ToolFailure::new(
                ToolErrorKind::Execution,
                code::CANCELLED,
                "the call was interrupted before its result was recorded",
            );
            self.emit_result(json!(failure), true);
        }
    }
}
