use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use tempfile::TempDir;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::table::{ReadSteps, Workers, WriteRuns};
use weftwork_store::{Claim, Commit, NewRun, Source, StepRow, StoreError, WorkerRow};
use weftwork_types::caller::Caller;
use weftwork_types::canonical;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp, WorkerId};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread: the store needs no runtime.
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

/// Registers the worker with a lease that no test outlives.
pub(crate) fn register(store: &SqliteStore, id: &str) -> WorkerId {
    let (started_at, expires_at) = (Timestamp(0), Timestamp(i64::MAX));
    let row = WorkerRow { id: worker(id), started_at, expires_at };
    block_on(store.keep_alive(row)).expect("registers");
    worker(id)
}

/// Makes a run and claims it for the worker `w`.
pub(crate) fn begin(store: &SqliteStore, thread: &str, run: &str) -> Claim {
    let (who, worker) = (Principal::local(), register(store, "w"));
    let new = new_run(thread, run);
    block_on(store.create_run(&who, new.clone(), BTreeMap::new())).expect("makes a run");
    block_on(store.claim(&who, &new.at, &worker, Timestamp(1))).expect("claims").0
}

/// The checkpoint of a number from 1, which follows that of the number before.
pub(crate) fn step(number: u128, body: Vec<u8>) -> StepRow {
    StepRow {
        id: CheckpointId(number),
        parent: (number > 1).then(|| CheckpointId(number - 1)),
        ns: String::new(),
        step: i64::try_from(number).expect("a small number"),
        source: Source::Loop,
        fingerprint: canonical::hash_bytes(b"graph"),
        body,
    }
}

pub(crate) fn told(value: impl Into<serde_json::Value>) -> AiEvent {
    AiEvent::Custom { value: value.into() }
}

pub(crate) fn commit_of(number: u128, body: Vec<u8>) -> Commit {
    let number_told = u64::try_from(number).expect("a small number");
    Commit {
        steps: vec![step(number, body)],
        events: vec![told(number_told)],
        at: Timestamp(2),
        ..Commit::default()
    }
}

/// The numbers of the checkpoints from the root to the head; none for a thread that is not there.
pub(crate) fn lineage(store: &SqliteStore, thread: &str) -> Vec<u128> {
    let id = ThreadId::new(thread).expect("an id");
    let head = match block_on(store.head(&Principal::local(), &id)) {
        Err(StoreError::NotFound { .. }) => None,
        read => read.expect("reads"),
    };
    head.map(|head| head.steps.iter().map(|step| step.id.0).collect()).unwrap_or_default()
}
