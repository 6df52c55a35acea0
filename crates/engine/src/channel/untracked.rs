use super::{Channel, LastValue, Refused};
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A channel with the last value of one run, which is never stored: a resumed run starts without
/// it.
pub struct Untracked<T>(LastValue<T>);

impl<T> Untracked<T> {
    /// A channel that is empty until the first write of a run.
    #[must_use]
    pub fn new() -> Self {
        Self(LastValue::new())
    }
}

impl<T> Default for Untracked<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Untracked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untracked<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Channel for Untracked<T> {
    fn kind(&self) -> &'static str {
        "untracked"
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn initial(&self) -> Option<Value> {
        None
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        self.0.apply(current, writes)
    }

    fn encode(&self, value: &Value) -> Result<serde_json::Value, String> {
        self.0.encode(value)
    }

    fn decode(&self, json: &serde_json::Value) -> Result<Value, String> {
        self.0.decode(json)
    }

    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String> {
        self.0.encode_write(write)
    }
}
