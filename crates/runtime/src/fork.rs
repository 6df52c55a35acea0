//! Copies of threads up to a checkpoint.

use std::collections::BTreeSet;
use weftwork_graph::RuntimeError;
use weftwork_store::{Store, StoreError, ThreadExport, ThreadRow, invariants};
use weftwork_types::{CheckpointId, Principal, ThreadId, Timestamp};

/// Creates the thread `to` with the checkpoints of another thread up to `at`, or up to its newest
/// one.
///
/// The new thread has no runs, recorded calls, usage records or open questions. Its next run
/// continues at the copied checkpoint, where all due tasks are executed again: they make their calls
/// themselves and ask their questions anew. Later changes of one thread do not affect the other.
/// The copy is written in one transaction.
///
/// # Errors
/// [`RuntimeError::Store`] with `NotFound` if the thread does not exist, with `Busy` if it has an
/// unfinished run and no checkpoint is named, with `Conflict` if `to` exists;
/// [`RuntimeError::UnknownCheckpoint`]; [`RuntimeError::NothingToContinue`] if the thread has no
/// checkpoint. Nothing was stored.
pub async fn fork_thread(
    store: &dyn Store,
    who: &Principal,
    (from, at): (&ThreadId, Option<CheckpointId>),
    to: &ThreadId,
    now: Timestamp,
) -> Result<(), RuntimeError> {
    let whole = store.export_thread(who, from).await?;
    let unfinished = whole.runs.iter().find(|run| !run.row.status.is_final());
    if let (Some(run), None) = (unfinished, at) {
        return Err(invariants::busy(&run.row.new.at).into());
    }
    match store.thread(who, to).await {
        Ok(_) => return Err(invariants::thread_exists(to).into()),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let nothing = || RuntimeError::NothingToContinue { thread: from.to_string() };
    let last = at.or(whole.thread.head).ok_or_else(nothing)?;
    if !whole.kept.checkpoints.iter().any(|row| row.ns.is_empty() && row.id == last) {
        let (thread, ns) = (from.to_string(), String::new());
        return Err(RuntimeError::UnknownCheckpoint { thread, ns, checkpoint: last });
    }
    Ok(store.import_thread(who, copy(whole, last, to, now)).await?)
}

/// The thread up to a checkpoint, whose superstep has not started. Ids sort by age, over all graphs
/// of a thread, and rows refer to older rows only.
fn copy(whole: ThreadExport, last: CheckpointId, to: &ThreadId, now: Timestamp) -> ThreadExport {
    let ThreadExport { thread, mut kept, .. } = whole;
    kept.checkpoints.retain(|row| row.id <= last);
    kept.pending.retain(|part| part.of < last);
    let thread = ThreadRow {
        id: to.clone(),
        graph: thread.graph,
        status: None,
        head: Some(last),
        created_at: now,
        updated_at: now,
        wakes_at: None,
        metadata: thread.metadata,
    };
    let (runs, interrupts, calls, usage) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut copied = ThreadExport { thread, runs, interrupts, calls, kept, usage };
    let referenced: BTreeSet<_> = copied.spoken().collect();
    copied.kept.blobs.retain(|(hash, _)| referenced.contains(hash));
    copied
}
