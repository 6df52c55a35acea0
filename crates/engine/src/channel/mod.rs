//! Channels: what a state is made of.
//!
//! A channel takes all writes of one superstep at once, in task order, and makes its next value of
//! them. To add a kind: one file here, one line in this list.

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

/// Why a channel refused a superstep's writes. The machine adds names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// More than one write to a channel that takes one.
    Conflict,
    /// The write at this index cannot be taken.
    Bad {
        /// Which write.
        index: usize,
        /// The reason it is refused.
        reason: String,
    },
}

/// The behaviour of a channel: initial value, updates and encoding. Implementations hold no state
/// of their own.
///
/// Laws, tested for each kind: `apply` with no writes changes nothing; a value survives `encode`
/// then `decode`, and what `write_value` writes; a value and what it was give a patch that makes
/// the one of the other.
pub trait Channel: Send + Sync + std::fmt::Debug {
    /// The kind in words, part of the graph's fingerprint: `last_value`, `append`.
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

    /// After how many updates the count of changes starts over, for channels that count them.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// The value that the run itself supplies for this channel; `None` if nodes write it.
    fn managed(&self) -> Option<Managed> {
        None
    }

    /// The next value. `current` is given up so that a value nobody shares can be changed in
    /// place. `writes` is not empty and holds the writes of one superstep in task order.
    ///
    /// # Errors
    /// [`Refused`] with the write that cannot be taken.
    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused>;

    /// A value as JSON.
    ///
    /// # Errors
    /// What is wrong, when it has another type or cannot be written as JSON.
    fn encode(&self, value: &Value) -> Result<serde_json::Value, String>;

    /// A value from JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    fn decode(&self, json: &serde_json::Value) -> Result<Value, String>;

    /// A write as JSON that this channel reads back as a [`Write::Json`].
    ///
    /// # Errors
    /// What is wrong, when it has another type or cannot be written as JSON.
    fn encode_write(&self, write: &Value) -> Result<serde_json::Value, String>;

    /// Adds a value as JSON text, the same as [`encode`](Self::encode) gives.
    ///
    /// # Errors
    /// As `encode`.
    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        write_json(&self.encode(value)?, out)
    }

    /// A value from JSON text.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        self.decode(&read_json(json)?)
    }

    /// Adds a write as JSON text, the same as [`encode_write`](Self::encode_write) gives.
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

    /// Adds what turns an older value into this one, for channels of lists; `false`, and nothing
    /// added, when the whole value is to be stored.
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

    /// The value that a patch makes of an older one.
    ///
    /// # Errors
    /// What is wrong with it.
    fn patched(&self, _older: Value, _patch: &[u8]) -> Result<Value, String> {
        Err("changes of this channel are not stored as patches".to_owned())
    }
}

fn write_json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, value).map_err(|e| e.to_string())
}

/// The same for a value that may be a text: one without anything to escape is copied.
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

/// Returns `true` if a text is the same in JSON. Scans all of it, many bytes at a time.
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
    // All of it at once: a reader of bytes looks at each text for itself.
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

/// The writes from the last overwrite on, and that overwrite's value. Two overwrites in one step
/// contradict each other.
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
