//! Spans of runs, supersteps and tasks. [`telemetry`] has their names and fields.
//!
//! Each span is within the one that is current when it is created, so that the spans of nested loops
//! are within the task that runs them. Without a subscriber a span is a load of the maximum level:
//! its fields are not computed.

use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};
use weftwork_types::{BoxFuture, TaskId, telemetry};

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

/// Span of a superstep of the graph at a namespace.
pub(crate) fn superstep_span(step: i64, graph: &str, ns: &str) -> Span {
    info_span!(
        target: telemetry::TARGET,
        telemetry::SUPERSTEP,
        { telemetry::STEP } = step,
        { telemetry::STEP_GRAPH } = graph,
        { telemetry::NAMESPACE } = (!ns.is_empty()).then_some(ns),
        { telemetry::ERROR_TYPE } = Empty,
        { telemetry::OTEL_STATUS } = Empty,
    )
}

/// Span of an attempt of a task. The id is a hash, which is computed only for a subscriber.
pub(crate) fn task_span(node: &str, id: impl FnOnce() -> TaskId, attempt: u32) -> Span {
    info_span!(
        target: telemetry::TARGET,
        telemetry::TASK,
        { telemetry::NODE } = node,
        { telemetry::TASK_ID } = %id(),
        { telemetry::ATTEMPT } = attempt,
        { telemetry::OUTCOME } = Empty,
        { telemetry::ERROR_TYPE } = Empty,
        { telemetry::OTEL_STATUS } = Empty,
    )
}

/// Records that the operation of a span failed.
pub(crate) fn record_error(span: &Span, code: &str) {
    span.record(telemetry::ERROR_TYPE, code);
    span.record(telemetry::OTEL_STATUS, "ERROR");
}

/// Moves a future into a span, which is current wherever the future is polled.
pub(crate) fn within_span<T: 'static>(
    span: &Span,
    future: BoxFuture<'static, T>,
) -> BoxFuture<'static, T> {
    // Without a subscriber the future is not boxed once more.
    match span.is_disabled() {
        true => future,
        false => Box::pin(future.instrument(span.clone())),
    }
}
