use super::{Channel, Refused, from_json, read_json, split_overwrite, to_json, typed, write_plain};
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A channel that folds the writes into the value in task order with a given function: a sum, a
/// maximum, a merge. The whole value is stored with each change.
pub struct Reduce<T> {
    initial: fn() -> T,
    reduce: fn(T, T) -> T,
}

impl<T> Reduce<T> {
    /// A channel that starts with `initial()` and folds with `reduce(value, write)`.
    #[must_use]
    pub fn new(initial: fn() -> T, reduce: fn(T, T) -> T) -> Self {
        Self { initial, reduce }
    }
}

impl<T> fmt::Debug for Reduce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reduce<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Channel for Reduce<T> {
    fn kind(&self) -> &'static str {
        "reduce"
    }

    fn initial(&self) -> Option<Value> {
        Some(Value::new((self.initial)()))
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        if let Some(json) = split_overwrite(writes)? {
            let value = self.decode(json).map_err(|reason| Refused::Bad { index: 0, reason })?;
            return Ok(Some(value));
        }
        let mut value = current.and_then(Value::take::<T>).unwrap_or_else(self.initial);
        for (index, write) in writes.iter().enumerate() {
            let bad = |reason| Refused::Bad { index, reason };
            let item = match write {
                Write::Typed(item) => typed::<T>(item).map_err(bad)?.clone(),
                Write::Json(json) | Write::Overwrite(json) => from_json(json).map_err(bad)?,
            };
            value = (self.reduce)(value, item);
        }
        Ok(Some(Value::new(value)))
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
