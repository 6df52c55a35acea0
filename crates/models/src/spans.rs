//! Span of a model call. [`telemetry`] has its names and fields.

use crate::ModelError;
use crate::call::{ChatResponse, Tried};
use crate::chat::ChatModel;
use tracing::field::Empty;
use tracing::{Span, info_span};
use weftwork_types::telemetry;

/// Span of a call to a model, with its retries and fallbacks.
pub(crate) fn call_span(model: &dyn ChatModel) -> Span {
    let info = model.info();
    info_span!(
        target: telemetry::TARGET,
        telemetry::MODEL_CALL,
        { telemetry::OPERATION } = telemetry::CHAT,
        { telemetry::PROVIDER } = &*info.provider,
        { telemetry::REQUEST_MODEL } = &*info.model,
        { telemetry::RESPONSE_MODEL } = Empty,
        { telemetry::RESPONSE_ID } = Empty,
        { telemetry::INPUT_TOKENS } = Empty,
        { telemetry::OUTPUT_TOKENS } = Empty,
        { telemetry::ATTEMPTS } = Empty,
        { telemetry::REPLAYED } = Empty,
        { telemetry::ERROR_TYPE } = Empty,
        { telemetry::OTEL_NAME } = format_args!("{} {}", telemetry::CHAT, info.model),
        { telemetry::OTEL_KIND } = "client",
        { telemetry::OTEL_STATUS } = Empty,
    )
}

/// Records the end of a call.
pub(crate) fn record_call_end(
    span: &Span,
    tried: &Tried<'_>,
    ended: Result<&ChatResponse, &ModelError>,
) {
    if span.is_disabled() {
        return;
    }
    span.record(telemetry::ATTEMPTS, tried.attempts);
    if tried.attempts > 0 {
        span.record(telemetry::INPUT_TOKENS, tried.used.tokens.input);
        span.record(telemetry::OUTPUT_TOKENS, tried.used.tokens.output);
    }
    match ended {
        Ok(response) => {
            // Without an attempt the answer is from the journal or from the cache.
            if tried.attempts == 0 {
                span.record(telemetry::REPLAYED, true);
            }
            let model = response.model.split_once(':');
            span.record(
                telemetry::RESPONSE_MODEL,
                model.map_or(&*response.model, |(_, name)| name),
            );
            if let Some(id) = &response.provider_call_id {
                span.record(telemetry::RESPONSE_ID, &**id);
            }
        }
        Err(error) => {
            span.record(telemetry::ERROR_TYPE, error.code().0);
            span.record(telemetry::OTEL_STATUS, "ERROR");
        }
    }
}
