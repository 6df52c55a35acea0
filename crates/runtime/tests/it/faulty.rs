//! A store that lets a test interfere before and after each write for runs, and each read of a
//! checkpoint, and that has one
//! connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_store::table::Result;
use weftwork_store::*;
use weftwork_types::canonical::Hash;
use weftwork_types::event::{Piece, Position};
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{CallKey, CallRecord, CallState};
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
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
        _ if !commit.keep.checkpoints.is_empty() => "commit of a step",
        _ if !commit.keep.pending.is_empty() => "commit of tasks",
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
        (point, commit): (&'static str, Option<&Commit>),
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

impl ReadThreads for Faulty {
    fn thread<'a>(
        &'a self,
        w: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.inner.thread(w, id)
    }
    fn threads<'a>(
        &'a self,
        w: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        self.inner.threads(w, offset, limit)
    }
    fn search_threads<'a>(
        &'a self,
        w: &'a Principal,
        query: ThreadQuery,
    ) -> BoxFuture<'a, Result<ThreadPage>> {
        self.inner.search_threads(w, query)
    }
}

impl WriteThreads for Faulty {
    fn create_thread<'a>(
        &'a self,
        w: &'a Principal,
        new: NewThread,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.inner.create_thread(w, new)
    }
    fn update_metadata<'a>(
        &'a self,
        w: &'a Principal,
        id: &'a ThreadId,
        metadata: Metadata,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.inner.update_metadata(w, id, metadata, now)
    }
    fn delete_thread<'a>(
        &'a self,
        w: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.delete_thread(w, id)
    }
}

impl ReadRuns for Faulty {
    fn run<'a>(&'a self, w: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        self.inner.run(w, at)
    }
    fn runs<'a>(&'a self, w: &'a Principal, t: &'a ThreadId) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        self.inner.runs(w, t)
    }
    fn unfinished_runs<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        self.inner.unfinished_runs(w, t)
    }
    fn last_ended<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<RunRow>>> {
        self.inner.last_ended(w, t)
    }
    fn find_run<'a>(&'a self, w: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>> {
        self.inner.find_run(w, id)
    }
    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.inner.due(now, graphs, limit)
    }
    fn orphan_page(
        &self,
        now: Timestamp,
        page: OrphanPage,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.inner.orphan_page(now, page)
    }
    fn next_run<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<(Principal, RunRow)>>> {
        self.inner.next_run(w, t, now)
    }
    fn count_activities<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ActivityCounts>> {
        self.inner.count_activities(w, t)
    }
    fn to_stop<'a>(&'a self, w: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>> {
        self.inner.to_stop(w)
    }
}

impl WriteRuns for Faulty {
    fn create_run<'a>(
        &'a self,
        w: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>> {
        self.inner.create_run(w, run, answers)
    }
    fn create_claimed<'a>(
        &'a self,
        w: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let create = move || self.inner.create_claimed(w, run, answers, worker);
        Box::pin(self.at(("claim", None), create))
    }
    fn claim<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        Box::pin(self.at(("claim", None), move || self.inner.claim(w, at, worker, now)))
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
            self.at(("commit", Some(&told)), || self.inner.commit(w, claim, commit)).await
        })
    }
    fn release<'a>(
        &'a self,
        w: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>> {
        self.inner.release(w, claim, at)
    }
    fn requeue<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        self.inner.requeue(w, at, now)
    }
    fn request_cancel<'a>(&'a self, w: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<()>> {
        self.inner.request_cancel(w, at)
    }
}

impl Effects for Faulty {
    fn effects<'a>(
        &'a self,
        w: &'a Principal,
        query: EffectQuery,
    ) -> BoxFuture<'a, Result<Vec<EffectRow>>> {
        self.inner.effects(w, query)
    }
    fn effect_version<'a>(
        &'a self,
        w: &'a Principal,
        sequence: &'a Sequence,
    ) -> BoxFuture<'a, Result<u64>> {
        self.inner.effect_version(w, sequence)
    }
    fn apply_effects<'a>(
        &'a self,
        w: &'a Principal,
        effects: Vec<Effect>,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.apply_effects(w, effects, at)
    }
}

