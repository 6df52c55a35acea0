//! Copies of threads: up to a checkpoint, or with all that continues them.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use uuid::Uuid;
use weftwork_graph::RuntimeError;
use weftwork_store::mailbox::{SET_ASIDE_FROM, without_reserved};
use weftwork_store::thread::Metadata;
use weftwork_store::{RunExport, Store, StoreError, ThreadExport, ThreadRow, invariants};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::Clock;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp};

/// Member of the metadata of a thread that was forked, with the thread and the checkpoint of its
/// origin. It is for the runtime alone.
pub const FORKED_FROM: &str = "weft:forked_from";

/// The origin of a forked thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ForkedFrom {
    /// The other thread.
    thread: ThreadId,
    /// The newest checkpoint that was copied.
    at: CheckpointId,
}

/// Returns the origin of a thread; `None` if it was not forked.
fn forked_from(metadata: &Metadata) -> Option<ForkedFrom> {
    serde_json::from_value(metadata.get(FORKED_FROM)?.clone()).ok()
}

/// The threads from which a thread was forked.
#[derive(Debug)]
pub(crate) struct ForkOrigins {
    /// Nearest first.
    pub(crate) threads: Vec<ThreadId>,
    /// `false` if a further one was deleted, with its records.
    pub(crate) is_complete: bool,
}

/// Returns the threads that may have gone on from a position of a thread: those from which it was
/// forked, as far as the position came with the fork.
pub(crate) async fn fork_origins(
    store: &dyn Store,
    who: &Principal,
    mut thread: ThreadRow,
    position: Option<CheckpointId>,
) -> Result<ForkOrigins, StoreError> {
    let mut threads = Vec::new();
    while let Some(origin) = forked_from(&thread.metadata) {
        if position.is_none_or(|at| at > origin.at) {
            break;
        }
        thread = match store.thread(who, &origin.thread).await {
            Err(StoreError::NotFound { .. }) => {
                return Ok(ForkOrigins { threads, is_complete: false });
            }
            found => found?,
        };
        threads.push(origin.thread);
    }
    Ok(ForkOrigins { threads, is_complete: true })
}

/// The thread and the checkpoint from which [`fork_thread`] creates another thread.
#[derive(Debug, Clone, Copy)]
pub struct ForkSource<'a> {
    /// The thread whose checkpoints are copied.
    pub thread: &'a ThreadId,
    /// The last copied checkpoint; `None`: the newest one of the thread.
    pub checkpoint: Option<CheckpointId>,
}

/// Creates the thread `to` with the checkpoints of another thread up to the one that `from` names,
/// or up to its newest one.
///
/// The new thread has no runs, recorded calls, usage records or open questions. Its next run
/// continues at the copied checkpoint, where all due tasks are executed again: they make their calls
/// themselves and ask their questions anew. Later changes of one thread do not affect the other.
/// The copy is written in one transaction.
///
/// Effects of calls after the checkpoint stay made. The conversation of an agent has their outcomes
/// once new input begins at a copied checkpoint: the metadata of the new thread name its origin.
///
/// # Errors
/// [`RuntimeError::Store`] with `NotFound` if the thread does not exist, with `Busy` if it has an
/// unfinished run and no checkpoint is named, with `Conflict` if `to` exists;
/// [`RuntimeError::UnknownCheckpoint`]; [`RuntimeError::NothingToContinue`] if the thread has no
/// checkpoint. Nothing was stored.
pub async fn fork_thread(
    store: &dyn Store,
    who: &Principal,
    from: ForkSource<'_>,
    to: &ThreadId,
    now: Timestamp,
) -> Result<(), RuntimeError> {
    let ForkSource { thread: from, checkpoint: at } = from;
    let whole = store.export_thread(who, from).await?;
    let unfinished = whole.runs.iter().find(|run| !run.row.status.is_final());
    if let (Some(run), None) = (unfinished, at) {
        return Err(invariants::busy(&run.row.new.at).into());
    }
    check_free(store, who, to).await?;
    let nothing = || RuntimeError::NothingToContinue { thread: from.to_string() };
    let last = at.or(whole.thread.head).ok_or_else(nothing)?;
    if !whole.kept.checkpoints.iter().any(|row| row.ns.is_empty() && row.id == last) {
        let thread = from.to_string();
        let ns = String::new();
        return Err(RuntimeError::UnknownCheckpoint { thread, ns, checkpoint: last });
    }
    Ok(store.import_thread(who, copy_up_to(whole, last, to, now)).await?)
}

/// Creates a thread with everything that continues another one: its checkpoints, the finished tasks
/// of its open superstep, its questions with their answers, the time at which it wakes, and its last
/// run with its log, under an id of its own. The recorded calls of the thread belong to this run. Usage
/// records stay with the runs that were paid for. Later changes of one thread do not affect the other.
/// The copy is written in one transaction.
///
/// # Errors
/// [`RuntimeError::Store`] with `NotFound` if the thread does not exist, with `Busy` if it has an
/// unfinished run, with `Conflict` if the new thread exists; [`RuntimeError::NothingToContinue`] if
/// the thread has no run. Nothing was stored.
pub async fn copy_thread(
    store: &dyn Store,
    who: &Principal,
    from: &ThreadId,
    to: &ThreadId,
    clock: &dyn Clock,
) -> Result<(), RuntimeError> {
    let mut whole = store.export_thread(who, from).await?;
    if let Some(run) = whole.runs.iter().find(|run| !run.row.status.is_final()) {
        return Err(invariants::busy(&run.row.new.at).into());
    }
    check_free(store, who, to).await?;
    let nothing = || RuntimeError::NothingToContinue { thread: from.to_string() };
    let last = whole.runs.pop().ok_or_else(nothing)?;
    Ok(store.import_thread(who, continue_thread(whole, last, to, clock)).await?)
}

