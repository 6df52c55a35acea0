//! Span of a claim of this worker on a run. [`telemetry`] has its names and fields.

use super::claimed::ClaimedRun;
use super::end::ClaimEnd;
use tracing::field::Empty;
use tracing::{Span, info_span};
use weftwork_types::telemetry;

/// Span of the execution of a run under a claim. It is the root of its tree: a hosted run is a task
/// of its own, whoever requested it.
pub(super) fn claim_span(run: &ClaimedRun) -> Span {
    let graph = &*run.row.new.graph;
    info_span!(
        target: telemetry::TARGET,
        parent: None,
        telemetry::RUN,
        { telemetry::OPERATION } = telemetry::INVOKE_WORKFLOW,
        { telemetry::GRAPH } = graph,
        { telemetry::THREAD } = run.claim.at.thread.as_str(),
        { telemetry::RUN_ID } = run.claim.at.run.as_str(),
        { telemetry::CLAIM } = run.claim.fence,
        { telemetry::OUTCOME } = Empty,
        { telemetry::ERROR_TYPE } = Empty,
        { telemetry::OTEL_NAME } = format_args!("{} {graph}", telemetry::INVOKE_WORKFLOW),
        { telemetry::OTEL_STATUS } = Empty,
    )
}

/// Records the end of a claim.
pub(super) fn record_claim_end(span: &Span, end: &ClaimEnd) {
    if span.is_disabled() {
        return;
    }
    let end = end.name();
    span.record(telemetry::OUTCOME, end.name);
    if let Some(code) = end.error {
        span.record(telemetry::ERROR_TYPE, code);
        span.record(telemetry::OTEL_STATUS, "ERROR");
    }
}
