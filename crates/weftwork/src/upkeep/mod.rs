//! Looking after a store of any kind: is it what was written, and how does it get elsewhere?

mod line;
mod read;
mod write;

pub use read::{Import, import};
pub use write::{Export, export};

use crate::Error;
use std::collections::BTreeSet;
use weftwork_graph::SystemClock;
use weftwork_runtime::{check_names, check_rows};
use weftwork_store::{Store, StoreError, WholeThread};
use weftwork_types::canonical::Hash;
use weftwork_types::port::Clock;
use weftwork_types::{Principal, ThreadId};

/// The ids of all threads of an organisation, the last changed first.
///
/// # Errors
/// What the store says.
pub async fn all_threads(store: &dyn Store, who: &Principal) -> Result<Vec<ThreadId>, Error> {
    let rows = store.threads(who, 0, usize::MAX).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Reads everything of a thread and says what of it is not as it was written; nothing when all is
/// well. Rows of all tables are read as runs read them, whatever they refer to must be there, and
/// every row of a checkpoint must fit its checksum. Only reads, and needs no graph.
///
/// # Errors
/// What the store says when it cannot be asked.
pub async fn verify_thread(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<StoreError>, Error> {
    let whole = match store.whole(who, thread).await {
        Ok(whole) => whole,
        Err(damage @ (StoreError::Corrupt { .. } | StoreError::Newer { .. })) => {
            return Ok(vec![damage]);
        }
        // It was deleted a moment ago.
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

/// Reads all items that live and says what of them is not as it was written: the first that is
/// damaged. All items are held at once.
///
/// # Errors
/// What the store says when it cannot be asked.
pub async fn verify_items(store: &dyn Store, who: &Principal) -> Result<Vec<StoreError>, Error> {
    match store.stored_items(who, SystemClock::new().now()).await {
        Ok(_) => Ok(Vec::new()),
        Err(damage @ StoreError::Corrupt { .. }) => Ok(vec![damage]),
        Err(other) => Err(other.into()),
    }
}

/// Names that rows leave out, if they are whole.
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

/// Adds the names that a thread's rows leave out to what was read of it.
async fn with_names(
    store: &dyn Store,
    who: &Principal,
    mut whole: WholeThread,
) -> Result<WholeThread, Error> {
    for hash in sound(&whole)? {
        let bytes = names(store, who, &whole.thread.id, hash).await??;
        whole.kept.layouts.push((hash, bytes));
    }
    Ok(whole)
}

/// The hashes of the names that a thread's rows leave out, when these are as they were written.
fn sound(whole: &WholeThread) -> Result<BTreeSet<Hash>, StoreError> {
    let checked = check_rows(&whole.thread.id, &whole.kept);
    match checked.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(checked.names),
    }
}

fn lost_names(thread: &ThreadId, hash: Hash) -> StoreError {
    StoreError::Corrupt {
        place: format!("thread `{thread}`"),
        what: format!("the names `{hash}` that its rows leave out are missing"),
    }
}
