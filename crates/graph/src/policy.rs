//! Policies for attempts of a node that fail or take too long.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::code::Fault;

/// Policy that decides if and when a failed node is retried.
///
/// Without a policy a node is tried once. Writes of a failed attempt are dropped. Recorded effects
/// are reused; models and reads are called again. An in-process run without a checkpointer records
/// nothing.
#[derive(Debug, Clone)]
#[must_use]
pub struct Retry {
    attempts_max: u32,
    first_wait: Duration,
    factor: f64,
    wait_max: Duration,
    jitter: bool,
    matches: Matches,
}

/// Selects the failures that are worth another attempt.
#[derive(Clone)]
struct Matches(Arc<dyn Fn(&Fault) -> bool + Send + Sync>);

impl std::fmt::Debug for Matches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Matches")
    }
}

impl Retry {
    /// Tries up to `attempts_max` times, the first included: waits half a second before the second
    /// attempt, twice as long before each further one, at most 128 seconds, each with up to a
    /// second of jitter; for failures that trying again may cure.
    pub fn new(attempts_max: u32) -> Self {
        Self {
            attempts_max,
            first_wait: Duration::from_millis(500),
            factor: 2.0,
            wait_max: Duration::from_secs(128),
            jitter: true,
            matches: Matches(Arc::new(|fault| fault.retriable)),
        }
    }

    /// Sets the wait before the second attempt, and by how much each further one is longer.
    pub fn backoff(mut self, first_wait: Duration, factor: f64) -> Self {
        self.first_wait = first_wait;
        self.factor = factor;
        self
    }

    /// Waits no longer than this between two attempts.
    pub fn wait_max(mut self, wait: Duration) -> Self {
        self.wait_max = wait;
        self
    }

    /// Disables jitter: the wait is exactly as long as configured.
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Tries again after the failures this function accepts.
    pub fn on(mut self, matches: impl Fn(&Fault) -> bool + Send + Sync + 'static) -> Self {
        self.matches = Matches(Arc::new(matches));
        self
    }

    /// Returns the delay after attempt number `attempt` failed; `None` to give up. `random` decides
    /// the jitter.
    pub(crate) fn wait(&self, attempt: u32, fault: &Fault, random: u128) -> Option<Duration> {
        if attempt >= self.attempts_max {
            return None;
        }
        // A panic of the user's predicate counts as `false`.
        let asked = AssertUnwindSafe(|| (self.matches.0)(fault));
        let again = std::panic::catch_unwind(asked).unwrap_or_else(|_| {
            tracing::warn!(%fault, "the retry policy's function panicked; there is no other attempt");
            false
        });
        if !again {
            return None;
        }
        let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
        let wait = self.first_wait.as_secs_f64() * self.factor.powi(exponent);
        // A wait too long to represent, or not a number, becomes the maximum.
        let wait = Duration::try_from_secs_f64(wait.max(0.0)).unwrap_or(self.wait_max);
        let wait = wait.min(self.wait_max);
        let jitter = if self.jitter {
            Duration::from_millis((random % 1_000) as u64)
        } else {
            Duration::ZERO
        };
        Some(wait.saturating_add(jitter))
    }
}

/// Time for which the result of a node is reused for the same input instead of running the node.
/// The number of stored results is limited
/// ([`Host::with_cache_limit`](crate::run_loop::Host::with_cache_limit)): a node whose result was evicted
/// runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Cache {
    pub(crate) time: Option<Duration>,
}

impl Cache {
    /// As long as the host lives and has room.
    pub fn forever() -> Self {
        Self { time: None }
    }

    /// This long.
    pub fn for_time(time: Duration) -> Self {
        Self { time: Some(time) }
    }
}

/// Time limits of an attempt of a node. An attempt that exceeds a limit is cancelled at its await
/// point and fails; a retry may succeed.
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Timeout {
    pub(crate) run: Option<Duration>,
    pub(crate) idle: Option<Duration>,
}

impl Timeout {
    /// At most this long in all.
    pub fn run(limit: Duration) -> Self {
        Self { run: Some(limit), idle: None }
    }

    /// At most this long without a heartbeat: an event, or
    /// [`Ctx::heartbeat`](crate::Ctx::heartbeat).
    pub fn idle(limit: Duration) -> Self {
        Self { run: None, idle: Some(limit) }
    }

    /// Sets the limit without a heartbeat too.
    pub fn and_idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::ErrorCode;

    #[test]
    fn waits_grow_to_their_limit_and_then_it_gives_up() {
        let fault = Fault::new(ErrorCode("W0109"), "x").retriable(true);
        let retry = Retry::new(5)
            .backoff(Duration::from_millis(100), 10.0)
            .wait_max(Duration::from_secs(5))
            .without_jitter();
        let waits: Vec<_> = (1..6).map(|n| retry.wait(n, &fault, 7)).collect();
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(waits, [ms(100), ms(1_000), ms(5_000), ms(5_000), None]);
        assert_eq!(retry.wait(1, &fault.retriable(false), 7), None);
    }

    #[test]
    fn no_policy_is_too_odd_to_wait_by() {
        let fault = Fault::new(ErrorCode("W0109"), "x").retriable(true);
        for (first, factor, wait_max) in [
            (Duration::ZERO, f64::INFINITY, Duration::from_secs(5)),
            (Duration::from_secs(1), f64::NAN, Duration::from_secs(5)),
            (Duration::from_secs(1), -3.0, Duration::from_secs(5)),
            (Duration::MAX, 2.0, Duration::MAX),
        ] {
            let retry = Retry::new(9).backoff(first, factor).wait_max(wait_max);
            for attempt in 1..9 {
                let wait = retry.wait(attempt, &fault, 999).expect("tries again");
                assert!(wait <= wait_max.saturating_add(Duration::from_secs(1)));
            }
        }
    }

    #[test]
    fn a_predicate_that_panics_says_no() {
        let fault = Fault::new(ErrorCode("W0109"), "x").retriable(true);
        assert_eq!(Retry::new(3).on(|_| panic!("boom")).wait(1, &fault, 0), None);
    }
}
