//! Ids of a request: of its own, and of the trace that it belongs to.

use axum::http::HeaderMap;
use uuid::Uuid;
use weftwork_types::{RequestId, TraceId};

/// The header with the id of a request, which the response has, too.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// The ids of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestOrigin {
    /// The id that the client gave, or a new one.
    pub(crate) request: RequestId,
    /// The trace of the header `traceparent`, or a new one.
    pub(crate) trace: TraceId,
}

impl RequestOrigin {
    /// Creates new ids.
    pub(crate) fn new() -> Self {
        Self { request: RequestId::from_uuid(Uuid::now_v7()), trace: new_trace(Uuid::now_v7()) }
    }

    /// Reads the ids of a request; a header that is not valid is ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let new = Self::new();
        Self {
            request: text(REQUEST_ID).and_then(|id| id.parse().ok()).unwrap_or(new.request),
            trace: text("traceparent").and_then(trace_of).unwrap_or(new.trace),
        }
    }
}

fn new_trace(id: Uuid) -> TraceId {
    // A trace of W3C Trace Context has 32 hexadecimal digits.
    TraceId::new(id.simple().to_string()).unwrap_or_else(|_| TraceId::from_uuid(id))
}

/// Returns the trace of a `traceparent`: version, trace, parent and flags in hexadecimal digits, divided
/// by `-`. Later versions may have more parts.
///
/// Source: W3C Trace Context, section 3.2.
fn trace_of(parent: &str) -> Option<TraceId> {
    let mut parts = parent.trim().split('-');
    let mut part = |digits: usize| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        parts.next().filter(|part| part.len() == digits && part.bytes().all(is_digit))
    };
    let version = part(2)?;
    let trace = part(32)?;
    let span = part(16)?;
    part(2)?;
    let has_more = parts.next().is_some();
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let is_valid = version != "ff" && !is_zero(trace) && !is_zero(span);
    (is_valid && (version != "00" || !has_more)).then(|| trace.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn ids_are_those_of_valid_headers() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (parent, expected) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), true),
            (format!("01-{trace}-00f067aa0ba902b7-00-later"), true),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), false),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), false),
            (format!("00-{trace}-0000000000000000-01"), false),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), false),
            (format!("00-{trace}-00f067aa0ba902b7"), false),
            (String::new(), false),
        ] {
            let found = trace_of(&parent).is_some_and(|found| found.as_str() == trace);
            assert_eq!(found, expected, "{parent}");
        }
        for (given, is_taken) in [("order-7", true), ("", false), ("a b", false), ("\u{e4}", false)]
        {
            let value = HeaderValue::from_str(given).expect("a value");
            let headers = HeaderMap::from_iter([(REQUEST_ID.parse().expect("a name"), value)]);
            let origin = RequestOrigin::of(&headers);
            assert_eq!(origin.request.as_str() == given, is_taken, "{given}");
            assert_eq!(origin.trace.as_str().len(), 32, "{given}");
        }
    }
}
