use super::{Channel, Refused, from_json, read_json, split_overwrite, to_json, typed, write_plain};
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;

/// A channel with a value for one superstep: the next superstep reads it, and it is then cleared
/// unless it is written again.
pub struct Ephemeral<T> {
    many: bool,
    types: PhantomData<fn() -> T>,
}

impl<T> Ephemeral<T> {
    /// Creates a channel that accepts at most one write per superstep.
    #[must_use]
    pub fn one() -> Self {
        Self { many: false, types: PhantomData }
    }

    /// Creates a channel that accepts any number of writes; the last in task order is used.
    #[must_use]
    pub fn any() -> Self {
        Self { many: true, types: PhantomData }
    }
}

impl<T> fmt::Debug for Ephemeral<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ephemeral<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Channel for Ephemeral<T> {
    fn kind(&self) -> &'static str {
        if self.many { "any" } else { "ephemeral" }
    }

    fn initial(&self) -> Option<Value> {
        None
    }

    fn lapses(&self) -> bool {
        true
    }

    fn apply(&self, _current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        let index = writes.len().saturating_sub(1);
        let bad = |reason| Refused::Bad { index, reason };
        if let Some(json) = split_overwrite(writes)? {
            return self.decode(json).map(Some).map_err(bad);
        }
        match writes {
            [_, .., _] if !self.many => Err(Refused::Conflict),
            [.., Write::Typed(value)] => {
                typed::<T>(value).map(|_| Some(value.clone())).map_err(bad)
            }
            [.., Write::Json(json) | Write::Overwrite(json)] => {
                self.decode(json).map(Some).map_err(bad)
            }
            [] => Ok(None),
        }
    }

    fn encode(&self, value: &Value) -> Result<serde_json::Value, String> {
        to_json(typed::<T>(value)?)
    }

    fn decode(&self, json: &serde_json::Value) -> Result<Value, String> {
        from_json::<T>(json).map(Value::new)
    }

    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String> {
        self.encode(write)
    }

    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_plain(typed::<T>(value)?, out)
    }

    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        read_json::<T>(json).map(Value::new)
    }

    fn write_write(&self, write: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_plain(typed::<T>(write)?, out)
    }
}
