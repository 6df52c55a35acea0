//! Channels, the parts of a state.
//!
//! A channel applies all writes of a superstep together, in task order. A new kind is a file in
//! this folder and a line in this list.

mod append;
mod ephemeral;
mod last_value;
mod managed;
mod messages;
pub(crate) mod patch;
mod reduce;
mod topic;
mod untracked;

pub use append::Append;
pub use ephemeral::Ephemeral;
pub use last_value::LastValue;
pub use managed::Managed;
pub use messages::{MessageWrite, Messages, REMOVE_ALL, ids_in, ids_in_json};
pub(crate) use messages::{messages_in_json, messages_written, returned_messages};
pub use reduce::Reduce;
pub use topic::Topic;
pub use untracked::Untracked;

use crate::ids::cut;
use crate::value::{Value, Write};
use serde::de::DeserializeSeed;
use smallvec::SmallVec;
use std::any::Any;
use std::marker::PhantomData;

/// The items of one write to a list channel: mostly a single one.
pub type Items<T> = SmallVec<[T; 1]>;

/// The reason for which a channel refused the writes of a superstep. The machine adds names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// More than one write to a channel that accepts one.
    Conflict,
    /// The write at this index is not acceptable.
    Bad {
        /// The index of the write.
        index: usize,
        /// The reason it is refused.
        reason: String,
    },
}

/// The behaviour of a channel: initial value, updates and encoding. Implementations hold no state
/// of their own.
///
/// Laws, tested for each kind: `apply` without writes changes nothing; a value is unchanged by
/// `encode` and `decode`, and by `write_value` and reading the text; a patch of an older and a
/// newer value turns the older one into the newer one.
pub trait Channel: Send + Sync + std::fmt::Debug {
    /// The name of the kind, part of the graph's fingerprint: `last_value`, `append`.
    fn kind(&self) -> &'static str;

    /// The value before any write.
    fn initial(&self) -> Option<Value>;

    /// `true` if checkpoints store the value.
    fn is_stored(&self) -> bool {
        true
    }

    /// `true` if a superstep that does not write the channel clears it.
    fn lapses(&self) -> bool {
        false
    }

    /// The number of updates after which the count of changes restarts, for channels that count
    /// them.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// The value that the run itself supplies for this channel; `None` if nodes write it.
    fn managed(&self) -> Option<Managed> {
        None
    }

    /// Computes the next value. Takes `current` by value, so that a value that is not shared can be
    /// changed in place. `writes` is not empty and has the writes of one superstep in task order.
    ///
    /// # Errors
    /// [`Refused`] with the write that is not acceptable.
    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused>;

    /// A value as JSON.
    ///
    /// # Errors
    /// A description of the problem, if the value has another type or cannot be written as JSON.
    fn encode(&self, value: &Value) -> Result<serde_json::Value, String>;

    /// A value from JSON.
    ///
    /// # Errors
    /// A description of the problem.
    fn decode(&self, json: &serde_json::Value) -> Result<Value, String>;

    /// A write as JSON that this channel reads back as a [`Write::Json`].
    ///
    /// # Errors
    /// What is wrong, when it has another type or cannot be written as JSON.
    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String>;

    /// Appends a value as JSON text, equal to the result of [`encode`](Self::encode).
    ///
    /// # Errors
    /// As `encode`.
    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(&self.encode(value)?, out)
    }

    /// A value from JSON text.
    ///
    /// # Errors
    /// A description of the problem.
    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        self.decode(&read_json(json)?)
    }

    /// Appends a write as JSON text, equal to the result of [`encode_write`](Self::encode_write).
    ///
    /// # Errors
    /// As `encode_write`.
    fn write_write(&self, write: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(&self.encode_write(write)?, out)
    }

    /// Number of items in the value if it is a list, whose changes are stored as patches.
    fn items(&self, _value: &Value) -> Option<usize> {
        None
    }

    /// Appends a patch that turns an older value into this one, for channels of lists; returns
    /// `false` and appends nothing if the whole value is to be stored.
    ///
    /// # Errors
    /// As `encode`.
    fn write_patch(
        &self,
        _older: &Value,
        _value: &Value,
        _out: &mut Vec<u8>,
    ) -> Result<bool, String> {
        Ok(false)
    }

    /// Applies a patch to an older value.
    ///
    /// # Errors
    /// A description of the problem.
    fn patched(&self, _older: Value, _patch: &[u8]) -> Result<Value, String> {
        Err("changes of this channel are not stored as patches".to_owned())
    }
}

fn write_json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, value).map_err(|e| e.to_string())
}

/// Writes a value that may be a text; a text without characters to escape is copied.
fn write_plain<T: serde::Serialize + 'static>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    let any = value as &dyn Any;
    let text = match any.downcast_ref::<Option<String>>() {
        Some(text) => text.as_ref(),
        None => any.downcast_ref::<String>(),
    };
    let Some(text) = text.filter(|text| is_plain(text.as_bytes())) else {
        return write_json(value, out);
    };
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

/// Returns `true` if a text needs no escapes in JSON. Scans all of it, many bytes at a time.
fn is_plain(text: &[u8]) -> bool {
    !text
        .iter()
        .fold(false, |escaped, byte| escaped | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
}

fn read_json<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    read_json_into(PhantomData, json)
}

fn read_json_into<'de, S: DeserializeSeed<'de>>(
    seed: S,
    json: &'de [u8],
) -> Result<S::Value, String> {
    // Validates all of it at once: a reader of bytes would validate each text separately.
    let text = std::str::from_utf8(json).map_err(|e| e.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut reader).map_err(|e| e.to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(value)
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<serde_json::Value, String> {
    serde_json::to_value(value).map_err(|e| e.to_string())
}

fn from_json<T: serde::de::DeserializeOwned>(json: &serde_json::Value) -> Result<T, String> {
    T::deserialize(json).map_err(|e| format!("{e}; found {}", cut(&json.to_string())))
}

fn typed<T: 'static>(value: &Value) -> Result<&T, String> {
    value
        .get::<T>()
        .ok_or_else(|| format!("expected a value of type {}", std::any::type_name::<T>()))
}

/// The writes after the last overwrite, and the value of that overwrite. Two overwrites in one
/// superstep are a conflict.
fn split_overwrite(writes: &[Write]) -> Result<Option<&serde_json::Value>, Refused> {
    let mut found = None;
    for (index, write) in writes.iter().enumerate() {
        if let Write::Overwrite(json) = write {
            if found.is_some() {
                let reason = "it is overwritten twice in one superstep; overwrite it once, or write to it and leave the rest to its reducer"
                        .to_owned();
                return Err(Refused::Bad { index, reason });
            }
            found = Some(&**json);
        }
    }
    Ok(found)
}
