//! A store that lets a test interfere before and after each write for runs, and each read of a
//! checkpoint, and that has one connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_store::Result;
use weftwork_store::*;
use weftwork_types::canonical::Hash;
use weftwork_types::event::{Piece, Position};
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallKey, CallRecord, CallState};
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, InvocationId, OrgId, Principal, RunId, ThreadId,
    Timestamp, WorkerId,
};

/// When a test interferes with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nothing has happened yet; the write may be refused.
    Before,
    After,
}

/// The name of a write, by what it is about.
pub(crate) fn name(point: &'static str, commit: Option<&Commit>) -> &'static str {
    let Some(commit) = commit else { return point };
    let intent = |call: &Arc<CallRecord>| call.state == CallState::Intent;
    match commit {
        _ if commit.finish.is_some() => "commit of the end",
        _ if !commit.batch.checkpoints.is_empty() => "commit of a step",
        _ if !commit.batch.pending.is_empty() => "commit of tasks",
        _ if commit.calls.iter().any(intent) => "commit of an intent",
        _ if !commit.calls.is_empty() => "commit of a result",
        _ => "commit of events",
    }
}

/// Decision about a write, by its name: its delay, or the error it fails with.
pub(crate) type Say = std::result::Result<Duration, StoreError>;

type Interferes = dyn Fn(&'static str, Moment, Option<&Commit>) -> Say + Send + Sync;

/// Passes everything on, as far as the test lets it.
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    interferes: Mutex<Arc<Interferes>>,
    connection: tokio::sync::Mutex<()>,
    /// `true` if it reports each call as not on record.
    pub(crate) forgets: AtomicBool,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let interferes: Arc<Interferes> = Arc::new(|_, _, _| Ok(Duration::ZERO));
        Arc::new(Self {
            inner,
            interferes: Mutex::new(interferes),
            connection: Default::default(),
            forgets: AtomicBool::new(false),
        })
    }

    pub(crate) fn interfere(
        &self,
        interferes: impl Fn(&'static str, Moment, Option<&Commit>) -> Say + Send + Sync + 'static,
    ) {
        *self.interferes.lock().expect("not poisoned") = Arc::new(interferes);
    }

    /// Makes a write, with what the test says before and after it.
    async fn at<'a, T>(
        &'a self,
        point: &'static str,
        commit: Option<&Commit>,
        write: impl FnOnce() -> BoxFuture<'a, Result<T>> + Send,
    ) -> Result<T> {
        let interferes = Arc::clone(&self.interferes.lock().expect("not poisoned"));
        let wait = async |said: Say| -> Result<()> {
            let wait = said?;
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Ok(())
        };
        wait(interferes(point, Moment::Before, commit)).await?;
        let written = write().await;
        wait(interferes(point, Moment::After, commit)).await?;
        written
    }

    /// Waits for the connection and keeps it while the others get their turn.
    async fn connected(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let connection = self.connection.lock().await;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        connection
    }
}

/// Implements tables of a store by those of the inner one, except for the functions written by hand.
macro_rules! pass_on {
    ($($table:ident {
        $(fn $name:ident<$life:lifetime>($($arg:ident: $type:ty),*) -> $result:ty;)*
    } $(=> by hand { $($by_hand:tt)* })?)*) => { $(
        impl $table for Faulty {
            $(fn $name<$life>(&$life self, $($arg: $type),*) -> BoxFuture<$life, Result<$result>> {
                self.inner.$name($($arg),*)
            })*
            $($($by_hand)*)?
        }
    )* };
}