impl Retention for Faulty {
    fn untouched<'a>(
        &'a self,
        w: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        self.inner.untouched(w, which)
    }
    fn delete_untouched<'a>(
        &'a self,
        w: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>> {
        self.inner.delete_untouched(w, which)
    }
    fn drop_events<'a>(
        &'a self,
        w: &'a Principal,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>> {
        self.inner.drop_events(w, before, limit)
    }
}

impl ReadEvents for Faulty {
    fn events<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>> {
        self.inner.events(w, at, after, limit)
    }
    fn pieces<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>> {
        self.inner.pieces(w, at, after, limit)
    }
}

impl ReadInterrupts for Faulty {
    fn interrupts<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        self.inner.interrupts(w, t)
    }
}

impl JournalRead for Faulty {
    fn calls<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        self.inner.calls(w, t)
    }
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

impl ReadUsage for Faulty {
    fn usage_of_thread<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.inner.usage_of_thread(w, t)
    }
    fn usage_of_run<'a>(
        &'a self,
        w: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.inner.usage_of_run(w, run)
    }
}

impl ExportThreads for Faulty {
    fn export_thread<'a>(
        &'a self,
        w: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>> {
        self.inner.export_thread(w, id)
    }
}

impl ImportThreads for Faulty {
    fn import_thread<'a>(
        &'a self,
        w: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.import_thread(w, whole)
    }
}

impl WriteUsage for Faulty {
    fn record_usage<'a>(&'a self, w: &'a Principal, usage: UsageRow) -> BoxFuture<'a, Result<()>> {
        self.inner.record_usage(w, usage)
    }
}

impl Workers for Faulty {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.at(("keep_alive", None), move || self.inner.keep_alive(worker)))
    }
    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>> {
        self.inner.retire(worker)
    }
}

impl ReadCheckpoints for Faulty {
    fn checkpoint<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        let read = move || self.inner.checkpoint(w, at, id);
        Box::pin(self.at(("read of a checkpoint", None), read))
    }
    fn checkpoint_bytes<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>> {
        self.inner.checkpoint_bytes(w, at, ids)
    }
    fn page<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>> {
        self.inner.page(w, at, before, limit)
    }
    fn checkpoint_namespaces<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>> {
        self.inner.checkpoint_namespaces(w, t)
    }
    fn newest_id<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>> {
        self.inner.newest_id(w, t)
    }
    fn blob<'a>(&'a self, w: &'a Principal, hash: Hash) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.inner.blob(w, hash)
    }
    fn layout<'a>(
        &'a self,
        w: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.inner.layout(w, hash)
    }
}

impl WriteCheckpoints for Faulty {
    fn keep<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
        keep: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.keep(w, t, keep)
    }
    fn rewrite<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        keep: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.rewrite(w, at, newest, keep)
    }
    fn copy_checkpoints<'a>(
        &'a self,
        w: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.copy_checkpoints(w, from, to)
    }
    fn delete_checkpoints<'a>(
        &'a self,
        w: &'a Principal,
        t: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.delete_checkpoints(w, t)
    }
    fn collect_blobs<'a>(&'a self, w: &'a Principal) -> BoxFuture<'a, Result<u64>> {
        self.inner.collect_blobs(w)
    }
}

impl ItemTable for Faulty {
    fn item<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        self.inner.item(w, at, ttl, now)
    }
    fn search_items<'a>(
        &'a self,
        w: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        self.inner.search_items(w, within, query, now)
    }
    fn item_namespaces<'a>(
        &'a self,
        w: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        self.inner.item_namespaces(w, query, now)
    }
    fn put_item<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a ItemRef,
        value: serde_json::Value,
        options: PutOptions,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        self.inner.put_item(w, at, value, options, now)
    }
    fn delete_item<'a>(
        &'a self,
        w: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>> {
        self.inner.delete_item(w, at, now)
    }
    fn clear_items<'a>(
        &'a self,
        w: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        self.inner.clear_items(w, within, now)
    }
    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>> {
        self.inner.sweep_items(limit, now)
    }
    fn stored_items<'a>(
        &'a self,
        w: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>> {
        self.inner.stored_items(w, now)
    }
    fn put_stored_items<'a>(
        &'a self,
        w: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        self.inner.put_stored_items(w, items, now)
    }
}

impl Store for Faulty {
    fn place(&self) -> &str {
        "faulty"
    }
}
