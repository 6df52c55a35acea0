use super::{
    Channel, Items, Refused, from_json, patch, read_json, split_overwrite, to_json, typed,
    write_json,
};
use crate::list::List;
use crate::value::{Value, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;

/// A list channel that appends. A write is [`Items`]; JSON may also be a single item that is not a
/// list.
pub struct Append<T> {
    counted: Option<u64>,
    types: PhantomData<fn() -> T>,
}

impl<T> Append<T> {
    /// A channel that starts empty.
    #[must_use]
    pub fn new() -> Self {
        Self { counted: None, types: PhantomData }
    }

    /// Counts updates in the metadata of checkpoints; the count restarts at zero after `every`
    /// updates.
    #[must_use]
    pub fn counted(mut self, every: u64) -> Self {
        self.counted = Some(every);
        self
    }
}

impl<T> Default for Append<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Append<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Append<{}>", std::any::type_name::<T>())
    }
}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Channel for Append<T> {
    fn kind(&self) -> &'static str {
        "append"
    }

    fn initial(&self) -> Option<Value> {
        Some(Value::new(List::<T>::new()))
    }

    fn counted(&self) -> Option<u64> {
        self.counted
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        if let Some(json) = split_overwrite(writes)? {
            let value = self.decode(json).map_err(|reason| Refused::Bad { index: 0, reason })?;
            return Ok(Some(value));
        }
        let mut list = current.and_then(Value::take::<List<T>>).unwrap_or_default();
        push_all(&mut list, writes)?;
        Ok(Some(Value::new(list)))
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

    fn items(&self, value: &Value) -> Option<usize> {
        value.get::<List<T>>().map(List::len)
    }

    fn write_patch(&self, older: &Value, value: &Value, out: &mut Vec<u8>) -> Result<bool, String> {
        patch::write(typed::<List<T>>(older)?, typed::<List<T>>(value)?, out)
    }

    fn patched(&self, older: Value, patch: &[u8]) -> Result<Value, String> {
        patch::apply(older, patch, patch::read_items::<T>)
    }
}

fn typed_items<T: 'static>(write: &Write) -> Option<&Items<T>> {
    match write {
        Write::Typed(items) => items.get(),
        Write::Json(_) | Write::Overwrite(_) => None,
    }
}

/// Appends the items of list writes to a list.
pub(super) fn push_all<T>(list: &mut List<T>, writes: &[Write]) -> Result<(), Refused>
where
    T: DeserializeOwned + Clone + 'static,
{
    if writes.iter().all(|write| typed_items::<T>(write).is_some()) {
        list.extend(writes.iter().filter_map(typed_items).flatten().cloned());
        return Ok(());
    }
    for (index, write) in writes.iter().enumerate() {
        let bad = |reason| Refused::Bad { index, reason };
        match write {
            Write::Typed(items) => {
                list.extend(typed::<Items<T>>(items).map_err(bad)?.iter().cloned());
            }
            Write::Json(json) if json.is_array() => {
                list.extend(from_json::<Vec<T>>(json).map_err(bad)?);
            }
            Write::Json(json) | Write::Overwrite(json) => {
                list.push(from_json(json).map_err(bad)?);
            }
        }
    }
    Ok(())
}
