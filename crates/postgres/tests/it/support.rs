use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use tokio_postgres::NoTls;
use weftwork_postgres::{Options, PostgresStore, Time};
use weftwork_store::{Claim, NewRun, WorkerRow};
use weftwork_store::{Workers, WriteRuns};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunInput, RunOptions, RunRef};
use weftwork_types::{Principal, RunId, ThreadId, Timestamp, WorkerId};

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

/// Returns the address of the test database.
pub(crate) fn address() -> String {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork-postgres",
    )
}

/// The parts of the address of the test database.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) port: String,
}

impl Login {
    pub(crate) fn read() -> Self {
        let address = address();
        let rest = address.strip_prefix("postgres://").expect("a URL");
        let (login, server) = rest.split_once('@').expect("user and server");
        let (user, password) = login.split_once(':').expect("a password");
        let port = server.split(['/', ':']).nth(1).expect("a port");
        Self { user: user.to_owned(), password: password.to_owned(), port: port.to_owned() }
    }
}

/// Runs statements on the database, bypassing the store.
pub(crate) fn script(address: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("connects");
        let served = tokio::spawn(connection);
        client.batch_execute(sql).await.expect("the statements run");
        drop(client);
        served.await.expect("no panic").expect("ends well");
    });
}

/// A schema that is unique to one test.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new(test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let test: String = test.chars().take(40).collect();
        Self { name: format!("{test}_{}_{count}", std::process::id()) }
    }

    pub(crate) fn options(&self) -> Options {
        let clock = Arc::new(ManualClock::new());
        Options { time: Time::Caller, schema: self.name.clone(), ..Options::new(clock) }
    }

    /// Opens a store with simulated time.
    pub(crate) fn open(&self) -> PostgresStore {
        PostgresStore::open(&address(), &self.options()).expect("opens")
    }

    /// Runs statements on the tables, bypassing the store.
    pub(crate) fn script(&self, sql: &str) {
        script(&address(), &format!("SET search_path TO {}; {sql}", self.name));
    }
}

pub(crate) fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).expect("an id")
}

pub(crate) fn at(thread_id: &str, run: &str) -> RunRef {
    RunRef { thread: thread(thread_id), run: RunId::new(run).expect("an id") }
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
pub(crate) fn register(store: &PostgresStore, id: &str) -> WorkerId {
    let renewed_at = Timestamp(0);
    let expires_at = Timestamp(i64::MAX);
    let row = WorkerRow { id: worker(id), renewed_at, expires_at };
    block_on(store.keep_alive(row)).expect("registers");
    worker(id)
}

/// Creates a run and claims it for the worker `w`.
pub(crate) fn begin(store: &PostgresStore, thread: &str, run: &str) -> Claim {
    let who = Principal::local();
    let worker = register(store, "w");
    let new = new_run(thread, run);
    block_on(store.create_run(&who, new.clone(), BTreeMap::new())).expect("makes a run");
    block_on(store.claim(&who, &new.at, &worker, Timestamp(1))).expect("claims").0
}

pub(crate) fn custom_event(value: impl Into<serde_json::Value>) -> AiEvent {
    AiEvent::custom(value.into())
}
