use super::{Channel, Refused, from_json, to_json, typed};
use crate::value::{Value, Write};

/// A value that the run supplies and nodes only read. It is not part of the state: neither input
/// nor output, and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Managed {
    /// `true` in the last superstep that the run may execute: a `bool`.
    LastStep,
    /// Number of remaining supersteps of the run, including the current one: an `i64`.
    Remaining,
}

impl Managed {
    /// Its value in superstep `step` of a run that stops before superstep `stop`.
    #[must_use]
    pub fn value(self, step: i64, stop: i64) -> Value {
        match self {
            Self::LastStep => Value::new(step == stop - 1),
            Self::Remaining => Value::new(stop - step),
        }
    }
}

impl Channel for Managed {
    fn kind(&self) -> &'static str {
        match self {
            Self::LastStep => "last_step",
            Self::Remaining => "remaining",
        }
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn initial(&self) -> Option<Value> {
        None
    }

    fn managed(&self) -> Option<Managed> {
        Some(*self)
    }

    fn apply(&self, _current: Option<Value>, _writes: &[Write]) -> Result<Option<Value>, Refused> {
        let reason = "the run keeps it; nodes only read it".to_owned();
        Err(Refused::Bad { index: 0, reason })
    }

    fn encode(&self, value: &Value) -> Result<serde_json::Value, String> {
        match self {
            Self::LastStep => to_json(typed::<bool>(value)?),
            Self::Remaining => to_json(typed::<i64>(value)?),
        }
    }

    fn decode(&self, json: &serde_json::Value) -> Result<Value, String> {
        match self {
            Self::LastStep => from_json::<bool>(json).map(Value::new),
            Self::Remaining => from_json::<i64>(json).map(Value::new),
        }
    }

    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String> {
        self.encode(write)
    }
}
