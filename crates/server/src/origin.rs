//! Ids of a request: of its own, and of the trace that it belongs to.

use axum::http::HeaderMap;
use uuid::Uuid;
use weftwork_types::telemetry::ParentSpan;
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
    /// The span of that header.
    pub(crate) parent: Option<ParentSpan>,
}

impl RequestOrigin {
    /// Creates new ids.
    pub(crate) fn new() -> Self {
        let request = RequestId::from_uuid(Uuid::now_v7());
        Self { request, trace: new_trace(Uuid::now_v7()), parent: None }
    }

    /// Reads the ids of a request; a header that is not valid is ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let new = Self::new();
        let request = text(REQUEST_ID).and_then(|id| id.parse().ok()).unwrap_or(new.request);
        match text("traceparent").and_then(parse_parent) {
            Some(parent) => Self { request, trace: parent.trace.clone(), parent: Some(parent) },
            None => Self { request, ..new },
        }
    }
}

fn new_trace(id: Uuid) -> TraceId {
    // A trace of W3C Trace Context has 32 hexadecimal digits.
    TraceId::new(id.simple().to_string()).unwrap_or_else(|_| TraceId::from_uuid(id))
}

/// Reads a `traceparent`: version, trace, parent and flags in hexadecimal digits, divided by `-`.
/// Later versions may have more parts.
///
/// Source: W3C Trace Context, section 3.2.
fn parse_parent(text: &str) -> Option<ParentSpan> {
    let mut parts = text.trim().split('-');
    let mut part = |digits: usize| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        parts.next().filter(|part| part.len() == digits && part.bytes().all(is_digit))
    };
    let version = part(2)?;
    let trace = part(32)?;
    let id = part(16)?.parse().ok()?;
    let flags = u8::from_str_radix(part(2)?, 16).ok()?;
    let has_more = parts.next().is_some();
    let is_valid = version != "ff" && trace.bytes().any(|byte| byte != b'0');
    if !is_valid || version == "00" && has_more {
        return None;
    }
    Some(ParentSpan { trace: trace.parse().ok()?, id, sampled: flags & 1 == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn ids_are_those_of_valid_headers() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (parent, expected) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-02"), Some(false)),
            (format!("01-{trace}-00f067aa0ba902b7-00-later"), Some(false)),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), None),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{trace}-0000000000000000-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{trace}-00f067aa0ba902b7"), None),
            (String::new(), None),
        ] {
            let found = parse_parent(&parent);
            assert_eq!(found.as_ref().map(|found| found.sampled), expected, "{parent}");
            if let Some(found) = found {
                let id = found.id.to_string();
                assert_eq!((found.trace.as_str(), &*id), (trace, "00f067aa0ba902b7"));
            }
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
