//! Ids of traces and spans. They are derived, so that no table has them and a trace that is sent again
//! has the same ones.

use std::num::NonZeroU64;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::telemetry::SpanId;
use weftwork_types::{RunId, TraceId};

/// A trace, as OpenTelemetry has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace(pub(crate) [u8; 16]);

impl Trace {
    /// Returns the trace of an id: its hexadecimal digits, or a hash of another text, such as that of
    /// a program on a user's machine.
    pub(crate) fn of(id: &TraceId) -> Self {
        let digits: String = id.as_str().chars().filter(|digit| *digit != '-').collect();
        let bits = u128::from_str_radix(&digits, 16).ok();
        if let Some(bits) = bits.filter(|bits| digits.len() == 32 && *bits != 0) {
            return Self(bits.to_be_bytes());
        }
        let hash = hash_bytes(id.as_str().as_bytes()).0;
        let mut trace = [0; 16];
        trace.copy_from_slice(&hash[..16]);
        Self(trace)
    }

    /// Returns the part of the id that is random in all kinds of ids.
    pub(crate) fn random_bits(self) -> u64 {
        let mut bits = [0; 8];
        bits[1..].copy_from_slice(&self.0[9..]);
        u64::from_be_bytes(bits)
    }
}

/// Source of the ids of the spans of a run, from one start or requeue to its end.
#[derive(Debug, Clone)]
pub(crate) struct SpanIds {
    run: RunId,
    segment: u32,
}

impl SpanIds {
    pub(crate) fn new(run: RunId, segment: u32) -> Self {
        Self { run, segment }
    }

    /// Returns the id of a span: `kind` and `key` identify it within the run.
    pub(crate) fn span(&self, kind: &str, key: &str) -> SpanId {
        let text = format!("weft.span\n{}\n{}\n{kind}\n{key}", self.run, self.segment);
        let hash = hash_bytes(text.as_bytes()).0;
        let bits = u64::from_be_bytes(hash[..8].try_into().unwrap_or([1; 8]));
        SpanId(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_that_of_its_id() {
        let trace = |id: &str| Trace::of(&TraceId::new(id).expect("an id"));
        let digits = "4bf92f3577b34da6a3ce929d0e0e4736";
        let hyphenated = trace("4bf92f35-77b3-4da6-a3ce-929d0e0e4736");
        assert_eq!(trace(digits), hyphenated);
        assert_eq!(hyphenated.0[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(hyphenated.random_bits(), 0xce_929d_0e0e_4736);
        let local = trace("local");
        assert_eq!(local, trace("local"));
        assert_ne!(local, trace("other"));
        assert_ne!(trace(&"0".repeat(32)).0, [0; 16]);
    }

    #[test]
    fn ids_of_spans_depend_on_all_that_identifies_them() {
        let ids = |run: &str, segment| SpanIds::new(RunId::new(run).expect("an id"), segment);
        let id = ids("r", 0).span("task", "a");
        assert_eq!(id, ids("r", 0).span("task", "a"));
        for other in [
            ids("s", 0).span("task", "a"),
            ids("r", 1).span("task", "a"),
            ids("r", 0).span("tool", "a"),
            ids("r", 0).span("task", "b"),
        ] {
            assert_ne!(id, other);
        }
    }
}
