use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use weftwork_postgres::{Options, PostgresStore, Time};
use weftwork_testkit::ManualClock;

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

/// The database of these tests.
pub(crate) fn address() -> String {
    std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork-postgres",
    )
}

/// A schema that no other test has.
#[derive(Debug)]
pub(crate) struct Schema {
    name: String,
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

    /// Opens a store in which time is a number.
    pub(crate) fn open(&self) -> PostgresStore {
        PostgresStore::open(&address(), &self.options()).expect("opens")
    }
}
