//! Checkpoints in SQLite, and what one commit of one row costs there without us.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_graph::run_loop::Host;
use weftwork_runtime::StoreCheckpointer;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{
    Body, CheckpointBatch, CheckpointNamespace, CheckpointStore, FoundCheckpoint, ReadCheckpoints,
    Result, WriteCheckpoints,
};
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, Principal, ThreadId};

/// A store in a file, and a host that keeps checkpoints there.
pub(crate) struct Filed {
    pub(crate) host: Host,
    pub(crate) store: Arc<SqliteStore>,
    counted: Arc<Counted>,
    _dir: tempfile::TempDir,
}

impl Filed {
    pub(crate) fn open(durability: Durability) -> Self {
        Self::with(durability, Commits::Ours)
    }

    /// With something in the place of each commit: runs go as they would, and leave nothing.
    pub(crate) fn with(durability: Durability, made: Commits) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
        let store = Arc::new(store);
        let counted = Arc::new(Counted {
            store: Arc::clone(&store),
            made,
            commits: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
        });
        let saver: Arc<dyn CheckpointStore> = counted.clone();
        let host = Host::new().with_checkpointer(StoreCheckpointer::new(saver, Principal::local()));
        Self { host, store, counted, _dir: dir }
    }

    /// Returns the number of commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.counted.commits.load(Ordering::Relaxed)
    }

    /// The bytes of a commit, of those so far.
    pub(crate) fn bytes(&self) -> usize {
        self.counted.bytes.load(Ordering::Relaxed) / self.commits().max(1) as usize
    }

    /// Returns the number of checkpoints of a thread.
    pub(crate) async fn checkpoints(&self, thread: &str) -> usize {
        let thread = ThreadId::new(thread).expect("a name");
        let at = CheckpointNamespace { thread, ns: String::new() };
        self.store.page(&Principal::local(), &at, None, usize::MAX).await.expect("reads").len()
    }
}

/// A table with one row for each commit, of as many bytes as the rows it is compared with.
#[derive(Debug)]
pub(crate) struct Bare {
    conn: rusqlite::Connection,
    row: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Bare {
    pub(crate) fn open(durability: Durability, bytes: usize) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = connect(&dir.path().join("bare.db"), durability).expect("opens");
        Self { conn, row: vec![7; bytes], _dir: dir }
    }

    pub(crate) fn commit(&self, id: u64) {
        let cached = |sql: &str| self.conn.prepare_cached(sql).expect("sound");
        cached("BEGIN IMMEDIATE").execute([]).expect("begins");
        let mut insert = cached("INSERT INTO rows (thread, id, body) VALUES (?1, ?2, ?3)");
        insert.execute(rusqlite::params!["t", id.to_be_bytes(), self.row]).expect("inserts");
        cached("COMMIT").execute([]).expect("commits");
    }
}

fn connect(path: &Path, durability: Durability) -> rusqlite::Result<rusqlite::Connection> {
    let conn = rusqlite::Connection::open(path)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.execute_batch(
        "CREATE TABLE rows (thread TEXT, id BLOB, body BLOB, PRIMARY KEY (thread, id)) STRICT",
    )?;
    Ok(conn)
}

/// Work done for a commit.
#[derive(Debug)]
pub(crate) enum Commits {
    Ours,
    Nothing,
    ByHand(Mutex<Bare>),
}

/// Counts commits and their bytes.
#[derive(Debug)]
struct Counted {
    store: Arc<SqliteStore>,
    made: Commits,
    commits: AtomicU64,
    bytes: AtomicUsize,
}

impl ReadCheckpoints for Counted {
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        self.store.checkpoint(who, at, id)
    }
    fn checkpoint_bytes<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>> {
        self.store.checkpoint_bytes(who, at, ids)
    }
    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>> {
        self.store.page(who, at, before, limit)
    }
    fn checkpoint_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>> {
        self.store.checkpoint_namespaces(who, thread)
    }
    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>> {
        self.store.newest_id(who, thread)
    }
    fn blob<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.store.blob(who, hash)
    }
    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        self.store.layout(who, hash)
    }
}

impl WriteCheckpoints for Counted {
    fn put_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let rows = batch.checkpoints.iter().map(|new| new.tasks.len() + new.body.len());
        let parts = batch.pending.iter().map(|part| part.body.len());
        self.bytes.fetch_add(rows.chain(parts).sum(), Ordering::Relaxed);
        let before = self.commits.fetch_add(1, Ordering::Relaxed);
        match &self.made {
            Commits::Ours => return self.store.put_checkpoints(who, thread, batch),
            Commits::Nothing => {}
            Commits::ByHand(bare) => bare.lock().expect("sound").commit(before + 1),
        }
        Box::pin(std::future::ready(Ok(())))
    }
    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        self.store.rewrite(who, at, newest, batch)
    }
    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.store.copy_checkpoints(who, from, to)
    }
    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        self.store.delete_checkpoints(who, thread)
    }
    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>> {
        self.store.collect_blobs(who)
    }
}
