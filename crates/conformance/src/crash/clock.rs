//! Clocks of processes that do not agree on the time.

use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// Lag of a late clock.
const LATE: Duration = Duration::from_secs(3_600);
/// Position of the time, in milliseconds, in an id.
const TIME_FROM: u32 = 80;

/// Start of the ids of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    OfNow,
    /// Before those of a process that began earlier.
    Late,
}

impl Ids {
    pub(crate) fn clock(self) -> Arc<dyn Clock> {
        match self {
            Self::OfNow => Arc::new(SystemClock::new()),
            Self::Late => Arc::new(Late(SystemClock::new())),
        }
    }
}

/// The end of an id, which is random.
const RANDOM: u128 = 0xffff_ffff;

/// The system's clock, with ids of an hour ago. They end in zeros: only the data that a process has
/// of its thread prevents it from assigning an id again.
#[derive(Debug)]
struct Late(SystemClock);

impl Clock for Late {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    fn unique(&self) -> u128 {
        (self.0.unique() - (LATE.as_millis() << TIME_FROM)) & !RANDOM
    }
}
