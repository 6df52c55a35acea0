//! Writes to sequences: records that a commit writes for readers outside of its run.
//!
//! A sequence has a kind, such as `mailbox`, and a key, such as a recipient. Its records are either
//! appended, or replaced with optimistic concurrency.

use crate::StoreError;
use serde::Serialize;

/// The name of a sequence within an organisation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    /// Kind of the records, such as `mailbox`.
    pub kind: String,
    /// Key among the sequences of this kind.
    pub key: String,
}

impl Sequence {
    /// Creates a name.
    pub fn new(kind: impl Into<String>, key: impl Into<String>) -> Self {
        Self { kind: kind.into(), key: key.into() }
    }
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Version of the format of `bytes`, chosen by the writer.
    pub format: u32,
    /// Bytes of the content.
    pub bytes: Vec<u8>,
}

impl Content {
    /// Creates a content from the JSON form of a value.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the value has no JSON form.
    pub fn json(format: u32, value: &impl Serialize) -> Result<Self, StoreError> {
        let bytes = serde_json::to_vec(value).map_err(|error| StoreError::Conflict {
            location: "a sequence write".to_owned(),
            expected: "a value that has a JSON form".to_owned(),
            found: error.to_string(),
        })?;
        Ok(Self { format, bytes })
    }
}

/// A write to a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceWrite {
    /// Sequence to write to.
    pub to: Sequence,
    /// Required version of the sequence before the write; 0 if nothing was ever written to it.
    pub expected: Option<u64>,
    /// The write.
    pub change: Change,
}

/// A change of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds a record.
    Append(Content),
    /// Replaces all records by one.
    Replace(Content),
    /// Deletes the records up to a version, inclusive. Does not change the version of the sequence.
    Delete {
        /// Version of the last record to delete.
        up_to: u64,
    },
}

impl SequenceWrite {
    /// Creates a write that appends a record.
    #[must_use]
    pub fn append(to: Sequence, content: Content) -> Self {
        Self { to, expected: None, change: Change::Append(content) }
    }

    /// Creates a write that replaces the records of a sequence by one.
    #[must_use]
    pub fn replace(to: Sequence, content: Content) -> Self {
        Self { to, expected: None, change: Change::Replace(content) }
    }

    /// Creates a write that deletes the records up to a version.
    #[must_use]
    pub fn delete(to: Sequence, up_to: u64) -> Self {
        Self { to, expected: None, change: Change::Delete { up_to } }
    }

    /// Requires a version of the sequence before the write.
    #[must_use]
    pub fn expecting(self, version: u64) -> Self {
        Self { expected: Some(version), ..self }
    }
}
