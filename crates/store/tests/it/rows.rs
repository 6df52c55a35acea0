//! The formats of the rows of a store over rows, which later versions must read.

use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weftwork_store::rows::{Batch, Key, KeyRange, MemoryRows, Order, RowStore, Rows, Written};
use weftwork_store::{
    CheckpointBatch, Claim, Commit, Content, ItemRef, ItemTable, Namespace, NewCheckpoint,
    NewPending, NewRun, Pending, PutOptions, ReadRuns, ReadThreads, Sequence, SequenceWrite,
    StoreError, WorkerRow, Workers, WriteCheckpoints, WriteRuns, WriteThreads,
};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::{CheckpointId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId};

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

fn us() -> Principal {
    Principal::new(OrgId::new("us").expect("an id"), "ann")
}

fn at() -> RunRef {
    let thread = ThreadId::new("t").expect("an id");
    RunRef { thread, run: RunId::new("r").expect("an id") }
}

/// Rows of a thread with a run that has committed once.
fn filled() -> Arc<MemoryRows> {
    let rows = Arc::new(MemoryRows::default());
    let store = RowStore::new(Arc::clone(&rows));
    let new = NewRun {
        at: at(),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request-1").expect("an id"),
        input: RunInput::Start { input: json!({"text": "hello"}) },
        options: RunOptions { idempotency_key: Some("key".to_owned()), ..RunOptions::default() },
        created_at: Timestamp(1_000),
    };
    let worker = WorkerId::new("w").expect("an id");
    let lease = WorkerRow {
        id: worker.clone(),
        renewed_at: Timestamp(1_000),
        expires_at: Timestamp(9_000),
    };
    ready(store.keep_alive(lease)).expect("registers");
    ready(store.create_run(&us(), new, BTreeMap::new())).expect("creates");
    let (claim, _) = ready(store.claim(&us(), &at(), &worker, Timestamp(1_001))).expect("claims");
    let blob = b"large".to_vec();
    let checkpoint = NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(7),
        of: Some(CheckpointId(6)),
        tasks: b"tasks".to_vec(),
        body: b"body\0".to_vec(),
        blobs: vec![hash_bytes(&blob)],
    };
    let pending = |what, body: &[u8]| NewPending {
        ns: "sub".to_owned(),
        of: CheckpointId(7),
        what,
        body: body.to_vec(),
        blobs: Vec::new(),
    };
    let batch = CheckpointBatch {
        checkpoints: vec![checkpoint],
        pending: vec![pending(Pending::Outside, b"outside"), pending(Pending::Tasks, b"part")],
        blobs: vec![(hash_bytes(&blob), blob)],
        layouts: vec![(hash_bytes(b"names"), b"names".to_vec())],
    };
    let content = Content { format: 3, bytes: b"record".to_vec() };
    let commit = Commit {
        batch: batch.into(),
        events: vec![AiEvent::custom(json!({"n": 1}))],
        sequence_writes: vec![SequenceWrite::append(Sequence::new("kind", "key"), content)],
        at: Timestamp(1_002),
        ..Commit::default()
    };
    ready(store.commit(&us(), &claim, commit)).expect("commits");
    let namespace = Namespace::new(["users", "ann"]).expect("labels");
    let item = ItemRef::new(namespace, "name").expect("a name");
    let options = PutOptions { ttl: Some(Duration::from_secs(60)), ..PutOptions::default() };
    let who = us();
    let put = store.put_item(&who, &item, json!({"n": 1.5}), options, Timestamp(1_003));
    ready(put).expect("puts");
    rows
}

fn all_rows(rows: &MemoryRows) -> Vec<(Key, Vec<u8>)> {
    let range = KeyRange { first: Key::from(Vec::new()), end: Key::from(vec![255]) };
    ready(rows.scan(range, Order::Ascending, usize::MAX)).expect("reads")
}

#[test]
fn rows_have_their_formats() {
    let mut text = String::new();
    for (key, value) in all_rows(&filled()) {
        writeln!(text, "{key}\n    {}", value.escape_ascii()).expect("writes");
    }
    insta::assert_snapshot!(text);
}

fn replace(rows: &MemoryRows, key: &Key, value: Option<Vec<u8>>) {
    let batch = Batch { expected: Vec::new(), writes: vec![(key.clone(), value)] };
    assert_eq!(ready(rows.write(batch)), Ok(Written::Done));
}

#[test]
fn damaged_and_newer_rows_are_reported_and_not_replaced() {
    let rows = filled();
    let store = RowStore::new(Arc::clone(&rows));
    let (key, sound) = all_rows(&rows)
        .into_iter()
        .find(|(key, _)| key.to_string().starts_with("tus\\x00\\x01t\\x00\\x01r"))
        .expect("the row of the run");
    let mut newer = sound.clone();
    newer[0] = 2;
    replace(&rows, &key, Some(newer));
    let found = ready(store.run(&us(), &at()));
    assert!(matches!(found, Err(StoreError::Newer { found: 2, known: 1, .. })), "{found:?}");
    assert_eq!(ready(store.orphans(Timestamp(99_000), 9)), Ok(Vec::new()));
    replace(&rows, &key, Some(sound[..sound.len() / 2].to_vec()));
    let before = all_rows(&rows);
    let found = ready(store.thread(&us(), &at().thread));
    assert!(matches!(found, Err(StoreError::Corrupt { .. })), "{found:?}");
    let requeued = ready(store.requeue(&us(), &at(), Timestamp(2_000)));
    assert!(matches!(requeued, Err(StoreError::Corrupt { .. })));
    // Workers go on with other threads.
    assert_eq!(ready(store.orphans(Timestamp(99_000), 9)), Ok(Vec::new()));
    assert_eq!(all_rows(&rows), before);
}

#[test]
fn a_deleted_thread_leaves_no_row_and_a_late_commit_brings_none_back() {
    let rows = filled();
    let store = RowStore::new(Arc::clone(&rows));
    let claim = Claim { at: at(), worker: WorkerId::new("w").expect("an id"), fence: 1 };
    let finish = Some(RunOutcome::Completed { output: json!({}) });
    let end = Commit { finish, at: Timestamp(2_000), ..Commit::default() };
    ready(store.commit(&us(), &claim, end)).expect("commits");
    ready(store.delete_thread(&us(), &at().thread)).expect("deletes");
    assert_eq!(ready(store.collect_blobs(&us())), Ok(1));
    let left = all_rows(&rows);
    let names: Vec<String> = left.iter().map(|(key, _)| key.to_string()).collect();
    let of_thread = |name: &&String| name.contains(r"us\x00\x01t\x00\x01");
    assert_eq!(names.iter().find(of_thread), None, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with(['x', 'y', 'b', 'm'])), "{names:?}");

    let late = Commit { events: vec![AiEvent::custom(json!(2))], ..Commit::default() };
    let refused = ready(store.commit(&us(), &claim, late));
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    assert_eq!(all_rows(&rows), left);
}
