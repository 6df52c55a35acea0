//! Span of a tool call. [`telemetry`] has its names and fields.

use super::ToolRunner;
use super::execute::Executed;
use super::prepare::Head;
use crate::error::{RunToolError, code, cut};
use crate::name::WIRE_NAME_CHARS_MAX;
use tracing::field::Empty;
use tracing::{Span, info_span};
use weftwork_types::telemetry;
use weftwork_types::tool::ToolOutcome;

impl ToolRunner {
    /// Span of a call, or of a round of one.
    pub(super) fn call_span(&self, head: &Head) -> Span {
        info_span!(
            target: telemetry::TARGET,
            telemetry::TOOL_CALL,
            { telemetry::OPERATION } = telemetry::EXECUTE_TOOL,
            { telemetry::TOOL } = &*self.called_name(head),
            { telemetry::TOOL_CALL_ID } = head.tool_call_id.as_str(),
            { telemetry::REPLAYED } = Empty,
            { telemetry::OUTCOME } = Empty,
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::OTEL_NAME } =
                format_args!("{} {}", telemetry::EXECUTE_TOOL, self.called_name(head)),
            { telemetry::OTEL_STATUS } = Empty,
        )
    }

    /// Name of the called tool. The model may have invented one of any length.
    fn called_name(&self, head: &Head) -> String {
        match self.catalogue.get(&head.wire_name) {
            Some(entry) => entry.spec.name.clone(),
            None => cut(&head.wire_name, WIRE_NAME_CHARS_MAX),
        }
    }
}

/// Records in the span of a call that its outcome is that of an earlier one.
pub(super) fn record_replay() {
    Span::current().record(telemetry::REPLAYED, true);
}

/// Records the end of a call.
pub(super) fn record_call_end(span: &Span, ended: &Result<Executed, RunToolError>) {
    if span.is_disabled() {
        return;
    }
    let code = match ended {
        Ok(Executed::Done(ToolOutcome::Ok { .. })) => {
            span.record(telemetry::OUTCOME, "ok");
            return;
        }
        // A person decides, or answers the tool.
        Ok(Executed::OutcomeUnknown(_) | Executed::Asks(_)) => {
            span.record(telemetry::OUTCOME, "asks");
            return;
        }
        Ok(Executed::Done(ToolOutcome::Failed(failure))) => {
            failure.code.as_deref().unwrap_or(code::TOOL_FAILED.0)
        }
        Err(error) => error.code().0,
    };
    span.record(telemetry::OUTCOME, "failed");
    span.record(telemetry::ERROR_TYPE, code);
    span.record(telemetry::OTEL_STATUS, "ERROR");
}
