//! Threads on other servers that belong to threads of the store.
//!
//! A record is a [sequence write](crate::sequence) of its thread. When the thread is deleted, its
//! records become records of deletions in the same transaction, which stay until the other server
//! has deleted the thread there. Exports and copies of a thread have no such records: a copy uses
//! threads of its own.

use crate::sequence::{Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite};
use crate::table::{Result, Store};
use weftwork_types::canonical::Hash;
use weftwork_types::port::RemoteThreadRecord;
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Kind of the sequences with the remote threads of a thread. The key is the thread, the name of the
/// use, and the id of the remote thread, separated by slashes.
pub const REMOTE_THREADS: &str = "thread:remote";
/// Kind of the records of deletions, in the organisation of [`Principal::of_workers`]. The key is
/// the id of the remote thread.
pub const REMOTE_DELETIONS: &str = "remote:deletion";
/// Length of the id of a remote thread, with which the keys of [`REMOTE_THREADS`] end.
pub const REMOTE_ID_CHARS: usize = 36;

const FORMAT: u32 = 1;

/// Returns the key of the record of a deletion, given the key of the record of the remote thread.
pub(crate) fn deletion_key(key: &str) -> &str {
    key.get(key.len().saturating_sub(REMOTE_ID_CHARS)..).unwrap_or(key)
}

/// Returns the write that records a remote thread.
///
/// # Errors
/// Returns [`StoreError::Conflict`](crate::StoreError::Conflict) if the record has no JSON form.
pub fn record_of(
    thread: &ThreadId,
    name: Hash,
    record: &RemoteThreadRecord,
) -> Result<SequenceWrite> {
    let key = format!("{}/{name}/{}", thread.to_key(), record.thread);
    Ok(SequenceWrite::replace(Sequence::new(REMOTE_THREADS, key), Content::json(FORMAT, record)?))
}

/// Returns the remote thread that is recorded for a use by a thread.
///
/// # Errors
/// Returns [`StoreError::Corrupt`](crate::StoreError::Corrupt) if the record cannot be read.
pub async fn recorded(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
    name: Hash,
) -> Result<Option<RemoteThreadRecord>> {
    let kind = REMOTE_THREADS.to_owned();
    let first = format!("{}/{name}/", thread.to_key());
    let last = Some(format!("{first}~"));
    let query = SequenceQuery { kind, first, last, after: 0, limit: 1 };
    let rows = store.sequence_rows(who, query).await?;
    rows.first().map(SequenceRow::json).transpose()
}

/// A remote thread whose local thread was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteDeletion {
    row: SequenceRow,
    /// The remote thread.
    pub of: RemoteThreadRecord,
}

/// Returns at most `limit` deletions that other servers have not confirmed, after another one.
///
/// # Errors
/// Returns [`StoreError::Corrupt`](crate::StoreError::Corrupt) if a record cannot be read.
pub async fn remote_deletions(
    store: &dyn Store,
    after: Option<&RemoteDeletion>,
    limit: usize,
) -> Result<Vec<RemoteDeletion>> {
    let all = SequenceQuery { limit, ..SequenceQuery::all(REMOTE_DELETIONS) };
    let query = match after {
        Some(deletion) => all.following(&deletion.row),
        None => all,
    };
    let rows = store.sequence_rows(&Principal::of_workers(), query).await?;
    rows.into_iter().map(|row| Ok(RemoteDeletion { of: row.json()?, row })).collect()
}

/// Deletes the record of a deletion that the other server has confirmed.
///
/// # Errors
/// Only system errors.
pub async fn forget_deletion(
    store: &dyn Store,
    deletion: RemoteDeletion,
    now: Timestamp,
) -> Result<()> {
    let SequenceRow { sequence, version, .. } = deletion.row;
    store
        .write_sequences(
            &Principal::of_workers(),
            vec![SequenceWrite::delete(sequence, version)],
            now,
        )
        .await
}
