//! Verification, export and import of stores of any kind.

mod line;
mod read;
mod write;

pub use read::{Import, import};
pub use write::{Export, export};

use crate::Error;
use std::collections::BTreeSet;
use weftwork_graph::SystemClock;
use weftwork_runtime::{check_names, check_rows};
use weftwork_store::{Store, StoreError, ThreadExport};
use weftwork_types::canonical::Hash;
use weftwork_types::port::Clock;
use weftwork_types::{Principal, ThreadId};

/// Returns the ids of all threads of an organisation, most recently changed first.
///
/// # Errors
/// [`Error::Store`] if the store cannot be read.
pub async fn all_threads(store: &dyn Store, who: &Principal) -> Result<Vec<ThreadId>, Error> {
    let rows = store.threads(who, 0, usize::MAX).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Reads all rows of a thread and returns the damage found, an empty list if there is none.
///
/// Decodes the rows of all tables as runs do, follows all references, and compares every
/// checkpoint row with its checksum. Does not write and needs no graph. A thread that does not
/// exist has no damage.
///
/// # Errors
/// [`Error::Store`] if the store cannot be read.
pub async fn verify_thread(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<StoreError>, Error> {
    let whole = match store.export_thread(who, thread).await {
        Ok(whole) => whole,
        Err(damage @ (StoreError::Corrupt { .. } | StoreError::Newer { .. })) => {
            return Ok(vec![damage]);
        }
        // Deleted since the threads were listed.
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        Err(other) => return Err(other.into()),
    };
    let checked = check_rows(thread, &whole.kept);
    let mut problems = checked.problems;
    for hash in checked.names {
        problems.extend(names(store, who, thread, hash).await?.err());
    }
    Ok(problems)
}

/// Reads all items that have not expired and returns the first damaged one, an empty list if there
/// is none. Holds all items in memory at once.
///
/// # Errors
/// [`Error::Store`] if the store cannot be read.
pub async fn verify_items(store: &dyn Store, who: &Principal) -> Result<Vec<StoreError>, Error> {
    match store.stored_items(who, SystemClock::new().now()).await {
        Ok(_) => Ok(Vec::new()),
        Err(damage @ StoreError::Corrupt { .. }) => Ok(vec![damage]),
        Err(other) => Err(other.into()),
    }
}

/// Reads a layout (the names that rows omit and refer to by hash) and checks its bytes.
async fn names(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
    hash: Hash,
) -> Result<Result<Vec<u8>, StoreError>, Error> {
    let Some(bytes) = store.layout(who, hash).await? else {
        return Ok(Err(lost_names(thread, hash)));
    };
    Ok(check_names(hash, &bytes).map(|()| bytes))
}

/// Adds the layouts to which a thread's rows refer to the thread.
async fn with_names(
    store: &dyn Store,
    who: &Principal,
    mut whole: ThreadExport,
) -> Result<ThreadExport, Error> {
    for hash in sound(&whole)? {
        let bytes = names(store, who, &whole.thread.id, hash).await??;
        whole.kept.layouts.push((hash, bytes));
    }
    Ok(whole)
}

/// Checks a thread's rows and returns the hashes of the layouts to which they refer.
fn sound(whole: &ThreadExport) -> Result<BTreeSet<Hash>, StoreError> {
    let checked = check_rows(&whole.thread.id, &whole.kept);
    match checked.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(checked.names),
    }
}

fn lost_names(thread: &ThreadId, hash: Hash) -> StoreError {
    StoreError::Corrupt {
        location: format!("thread `{thread}`"),
        what: format!("the names `{hash}` that its rows leave out are missing"),
    }
}
