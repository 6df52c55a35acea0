//! End of an attempt, in its span.

use super::{End, TaskOutcome};
use crate::run_loop::spans::record_error;
use tracing::Span;
use weftwork_types::telemetry;

/// Records the end of an attempt in its span.
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
