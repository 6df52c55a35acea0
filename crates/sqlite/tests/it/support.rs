use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use tempfile::TempDir;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Claim, Commit, NewCheckpoint, NewRun, ReadCheckpoints,
    WorkerRow,
};
use weftwork_store::{Workers, WriteRuns};
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp, WorkerId};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, without an async runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

pub(crate) fn open(folder: &TempDir, options: &Options) -> SqliteStore {
    SqliteStore::open(folder.path().join("weft.db"), options).expect("opens")
}

pub(crate) fn at(thread: &str, run: &str) -> RunRef {
    RunRef { thread: ThreadId::new(thread).expect("an id"), run: RunId::new(run).expect("an id") }
}

pub(crate) fn worker(id: &str) -> WorkerId {
    WorkerId::new(id).expect("an id")
}

pub(crate) fn new_run(thread: &str, run: &str) -> NewRun {
    NewRun {
        at: at(thread, run),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request").expect("an id"),
        input: RunInput::Continue,
        options: RunOptions::default(),
        created_at: Timestamp(0),
    }
}

/// Registers the worker with a lease that outlasts every test.
pub(crate) fn register(store: &SqliteStore, id: &str) -> WorkerId {
    let renewed_at = Timestamp(0);
    let expires_at = Timestamp(i64::MAX);
    let row = WorkerRow { id: worker(id), renewed_at, expires_at };
    block_on(store.keep_alive(row)).expect("registers");
    worker(id)
}

/// Creates a run and claims it for the worker `w`.
pub(crate) fn begin(store: &SqliteStore, thread: &str, run: &str) -> Claim {
    let who = Principal::local();
    let worker = register(store, "w");
    let new = new_run(thread, run);
    block_on(store.create_run(&who, new.clone(), BTreeMap::new())).expect("makes a run");
    block_on(store.claim(&who, &new.at, &worker, Timestamp(1))).expect("claims").0
}

/// A checkpoint with a number.
fn checkpoint(number: u128, body: Vec<u8>) -> NewCheckpoint {
    NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(number),
        of: None,
        tasks: Vec::new(),
        body,
        blobs: Vec::new(),
    }
}

pub(crate) fn custom_event(value: impl Into<serde_json::Value>) -> AiEvent {
    AiEvent::custom(value.into())
}

pub(crate) fn commit_of(number: u128, body: Vec<u8>) -> Commit {
    let number_told = u64::try_from(number).expect("a small number");
    Commit {
        batch: CheckpointBatch {
            checkpoints: vec![checkpoint(number, body)],
            ..CheckpointBatch::default()
        }
        .into(),
        events: vec![custom_event(number_told)],
        at: Timestamp(2),
        ..Commit::default()
    }
}

/// The root graph of a thread.
pub(crate) fn root(thread: &str) -> CheckpointNamespace {
    CheckpointNamespace { thread: ThreadId::new(thread).expect("an id"), ns: String::new() }
}

/// Returns numbers and bodies of a thread's checkpoints, oldest first.
pub(crate) fn checkpoints(store: &SqliteStore, thread: &str) -> Vec<(u128, Vec<u8>)> {
    let page = block_on(store.page(&Principal::local(), &root(thread), None, usize::MAX));
    let page = page.expect("reads").into_iter().rev();
    page.map(|found| (found.id.0, found.body)).collect()
}

/// Returns the numbers of a thread's checkpoints, oldest first.
pub(crate) fn numbers(store: &SqliteStore, thread: &str) -> Vec<u128> {
    checkpoints(store, thread).into_iter().map(|(number, _)| number).collect()
}