/// Creates a thread in which an activity of an instance continues that ended at a question. Activities
/// that wait stay with the instance.
///
/// # Errors
/// [`RuntimeError::Store`] with `NotFound` if the instance or the run does not exist, with `Conflict`
/// if the new thread exists. Nothing was stored.
pub(crate) async fn copy_activity(
    store: &dyn Store,
    who: &Principal,
    asked: &RunRef,
    to: &ThreadId,
    clock: &dyn Clock,
) -> Result<(), RuntimeError> {
    check_free(store, who, to).await?;
    let mut whole = store.export_thread(who, &asked.thread).await?;
    let at = whole.runs.iter().position(|run| run.row.new.at == *asked);
    let at = at.ok_or_else(|| invariants::missing("run", &asked.run))?;
    let last = whole.runs.swap_remove(at);
    // Those of activities before it have ended.
    whole.interrupts.retain(|row| row.run == asked.run);
    let activity = last.row.activity();
    let mut copied = continue_thread(whole, last, to, clock);
    // It is still the activity of the instance.
    for copy in &mut copied.runs {
        copy.row.new.options.activity.clone_from(&activity);
    }
    copied.thread.status = Some(RunStatus::Interrupted);
    let origin = json!(asked.thread);
    copied.thread.metadata.insert(SET_ASIDE_FROM.to_owned(), origin);
    Ok(store.import_thread(who, copied).await?)
}

/// Returns the content of a new thread that continues another one after this run of it.
fn continue_thread(
    whole: ThreadExport,
    mut last: RunExport,
    to: &ThreadId,
    clock: &dyn Clock,
) -> ThreadExport {
    let run = RunId::from_uuid(Uuid::from_u128(clock.unique()));
    let now = clock.now();
    let to = RunRef { thread: to.clone(), run };
    let ThreadExport { thread, mut interrupts, calls, kept, .. } = whole;
    for asked in interrupts.iter_mut().filter(|asked| asked.run == last.row.new.at.run) {
        asked.run = to.run.clone();
    }
    let open = interrupts.iter().filter(|row| row.is_open()).map(|row| &row.interrupt);
    last.row.new.at = to.clone();
    last.row.new.options.idempotency_key = None;
    last.row.new.options.roll_back = None;
    last.row.new.options.activity = None;
    // The copy of an instance is a thread, in which nothing is set aside.
    let wakes_at = match last.row.new.options.mailbox.take() {
        Some(_) => open.filter_map(Interrupt::lapses_at).min(),
        None => thread.wakes_at,
    };
    let options = &mut last.row.new.options;
    options.metadata = without_reserved(std::mem::take(&mut options.metadata));
    last.row.answers = None;
    last.row.rolled_back_by = None;
    let mut metadata = thread.metadata;
    let forked = metadata.remove(FORKED_FROM);
    metadata = without_reserved(metadata);
    metadata.extend(forked.map(|origin| (FORKED_FROM.to_owned(), origin)));
    let id = to.thread.clone();
    let thread = ThreadRow { id, created_at: now, updated_at: now, wakes_at, metadata, ..thread };
    let runs = vec![last];
    let usage = Vec::new();
    // Plans and deliverables are those of the thread in which they were made.
    let records = Vec::new();
    ThreadExport { thread, runs, interrupts, calls, kept, usage, records }
}

async fn check_free(store: &dyn Store, who: &Principal, to: &ThreadId) -> Result<(), RuntimeError> {
    match store.thread(who, to).await {
        Ok(_) => Err(invariants::thread_exists(to).into()),
        Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The thread up to a checkpoint, whose superstep has not started. Ids sort by age, over all graphs
/// of a thread, and rows refer to older rows only.
fn copy_up_to(
    whole: ThreadExport,
    last: CheckpointId,
    to: &ThreadId,
    now: Timestamp,
) -> ThreadExport {
    let ThreadExport { thread, mut kept, .. } = whole;
    kept.checkpoints.retain(|row| row.id <= last);
    kept.pending.retain(|part| part.of < last);
    let origin = ForkedFrom { thread: thread.id, at: last };
    let mut metadata = without_reserved(thread.metadata);
    metadata.insert(FORKED_FROM.to_owned(), json!(origin));
    let thread = ThreadRow {
        id: to.clone(),
        graph: thread.graph,
        status: None,
        head: Some(last),
        created_at: now,
        updated_at: now,
        wakes_at: None,
        metadata,
    };
    let runs = Vec::new();
    let interrupts = Vec::new();
    let calls = Vec::new();
    let usage = Vec::new();
    let records = Vec::new();
    let mut copied = ThreadExport { thread, runs, interrupts, calls, kept, usage, records };
    let referenced: BTreeSet<_> = copied.spoken().collect();
    copied.kept.blobs.retain(|(hash, _)| referenced.contains(hash));
    copied
}
