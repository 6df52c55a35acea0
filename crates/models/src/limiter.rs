//! Limits of the rate at which one model is called.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use weftwork_types::port::Clock;

const MINUTE: Duration = Duration::from_secs(60);

/// Limits of the calls of one model; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RateLimits {
    pub(crate) concurrent: Option<u32>,
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) tokens_per_minute: Option<u64>,
}

impl RateLimits {
    /// Returns `true` if there is a limit.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// Lets calls begin within limits, in the order in which they came.
#[derive(Debug)]
pub struct Limiter {
    limits: RateLimits,
    clock: Arc<dyn Clock>,
    slots: Option<Arc<Semaphore>>,
    /// Beginnings and tokens of the calls within the last minute. A caller holds the lock while it
    /// waits, so that no later one overtakes it.
    recent: Mutex<VecDeque<(Duration, u64)>>,
}

/// Permission for one call, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    _slot: Option<OwnedSemaphorePermit>,
}

impl Limiter {
    pub(crate) fn new(limits: RateLimits, clock: Arc<dyn Clock>) -> Self {
        let slots = limits.concurrent.map(|count| Arc::new(Semaphore::new(count.max(1) as usize)));
        Self { limits, clock, slots, recent: Mutex::default() }
    }

    /// Waits until a call with the given number of tokens may begin. A call with more tokens than
    /// the limit waits until no other began within the last minute.
    ///
    /// # Cancel safety
    /// A dropped future counts as no call, and gives its place to the next one.
    pub(crate) async fn wait(&self, tokens: u64) -> CallPermit {
        let slot = match &self.slots {
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        let mut recent = self.recent.lock().await;
        loop {
            let now = self.clock.elapsed();
            while recent.front().is_some_and(|(begun, _)| now.saturating_sub(*begun) >= MINUTE) {
                recent.pop_front();
            }
            match recent.front() {
                Some((oldest, _)) if self.is_exceeded(&recent, tokens) => {
                    self.clock.sleep(MINUTE.saturating_sub(now.saturating_sub(*oldest))).await;
                }
                _ => {
                    recent.push_back((now, tokens));
                    return CallPermit { _slot: slot };
                }
            }
        }
    }

    /// Returns `true` if one more call would exceed a limit.
    fn is_exceeded(&self, recent: &VecDeque<(Duration, u64)>, tokens: u64) -> bool {
        let RateLimits { requests_per_minute, tokens_per_minute, .. } = self.limits;
        let used = || recent.iter().fold(tokens, |sum, (_, tokens)| sum.saturating_add(*tokens));
        requests_per_minute.is_some_and(|limit| recent.len() >= limit as usize)
            || tokens_per_minute.is_some_and(|limit| used() > limit)
    }
}
