//! The clock of the machine we run on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// The system's clocks, tokio's timer, and UUIDs of version 7 (which sort by time).
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose `elapsed` counts from now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one home of the system's clocks")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one home of the system's clocks")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn unique(&self) -> u128 {
        uuid::Uuid::now_v7().as_u128()
    }
}

/// Milliseconds of a duration.
#[must_use]
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
