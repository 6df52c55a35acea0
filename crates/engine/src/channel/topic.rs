use super::append::push_all;
use super::{
    Channel, Items, Refused, from_json, read_json, split_overwrite, to_json, typed, write_json,
};
use crate::list::List;
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;

/// A channel with all items written in one superstep, for the next one. A write is a `Vec` of
/// items; JSON may also be a single item that is not a list.
pub struct Topic<T>(PhantomData<fn() -> T>);

impl<T> Topic<T> {
    /// Creates a topic that is empty again after each superstep. [`Append`](super::Append)
    /// accumulates.
    #[must_use]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Topic<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Topic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Channel for Topic<T> {
    fn kind(&self) -> &'static str {
        "topic"
    }

    fn initial(&self) -> Option<Value> {
        None
    }

    fn lapses(&self) -> bool {
        true
    }

    fn apply(&self, _current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        if let Some(json) = split_overwrite(writes)? {
            let value = self.decode(json).map_err(|reason| Refused::Bad { index: 0, reason })?;
            return Ok(Some(value));
        }
        let mut list = List::<T>::new();
        push_all(&mut list, writes)?;
        Ok((!list.is_empty()).then(|| Value::new(list)))
    }

    fn encode(&self, value: &Value) -> Result<serde_json::Value, String> {
        to_json(typed::<List<T>>(value)?)
    }

    fn decode(&self, json: &serde_json::Value) -> Result<Value, String> {
        from_json::<List<T>>(json).map(Value::new)
    }

    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String> {
        to_json(&typed::<Items<T>>(write)?.as_slice())
    }

    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(typed::<List<T>>(value)?, out)
    }

    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        read_json::<List<T>>(json).map(Value::new)
    }

    fn write_write(&self, write: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(typed::<Items<T>>(write)?.as_slice(), out)
    }
}
