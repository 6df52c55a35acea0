//! Spans of runs, supersteps and tasks. [`telemetry`] has their names and fields.
//!
//! Each span is within the one that is current when it is created, so that the spans of nested loops
//! are within the task that runs them. Without a subscriber a span is a load of the maximum level:
//! its fields are not computed.

use super::RunOutcome;
use super::supersteps::RunLoop;
use super::task::{End, NodeFuture, OpenTask, TaskOutcome, TaskRunner};
use crate::error::RuntimeError;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};
use weftwork_types::telemetry;

/// Span of a run of this program.
pub(crate) fn run_span(graph: &str, thread: &str) -> Span {
    info_span!(
        target: telemetry::TARGET,
        telemetry::RUN,
        { telemetry::OPERATION } = telemetry::INVOKE_WORKFLOW,
        { telemetry::GRAPH } = graph,
        { telemetry::THREAD } = (!thread.is_empty()).then_some(thread),
        { telemetry::OUTCOME } = Empty,
        { telemetry::ERROR_TYPE } = Empty,
        { telemetry::OTEL_NAME } = format_args!("{} {graph}", telemetry::INVOKE_WORKFLOW),
        { telemetry::OTEL_STATUS } = Empty,
    )
}

/// Records the end of a run.
pub(crate) fn record_run_end(span: &Span, ended: Result<&RunOutcome, &RuntimeError>) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(outcome) => {
            span.record(telemetry::OUTCOME, outcome.status().name());
            if let RunOutcome::Failed { fault } = outcome {
                record_error(span, &fault.code);
            }
        }
        Err(error) => {
            span.record(telemetry::OUTCOME, "failed");
            record_error(span, &error.fault().code);
        }
    }
}

/// Records that the operation of a span failed.
pub(crate) fn record_error(span: &Span, code: &str) {
    span.record(telemetry::ERROR_TYPE, code);
    span.record(telemetry::OTEL_STATUS, "ERROR");
}

impl RunLoop {
    /// Span of the open superstep.
    pub(crate) fn superstep_span(&self) -> Span {
        let ns = &*self.loop_context.address.ns;
        info_span!(
            target: telemetry::TARGET,
            telemetry::SUPERSTEP,
            { telemetry::STEP } = self.position.step(),
            { telemetry::STEP_GRAPH } = self.loop_context.graph.name(),
            { telemetry::NAMESPACE } = (!ns.is_empty()).then_some(ns),
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::OTEL_STATUS } = Empty,
        )
    }

    /// Span of the only attempt of a task that is not retried.
    pub(crate) fn task_span(&self, slot: &OpenTask) -> Span {
        let graph = &self.loop_context.graph;
        info_span!(
            target: telemetry::TARGET,
            telemetry::TASK,
            { telemetry::NODE } = &**slot.name(graph),
            { telemetry::TASK_ID } = %slot.id(&self.loop_context.address.ns, graph),
            { telemetry::ATTEMPT } = 1,
            { telemetry::OUTCOME } = Empty,
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::OTEL_STATUS } = Empty,
        )
    }
}

impl TaskRunner {
    /// Span of an attempt of the task.
    pub(crate) fn attempt_span(&self, attempt: u32) -> Span {
        info_span!(
            target: telemetry::TARGET,
            telemetry::TASK,
            { telemetry::NODE } = &**self.at.key.name(),
            { telemetry::TASK_ID } = %self.at.id(),
            { telemetry::ATTEMPT } = attempt,
            { telemetry::OUTCOME } = Empty,
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::OTEL_STATUS } = Empty,
        )
    }
}

/// Records the end of an attempt.
pub(crate) fn record_task_end(span: &Span, end: &End) {
    if span.is_disabled() {
        return;
    }
    let outcome = match &end.what {
        TaskOutcome::Done(..) | TaskOutcome::Parent(_) => "ok",
        TaskOutcome::Waiting(_) => "asks",
        TaskOutcome::Failed(_) => "failed",
        // The task runs again when its run is resumed, as after a cut.
        TaskOutcome::Drained(_) => return,
    };
    span.record(telemetry::OUTCOME, outcome);
    if let TaskOutcome::Failed(failed) = &end.what {
        record_error(span, &failed.fault.code);
    }
}

/// Moves the future of a node into a span, which is current wherever the future is polled.
pub(crate) fn within_span(span: &Span, future: NodeFuture) -> NodeFuture {
    match span.is_disabled() {
        true => future,
        false => Box::pin(future.instrument(span.clone())),
    }
}
