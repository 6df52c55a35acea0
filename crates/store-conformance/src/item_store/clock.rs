use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// A clock that only advances explicitly. It starts at 1000 ms.
#[derive(Debug)]
pub struct StillClock {
    now_ms: AtomicI64,
    unique: AtomicU64,
}

const START_MS: i64 = 1_000;

impl Default for StillClock {
    fn default() -> Self {
        Self { now_ms: AtomicI64::new(START_MS), unique: AtomicU64::new(0) }
    }
}

impl StillClock {
    /// Advances the clock.
    pub fn advance(&self, duration: Duration) {
        let by = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.now_ms.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp(START_MS))
    }

    /// Advances the clock immediately instead of waiting.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.advance(duration);
        Box::pin(std::future::ready(()))
    }

    fn unique(&self) -> u128 {
        u128::from(self.unique.fetch_add(1, Ordering::SeqCst))
    }
}
