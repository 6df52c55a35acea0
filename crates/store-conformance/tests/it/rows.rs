//! The conformance suites on a store over rows, and races of two stores over the same rows.

use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use weftwork_store::rows::{
    Batch, Key, KeyRange, MemoryRows, Order, RowStore, Rows, Value, Written,
};
use weftwork_store::{CheckpointBatch, NewCheckpoint};
use weftwork_store::{
    Claim, Commit, Content, ItemStore, NewRun, ReadRuns, Sequence, SequenceQuery, SequenceTable,
    SequenceWrite, Store, StoreError, StoreItems, WorkerRow, Workers, WriteCheckpoints, WriteRuns,
};
use weftwork_store_conformance::{item_store, rows, run_case};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{
    BoxFuture, CheckpointId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

/// Every future over [`MemoryRows`] is ready at its first poll.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

mod suite {
    use super::*;

    fn run(case: &str) {
        let fresh = async || Arc::new(RowStore::new(MemoryRows::default())) as Arc<dyn Store>;
        ready(run_case(case, fresh));
    }

    weftwork_store_conformance::conformance_tests!(run);
}

mod items {
    use super::*;

    fn run(case: &str) {
        ready(item_store::run_case(case, |clock| async {
            let store = Arc::new(RowStore::new(MemoryRows::default()));
            Arc::new(StoreItems::of(store, clock)) as Arc<dyn ItemStore>
        }));
    }

    weftwork_store_conformance::item_conformance_tests!(run);
}

mod memory_rows {
    use super::*;

    fn run(case: &str) {
        ready(rows::run_case(case, async || Arc::new(MemoryRows::default()) as Arc<dyn Rows>));
    }

    weftwork_store_conformance::rows_conformance_tests!(run);
}

/// Rows that let other threads act between any two calls, and count conflicts.
#[derive(Debug)]
struct Contested {
    rows: MemoryRows,
    conflicts: AtomicUsize,
    /// All threads meet before each of their first writes, so that they race however busy the
    /// machine is.
    meeting: Barrier,
}

/// Writes of each thread before which all threads meet.
const MEETINGS: usize = 5;

thread_local! {
    static WRITES: Cell<usize> = const { Cell::new(0) };
}

impl Rows for Contested {
    fn location(&self) -> &str {
        self.rows.location()
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, weftwork_store::Result<Vec<Option<Value>>>> {
        thread::yield_now();
        self.rows.get(keys)
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, weftwork_store::Result<Vec<(Key, Value)>>> {
        thread::yield_now();
        self.rows.scan(range, order, limit)
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, weftwork_store::Result<Written>> {
        if WRITES.replace(WRITES.get() + 1) < MEETINGS {
            self.meeting.wait();
        }
        thread::yield_now();
        Box::pin(async {
            let written = self.rows.write(batch).await;
            if written == Ok(Written::Conflict) {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            written
        })
    }
}

fn us() -> Principal {
    Principal::new(OrgId::new("us").expect("an id"), "ann")
}

fn thread_id(name: &str) -> ThreadId {
    ThreadId::new(name).expect("an id")
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("an id")
}

fn at(name: &str) -> RunRef {
    RunRef { thread: thread_id(name), run: RunId::new(name).expect("an id") }
}

fn new_run(name: &str) -> NewRun {
    NewRun {
        at: at(name),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request-1").expect("an id"),
        input: RunInput::Start { input: json!({"text": "hello"}) },
        options: RunOptions::default(),
        created_at: Timestamp(1_000),
    }
}

/// Runs `work` at once in as many threads, each with a store of its own over the same rows.
fn race<T: Send>(
    count: usize,
    work: impl Fn(usize, &RowStore<Arc<Contested>>) -> T + Sync,
) -> Vec<T> {
    let rows = Arc::new(Contested {
        rows: MemoryRows::default(),
        conflicts: AtomicUsize::default(),
        meeting: Barrier::new(count),
    });
    let results = thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|n| {
                let rows = Arc::clone(&rows);
                let work = &work;
                scope.spawn(move || {
                    let store = RowStore::new(rows);
                    work(n, &store)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
    });
    assert!(rows.conflicts.load(Ordering::Relaxed) > 0, "the threads did not race");
    results
}

#[test]
fn each_run_is_created_and_claimed_once_by_stores_that_race() {
    const RUNS: usize = 60;
    let claims = race(2, |n, store| {
        let worker = worker(&format!("w{n}"));
        let row = WorkerRow {
            id: worker.clone(),
            renewed_at: Timestamp(1_000),
            expires_at: Timestamp(9_000),
        };
        ready(store.keep_alive(row)).expect("registers");
        let mut claims: Vec<Claim> = Vec::new();
        for run in 0..RUNS {
            let name = format!("t{run}");
            // Both create it; one of them is first.
            let mut new = new_run(&name);
            new.options.idempotency_key = Some(name.clone());
            let row = ready(store.create_run(&us(), new, BTreeMap::new())).expect("creates");
            match ready(store.claim(&us(), &row.new.at, &worker, Timestamp(1_001))) {
                Ok((claim, row)) => {
                    assert_eq!((claim.fence, row.fence), (1, 1));
                    claims.push(claim);
                }
                Err(StoreError::Busy { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        claims
    });
    let runs: std::collections::BTreeSet<_> =
        claims.iter().flatten().map(|claim| claim.at.run.clone()).collect();
    assert_eq!((claims.iter().flatten().count(), runs.len()), (RUNS, RUNS));
}

#[test]
fn commits_and_sequence_writes_of_stores_that_race_are_not_lost() {
    const EACH: usize = 60;
    let seqs = race(2, |n, store| {
        let registered = worker("w");
        let row = WorkerRow {
            id: registered.clone(),
            renewed_at: Timestamp(1_000),
            expires_at: Timestamp(9_000),
        };
        ready(store.keep_alive(row)).expect("registers");
        ready(store.create_run(&us(), new_run("t"), BTreeMap::new())).expect("creates");
        // Another instance of the same worker has made the claim, or this one does.
        drop(ready(store.claim(&us(), &at("t"), &registered, Timestamp(1_001))));
        let claim = Claim { at: at("t"), worker: registered, fence: 1 };
        let committed = (0..EACH).map(|i| {
            let content = Content::json(1, &json!(n)).expect("JSON");
            let queue = Sequence::new("test:queue", "q");
            let commit = Commit {
                events: vec![AiEvent::custom(json!({"n": i}))],
                sequence_writes: vec![SequenceWrite::append(queue, content)],
                at: Timestamp(1_100),
                ..Commit::default()
            };
            ready(store.commit(&us(), &claim, commit)).expect("commits").first_seq
        });
        let committed: Vec<_> = committed.collect();
        (committed, store.location().to_owned(), ready(read_all(store)))
    });
    let mut all: Vec<u64> = seqs.iter().flat_map(|(seqs, ..)| seqs).copied().collect();
    all.sort_unstable();
    let expected: Vec<u64> = (1..=2 * EACH as u64).collect();
    assert_eq!(all, expected, "each event has a number of its own");
    // The one that ended last has read everything.
    assert!(seqs.iter().any(|(.., read)| *read == (expected.clone(), expected.clone())));
}

async fn read_all(store: &dyn Store) -> (Vec<u64>, Vec<u64>) {
    let events = store.events(&us(), &at("t"), 0, 1_000).await.expect("reads");
    let query = SequenceQuery::of(Sequence::new("test:queue", "q"), 0);
    let records = store.sequence_rows(&us(), query).await.expect("reads");
    let numbers = events.iter().map(|event| event.seq).collect();
    (numbers, records.iter().map(|record| record.version).collect())
}

/// Writes a checkpoint that refers to a blob.
fn refer(store: &dyn Store, thread: &str) {
    let body = b"a large text".to_vec();
    let hash = hash_bytes(&body);
    let new = NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(1),
        of: None,
        tasks: Vec::new(),
        body: Vec::new(),
        blobs: vec![hash],
    };
    let batch = CheckpointBatch {
        checkpoints: vec![new],
        blobs: vec![(hash, body)],
        ..CheckpointBatch::default()
    };
    ready(store.put_checkpoints(&us(), &thread_id(thread), batch)).expect("writes");
}

fn stop_referring(store: &dyn Store, thread: &str) {
    ready(store.delete_checkpoints(&us(), &thread_id(thread))).expect("deletes");
}

fn blob(store: &dyn Store) -> Option<Vec<u8>> {
    ready(store.blob(&us(), hash_bytes(b"a large text"))).expect("reads")
}

#[test]
fn a_blob_is_not_collected_once_another_checkpoint_refers_to_it() {
    let others: [fn(&dyn Store); 3] = [
        |store| refer(store, "t2"),
        // The blob is moved with the checkpoint that refers to it.
        |store| {
            let copied = ready(store.copy_checkpoints(&us(), &thread_id("t"), &thread_id("t3")));
            copied.expect("copies");
            stop_referring(store, "t");
        },
        // Everything is deleted, and written again just as it was.
        |store| {
            stop_referring(store, "t");
            assert_eq!(ready(store.collect_blobs(&us())), Ok(1));
            refer(store, "t");
        },
    ];
    for (n, other) in others.into_iter().enumerate() {
        let rows = Arc::new(MemoryRows::default());
        let store = RowStore::new(Arc::clone(&rows));
        refer(&store, "t");
        // After the collection has found no reference, and before it deletes.
        let interference: Interference = Box::new(move |rows| {
            let store = RowStore::new(Arc::clone(rows));
            refer(&store, "t");
            other(&store);
        });
        stop_referring(&store, "t");
        let before_write = Mutex::new(vec![interference]);
        let ours = RowStore::new(Interrupted { rows, before_write, fails: None });
        assert_eq!(ready(ours.collect_blobs(&us())), Ok(0), "case {n}");
        assert!(blob(&store).is_some(), "case {n}");
    }
}

#[test]
fn a_checkpoint_keeps_the_blob_that_is_collected_while_it_is_written() {
    let rows = Arc::new(MemoryRows::default());
    let store = RowStore::new(Arc::clone(&rows));
    refer(&store, "t");
    stop_referring(&store, "t");
    let interference: Interference = Box::new(|rows| {
        assert_eq!(ready(RowStore::new(Arc::clone(rows)).collect_blobs(&us())), Ok(1));
    });
    let before_write = Mutex::new(vec![interference]);
    let ours = RowStore::new(Interrupted { rows, before_write, fails: None });
    refer(&ours, "t2");
    assert_eq!(blob(&store).as_deref(), Some(&b"a large text"[..]));
}

type Interference = Box<dyn FnOnce(&Arc<MemoryRows>) + Send>;

/// Rows with which others do something between the reads and the write of an operation, or whose
/// write fails.
struct Interrupted {
    rows: Arc<MemoryRows>,
    before_write: Mutex<Vec<Interference>>,
    fails: Option<Fails>,
}

/// The moment at which a write fails.
#[derive(Clone, Copy)]
enum Fails {
    Before,
    /// After the batch was written, as when a connection breaks.
    After,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

impl Rows for Interrupted {
    fn location(&self) -> &str {
        self.rows.location()
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, weftwork_store::Result<Vec<Option<Value>>>> {
        self.rows.get(keys)
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, weftwork_store::Result<Vec<(Key, Value)>>> {
        self.rows.scan(range, order, limit)
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, weftwork_store::Result<Written>> {
        let next = self.before_write.lock().expect("no panic").pop();
        if let Some(interfere) = next {
            interfere(&self.rows);
        }
        if let Some(fails) = self.fails {
            if matches!(fails, Fails::After) {
                assert_eq!(ready(self.rows.write(batch)), Ok(Written::Done));
            }
            let location = self.location().to_owned();
            let reason = "broken".to_owned();
            let error = StoreError::Unavailable { location, reason, retriable: true };
            return Box::pin(async { Err(error) });
        }
        self.rows.write(batch)
    }
}

fn everything(rows: &MemoryRows) -> Vec<(Key, Value)> {
    let range = KeyRange { first: Key::from(Vec::new()), end: Key::from(vec![255]) };
    ready(rows.scan(range, Order::Ascending, usize::MAX)).expect("reads")
}

#[test]
fn an_operation_that_loses_sees_what_the_other_did() {
    let rows = Arc::new(MemoryRows::default());
    let other = RowStore::new(Arc::clone(&rows));
    ready(other.create_run(&us(), new_run("t"), BTreeMap::new())).expect("creates");
    let row = WorkerRow {
        id: worker("other"),
        renewed_at: Timestamp(1_000),
        expires_at: Timestamp(9_000),
    };
    let interference: Interference = Box::new(move |rows| {
        let other = RowStore::new(Arc::clone(rows));
        ready(other.keep_alive(row)).expect("registers");
        ready(other.claim(&us(), &at("t"), &worker("other"), Timestamp(1_001))).expect("claims");
    });
    let before_write = Mutex::new(vec![interference]);
    let ours = RowStore::new(Interrupted { rows: Arc::clone(&rows), before_write, fails: None });
    let refused = ready(ours.claim(&us(), &at("t"), &worker("ours"), Timestamp(1_001)));
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
    let run = ready(other.run(&us(), &at("t"))).expect("reads");
    assert_eq!((run.fence, run.worker), (1, Some(worker("other"))));
    // The lease of a worker that is renewed in between is not over.
    let renewed: Interference = Box::new(|rows| {
        let row = WorkerRow {
            id: worker("other"),
            renewed_at: Timestamp(9_500),
            expires_at: Timestamp(17_500),
        };
        ready(RowStore::new(Arc::clone(rows)).keep_alive(row)).expect("renews");
    });
    let before_write = Mutex::new(vec![renewed]);
    let ours = RowStore::new(Interrupted { rows: Arc::clone(&rows), before_write, fails: None });
    let refused = ready(ours.claim(&us(), &at("t"), &worker("ours"), Timestamp(9_600)));
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
}

#[test]
fn an_operation_whose_write_fails_leaves_nothing() {
    let rows = Arc::new(MemoryRows::default());
    let store = RowStore::new(Arc::clone(&rows));
    ready(store.create_run(&us(), new_run("t"), BTreeMap::new())).expect("creates");
    let before = everything(&rows);
    let before_write = Mutex::default();
    let broken = RowStore::new(Interrupted {
        rows: Arc::clone(&rows),
        before_write,
        fails: Some(Fails::Before),
    });
    let claimed = ready(broken.claim(&us(), &at("t"), &worker("w"), Timestamp(1_001)));
    assert!(matches!(claimed, Err(StoreError::Unavailable { retriable: true, .. })));
    let created = ready(broken.create_run(&us(), new_run("u"), BTreeMap::new()));
    assert!(matches!(created, Err(StoreError::Unavailable { .. })));
    assert_eq!(everything(&rows), before);
    assert!(ready(store.claim(&us(), &at("t"), &worker("w"), Timestamp(1_001))).is_ok());
}

#[test]
fn a_write_of_unknown_outcome_is_found() {
    let rows = Arc::new(MemoryRows::default());
    let before_write = Mutex::default();
    let fails = Some(Fails::After);
    let store = RowStore::new(Interrupted { rows: Arc::clone(&rows), before_write, fails });
    ready(store.create_run(&us(), new_run("t"), BTreeMap::new())).expect("creates");
    let claimed = ready(store.claim(&us(), &at("t"), &worker("w"), Timestamp(1_001)));
    let (claim, _) = claimed.expect("claims");
    for n in 1..=2 {
        let commit = Commit {
            events: vec![AiEvent::custom(json!({"n": n}))],
            at: Timestamp(1_002),
            ..Commit::default()
        };
        let committed = ready(store.commit(&us(), &claim, commit)).expect("commits");
        assert_eq!(committed.first_seq, n, "each is written once");
    }
    let run = ready(RowStore::new(rows).run(&us(), &at("t"))).expect("reads");
    assert_eq!(run.fence, 1);
}

#[test]
fn an_operation_that_always_loses_ends() {
    let rows = Arc::new(MemoryRows::default());
    let interference = || -> Interference {
        Box::new(|rows| {
            let other = RowStore::new(Arc::clone(rows));
            let to = Sequence::new("test:queue", "q");
            let content = Content::json(1, &json!(1)).expect("JSON");
            let write = SequenceWrite::append(to, content);
            ready(other.write_sequences(&us(), vec![write], Timestamp(1))).expect("writes");
        })
    };
    let before_write = Mutex::new((0..1_000).map(|_| interference()).collect());
    let ours = RowStore::new(Interrupted { rows, before_write, fails: None });
    let to = Sequence::new("test:queue", "q");
    let content = Content::json(1, &json!(2)).expect("JSON");
    let write = SequenceWrite::append(to, content);
    let refused = ready(ours.write_sequences(&us(), vec![write], Timestamp(1)));
    assert!(matches!(refused, Err(StoreError::Unavailable { retriable: true, .. })));
}
