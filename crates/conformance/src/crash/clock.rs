//! Clocks of processes that do not agree on the time.

use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// Lag of a late clock.
const LATE: Duration = Duration::from_secs(3_600);
/// Where the time stands in an id, in milliseconds.
const TIME_FROM: u32 = 80;

/// When the ids of a process begin.
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

/// The system's clock, with ids of an hour ago. They end in zeros: nothing but what a process knows
/// of its thread keeps it from giving an id again.
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
