use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use tempfile::TempDir;
use weftwork_sqlite::{Options, SqliteStore};

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
