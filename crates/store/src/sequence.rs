//! Sequence writes: records that a commit writes for readers outside of its run.
//!
//! A record is in a sequence, which has a kind, such as `mailbox` or `outbox`, and a key, such as a
//! recipient. Each write increases the version of its sequence by one, and the record has that
//! version; versions are never used again. A sequence whose records are appended is a queue: a
//! consumer reads it in order and deletes what it has processed. A sequence whose record is
//! replaced is a value with optimistic concurrency. A store does not interpret the content.
//!
//! The sequence writes of a commit are made in its transaction, or not at all.

use crate::StoreError;
use crate::table::Result;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
pub use weftwork_types::sequence::{Change, Content, Sequence, SequenceWrite};
use weftwork_types::{BoxFuture, Principal, ThreadId, Timestamp};

/// Maximum number of records that one read returns. A higher limit has the same effect.
pub const SEQUENCE_ROWS_MAX: usize = 1_000;
/// Maximum length of the kind and of the key of a sequence, in bytes.
pub const SEQUENCE_BYTES_MAX: usize = 512;

/// Kind of the sequences of calls that policies refer to; the key is a thread and a run.
pub const PAST_CALLS: &str = "thread:past_call";
/// Kind of the sequences of plans; the key is a thread and the id of a plan.
pub const PLANS: &str = "thread:plan";
/// Kind of the sequences of deliverables; the key is a thread and the id of a deliverable.
pub const DELIVERABLES: &str = "thread:deliverable";
/// Kind of the sequences of pauses of orchestrations; the key begins with a thread.
pub const PAUSES: &str = "thread:pause";
/// Kind of the sequences of contents of plans and deliverables; the key begins with a thread.
pub const RECORD_CONTENTS: &str = "thread:content";
/// Kinds of the sequences that belong to a thread and are deleted with it. Their keys begin with
/// the id of the thread and a slash, which no id contains. Records of the kind
/// [`REMOTE_THREADS`](crate::remote::REMOTE_THREADS) are moved instead, as
/// [`remote`](crate::remote) defines.
pub const KINDS_OF_THREADS: [&str; 7] = [
    crate::artifact::ARTIFACTS,
    PAST_CALLS,
    crate::approval::APPROVALS,
    PLANS,
    DELIVERABLES,
    RECORD_CONTENTS,
    PAUSES,
];

/// Kinds of the sequences that are exported with their thread.
pub const EXPORTED_KINDS: [&str; 3] = [PLANS, DELIVERABLES, RECORD_CONTENTS];

/// Returns the lowest and the highest key of the sequences of a thread.
#[must_use]
pub fn of_thread(thread: &ThreadId) -> (String, String) {
    let key = thread.to_key();
    (format!("{key}/"), format!("{key}/~"))
}

/// A record as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRow {
    /// Sequence of the record.
    pub sequence: Sequence,
    /// Version of the sequence after the write of the record.
    pub version: u64,
    /// Time of the write.
    pub at: Timestamp,
    /// Content of the record.
    pub content: Content,
}

impl SequenceRow {
    /// Parses a content that was written by [`Content::json`].
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if the content has another form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.content.bytes).map_err(|error| StoreError::Corrupt {
            location: format!("{}, version {}", describe_sequence(&self.sequence), self.version),
            what: error.to_string(),
        })
    }
}

/// A read of records, ordered by key and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceQuery {
    /// Kind of the sequences.
    pub kind: String,
    /// Lowest key.
    pub first: String,
    /// Highest key; `None` for all keys from the first on.
    pub last: Option<String>,
    /// Version after which the records of the first key are read; those of the others are read from
    /// their first one on.
    pub after: u64,
    /// Maximum number of records, at most [`SEQUENCE_ROWS_MAX`].
    pub limit: usize,
}

impl SequenceQuery {
    /// Creates a read of one sequence after a version.
    #[must_use]
    pub fn of(sequence: Sequence, after: u64) -> Self {
        let Sequence { kind, key } = sequence;
        Self { kind, first: key.clone(), last: Some(key), after, limit: SEQUENCE_ROWS_MAX }
    }