pass_on! {
ReadThreads {
    fn thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ThreadRow;
    fn threads<'a>(who: &'a Principal, offset: usize, limit: usize) -> Vec<ThreadRow>;
    fn search_threads<'a>(who: &'a Principal, query: ThreadQuery) -> ThreadPage;
}
WriteThreads {
    fn create_thread<'a>(who: &'a Principal, new: NewThread) -> ThreadRow;
    fn update_metadata<'a>(who: &'a Principal, id: &'a ThreadId, metadata: Metadata, now: Timestamp) -> ThreadRow;
    fn delete_thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ();
}
ReadRuns {
    fn runs<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<RunRow>;
    fn unfinished_runs<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<RunRow>;
    fn last_ended<'a>(who: &'a Principal, thread: &'a ThreadId) -> Option<RunRow>;
    fn find_run<'a>(who: &'a Principal, id: &'a RunId) -> RunRow;
    fn due<'a>(now: Timestamp, graphs: Vec<String>, limit: usize) -> Vec<(Principal, RunRow)>;
    fn orphan_page<'a>(now: Timestamp, page: OrphanPage) -> Vec<(Principal, RunRow)>;
    fn next_run<'a>(who: &'a Principal, thread: &'a ThreadId, now: Timestamp) -> Option<(Principal, RunRow)>;
    fn count_activities<'a>(who: &'a Principal, thread: &'a ThreadId) -> ActivityCounts;
    fn to_stop<'a>(who: &'a WorkerId) -> Vec<(OrgId, RunRef)>;
} => by hand {
    fn run<'a>(&'a self, w: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        Box::pin(self.at("read of a run", None, move || self.inner.run(w, at)))
    }
}
WriteRuns {
    fn create_run<'a>(who: &'a Principal, run: NewRun, answers: BTreeMap<InterruptId, Answer>) -> RunRow;
    fn release<'a>(who: &'a Principal, claim: &'a Claim, at: Timestamp) -> u64;
    fn requeue<'a>(who: &'a Principal, at: &'a RunRef, now: Timestamp) -> RunRow;
    fn request_cancel<'a>(who: &'a Principal, at: &'a RunRef) -> ();
} => by hand {
    fn create_claimed<'a>(
        &'a self,
        w: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let create = move || self.inner.create_claimed(w, run, answers, worker);
        Box::pin(self.at("claim", None, create))
    }
    fn claim<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        Box::pin(self.at("claim", None, move || self.inner.claim(w, at, worker, now)))
    }
    fn commit<'a>(
        &'a self,
        w: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(async move {
            let _connection = self.connected().await;
            let told = commit.clone();
            self.at("commit", Some(&told), || self.inner.commit(w, claim, commit)).await
        })
    }
}
Retention {
    fn untouched<'a>(who: &'a Principal, which: Untouched) -> Vec<ThreadRow>;
    fn delete_untouched<'a>(who: &'a Principal, which: Untouched) -> Vec<ThreadId>;
    fn drop_events<'a>(who: &'a Principal, before: Timestamp, limit: usize) -> u64;
}
ReadEvents {
    fn events<'a>(who: &'a Principal, at: &'a RunRef, after: u64, limit: usize) -> Vec<StoredEvent>;
    fn pieces<'a>(who: &'a Principal, at: &'a RunRef, after: Position, limit: usize) -> Vec<Piece>;
}
ReadInterrupts {
} => by hand {
    fn interrupts<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        Box::pin(self.at("interrupts", None, move || self.inner.interrupts(w, t)))
    }
}
JournalRead {
    fn calls<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<CallRecord>;
} => by hand {
    fn call<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        if self.forgets.load(Ordering::Relaxed) {
            return Box::pin(async { Ok(None) });
        }
        self.inner.call(w, t, key)
    }
    fn call_since<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
        key: CallKey,
        since: CheckpointId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        if self.forgets.load(Ordering::Relaxed) {
            return Box::pin(async { Ok(None) });
        }
        self.inner.call_since(w, t, key, since)
    }
}
ReadUsage {
    fn usage_of_thread<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<UsageRow>;
    fn usage_of_run<'a>(who: &'a Principal, run: &'a RunId) -> Vec<UsageRow>;
}
SequenceTable {
    fn sequence_rows<'a>(who: &'a Principal, query: SequenceQuery) -> Vec<SequenceRow>;
    fn effect_version<'a>(who: &'a Principal, sequence: &'a Sequence) -> u64;
    fn write_sequences<'a>(who: &'a Principal, writes: Vec<SequenceWrite>, at: Timestamp) -> ();
}
ExportThreads {
    fn export_thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ThreadExport;
}
ImportThreads {
    fn import_thread<'a>(who: &'a Principal, whole: ThreadExport) -> ();
}
WriteUsage {
    fn record_usage<'a>(who: &'a Principal, usage: UsageRow) -> ();
}
WriteBill {
    fn move_usage<'a>(limit: usize) -> usize;
    fn erase_names<'a>(who: &'a Principal, payer: &'a BilledTo) -> usize;
}
ReadBill {
    fn model_calls<'a>(who: &'a Principal, subject: &'a str) -> Vec<UsageRow>;
    fn receipts<'a>(who: &'a Principal, subject: &'a str) -> Vec<Receipt>;
    fn usage_totals<'a>(who: &'a Principal, period: Period) -> Vec<UsageTotal>;
}
LimitTable {
    fn subject_usage<'a>(subject: &'a BilledTo, from: Timestamp, except: &'a [InvocationId]) -> SubjectUsage;
    fn billed<'a>(who: &'a Principal, attempts: &'a [InvocationId]) -> Vec<InvocationId>;
    fn count_start<'a>(start: &'a NewStart) -> Option<StartRefusal>;
    fn starts<'a>(subject: &'a BilledTo, window: LimitWindow, from: Timestamp) -> StartCounts;
}
Workers {
    fn retire<'a>(worker: &'a WorkerId) -> ();
} => by hand {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.at("keep_alive", None, move || self.inner.keep_alive(worker)))
    }
}
ReadCheckpoints {
    fn checkpoint_bytes<'a>(who: &'a Principal, at: &'a CheckpointNamespace, ids: Vec<CheckpointId>) -> Vec<Body>;
    fn page<'a>(who: &'a Principal, at: &'a CheckpointNamespace, before: Option<CheckpointId>, limit: usize) -> Vec<FoundCheckpoint>;
    fn checkpoint_namespaces<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<CheckpointNamespace>;
    fn newest_id<'a>(who: &'a Principal, thread: &'a ThreadId) -> Option<CheckpointId>;
    fn blob<'a>(who: &'a Principal, hash: Hash) -> Option<Vec<u8>>;
    fn layout<'a>(who: &'a Principal, hash: Hash) -> Option<Vec<u8>>;
} => by hand {
    fn checkpoint<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        let read = move || self.inner.checkpoint(w, at, id);
        Box::pin(self.at("read of a checkpoint", None, read))
    }
}
WriteCheckpoints {
    fn put_checkpoints<'a>(who: &'a Principal, thread: &'a ThreadId, batch: CheckpointBatch) -> ();
    fn rewrite<'a>(who: &'a Principal, at: &'a CheckpointNamespace, newest: CheckpointId, batch: CheckpointBatch) -> ();
    fn copy_checkpoints<'a>(who: &'a Principal, from: &'a ThreadId, to: &'a ThreadId) -> ();
    fn delete_checkpoints<'a>(who: &'a Principal, thread: &'a ThreadId) -> ();
    fn collect_blobs<'a>(who: &'a Principal) -> u64;
}
ItemTable {
    fn item<'a>(who: &'a Principal, at: &'a ItemRef, ttl: Ttl, now: Timestamp) -> Option<Item>;
    fn search_items<'a>(who: &'a Principal, within: &'a Prefix, query: &'a ItemQuery, now: Timestamp) -> Vec<Item>;
    fn item_namespaces<'a>(who: &'a Principal, query: &'a NamespaceQuery, now: Timestamp) -> Vec<Namespace>;
    fn put_item<'a>(who: &'a Principal, at: &'a ItemRef, value: serde_json::Value, options: PutOptions, now: Timestamp) -> ();
    fn delete_item<'a>(who: &'a Principal, at: &'a ItemRef, now: Timestamp) -> bool;
    fn clear_items<'a>(who: &'a Principal, within: &'a Prefix, now: Timestamp) -> usize;
    fn sweep_items<'a>(limit: usize, now: Timestamp) -> usize;
    fn stored_items<'a>(who: &'a Principal, now: Timestamp) -> Vec<StoredItem>;
    fn put_stored_items<'a>(who: &'a Principal, items: Vec<StoredItem>, now: Timestamp) -> usize;
}
}

impl Store for Faulty {
    fn location(&self) -> &str {
        "faulty"
    }
}
