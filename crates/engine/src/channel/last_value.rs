use super::{Channel, Refused, from_json, read_json, split_overwrite, to_json, typed, write_plain};
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;

/// A channel with the last value. Accepts at most one write per superstep.
pub struct LastValue<T> {
    initial: Option<fn() -> T>,
    types: PhantomData<fn() -> T>,
}

impl<T> LastValue<T> {
    /// A channel that is empty until the first write.
    #[must_use]
    pub fn new() -> Self {
        Self { initial: None, types: PhantomData }
    }

    /// A channel that starts with a value.
    #[must_use]
    pub fn starting_with(initial: fn() -> T) -> Self {
        Self { initial: Some(initial), types: PhantomData }
    }
}

impl<T> Default for LastValue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for LastValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LastValue<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Channel for LastValue<T> {
    fn kind(&self) -> &'static str {
        "last_value"
    }

    fn initial(&self) -> Option<Value> {
        self.initial.map(|make| Value::new(make()))
    }

    fn apply(&self, _current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        let bad = |reason| Refused::Bad { index: 0, reason };
        if let Some(json) = split_overwrite(writes)? {
            return self.decode(json).map(Some).map_err(bad);
        }
        match writes {
            [Write::Typed(value)] => typed::<T>(value).map(|_| Some(value.clone())).map_err(bad),
            [Write::Json(json)] => self.decode(json).map(Some).map_err(bad),
            _ => Err(Refused::Conflict),
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