    /// Creates a read of all sequences of a kind.
    pub fn all(kind: impl Into<String>) -> Self {
        let kind = kind.into();
        let first = String::new();
        Self { kind, first, last: None, after: 0, limit: SEQUENCE_ROWS_MAX }
    }

    /// Returns the read that continues after a record.
    #[must_use]
    pub fn following(self, row: &SequenceRow) -> Self {
        Self { first: row.sequence.key.clone(), after: row.version, ..self }
    }

    /// Returns the number of records to read.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.limit.min(SEQUENCE_ROWS_MAX)
    }
}

/// Reads and writes records outside of commits.
pub trait SequenceTable: Send + Sync {
    /// Returns the records that a query selects.
    ///
    /// # Errors
    /// Only system errors.
    fn sequence_rows<'a>(
        &'a self,
        who: &'a Principal,
        query: SequenceQuery,
    ) -> BoxFuture<'a, Result<Vec<SequenceRow>>>;

    /// Returns the version of a sequence; 0 if nothing was ever written to it.
    ///
    /// # Errors
    /// Only system errors.
    fn effect_version<'a>(
        &'a self,
        who: &'a Principal,
        sequence: &'a Sequence,
    ) -> BoxFuture<'a, Result<u64>>;

    /// Applies writes in one transaction, for writers and consumers that have no run. If the
    /// connection breaks, writes without an expected version may be applied twice.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if a sequence does not have the expected version, or if its
    /// name exceeds a limit. Nothing was changed.
    fn write_sequences<'a>(
        &'a self,
        who: &'a Principal,
        writes: Vec<SequenceWrite>,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>>;
}

/// Returns the version of the sequence after a write, given the version before it. Every store
/// calls this before it writes.
///
/// # Errors
/// Returns [`StoreError::Conflict`] if the write expects another version, or the name of the
/// sequence exceeds a limit.
pub fn version_after(write: &SequenceWrite, version: u64) -> Result<u64> {
    check_name(&write.to)?;
    if write.expected.is_some_and(|expected| expected != version) {
        return Err(wrong_version(write, version));
    }
    match write.change {
        Change::Append(_) | Change::Replace(_) => Ok(version + 1),
        Change::Delete { .. } => Ok(version),
    }
}

/// Checks writes that are applied one after the other, given the versions of their sequences.
pub(crate) fn check_all(
    writes: &[SequenceWrite],
    version: impl Fn(&Sequence) -> u64,
) -> Result<()> {
    let mut versions = BTreeMap::new();
    for write in writes {
        let known = versions.entry(&write.to).or_insert_with(|| version(&write.to));
        *known = version_after(write, *known)?;
    }
    Ok(())
}

/// Checks the name of a sequence.
///
/// # Errors
/// Returns [`StoreError::Conflict`] if it exceeds a limit or has a NUL character.
pub fn check_name(sequence: &Sequence) -> Result<()> {
    let fits = |text: &str| text.len() <= SEQUENCE_BYTES_MAX && !text.contains('\0');
    if !sequence.kind.is_empty() && fits(&sequence.kind) && fits(&sequence.key) {
        return Ok(());
    }
    Err(StoreError::Conflict {
        location: "a sequence write".to_owned(),
        expected: format!(
            "a kind and a key of at most {SEQUENCE_BYTES_MAX} bytes without NUL characters"
        ),
        found: format!("{} and {} bytes", sequence.kind.len(), sequence.key.len()),
    })
}

/// Creates the error for a sequence that does not have the expected version.
#[must_use]
pub fn wrong_version(write: &SequenceWrite, found: u64) -> StoreError {
    StoreError::Conflict {
        location: describe_sequence(&write.to),
        expected: format!("version {}", write.expected.unwrap_or_default()),
        found: format!("version {found}"),
    }
}

fn describe_sequence(sequence: &Sequence) -> String {
    format!("sequence {:?} of kind `{}`", sequence.key, sequence.kind)
}
