//! Retries of calls that failed and may succeed later.

use std::time::Duration;

/// Limits and delays for retrying failed attempts of a call of a model or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of attempts of one call, including the first. At least one is made.
    pub attempts_max: u32,
    /// The delay before the second attempt; it doubles with each further one.
    pub backoff_first: Duration,
    /// The maximum backoff delay.
    pub backoff_max: Duration,
    /// The maximum delay that the callee may ask for. If it asks for more, the call fails, because
    /// an earlier attempt would only be refused again.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(20),
            retry_after_max: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// A policy with a single attempt.
    #[must_use]
    pub fn once() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }

    /// Returns the delay after a failed attempt (counted from 1), or `None` if the call fails with
    /// it. `asked` is the delay that the callee asks for, if it does. `chance` is any number that
    /// differs between calls; it spreads the retries of calls that failed at the same time.
    #[must_use]
    pub fn delay(&self, attempt: u32, asked: Option<Duration>, chance: u128) -> Option<Duration> {
        if attempt >= self.attempts_max {
            return None;
        }
        if let Some(asked) = asked {
            return (asked <= self.retry_after_max).then_some(asked);
        }
        let doubled = 2u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.backoff_first.saturating_mul(doubled).min(self.backoff_max);
        // Between half the delay and the full delay.
        let parts = u32::try_from(chance % 1024).unwrap_or(0);
        Some(full / 2 + (full / 2).saturating_mul(parts) / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_stay_below_their_limit_and_differ_by_chance() {
        let policy = RetryPolicy { attempts_max: 100, ..RetryPolicy::default() };
        for (attempt, full_ms) in [(1, 500), (2, 1000), (3, 2000), (7, 20_000), (99, 20_000)] {
            for chance in [0, 1, 511, 1023, u128::MAX] {
                let delay = policy.delay(attempt, None, chance).expect("a delay");
                let full = Duration::from_millis(full_ms);
                assert!(delay >= full / 2 && delay <= full, "{attempt}: {delay:?}");
            }
        }
        assert_ne!(policy.delay(1, None, 0), policy.delay(1, None, 1023));
    }

    #[test]
    fn the_callee_is_given_the_time_it_asks_for_or_none() {
        let policy = RetryPolicy::default();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(policy.delay(1, seconds(60), 0), seconds(60));
        assert_eq!(policy.delay(1, seconds(61), 0), None);
    }

    #[test]
    fn the_last_attempt_is_final() {
        let policy = RetryPolicy::default();
        assert!(policy.delay(2, None, 0).is_some());
        assert!(policy.delay(3, None, 0).is_none());
        assert!(policy.delay(3, Some(Duration::ZERO), 0).is_none());
        assert!(RetryPolicy::once().delay(1, None, 0).is_none());
    }

    #[test]
    fn no_delay_is_too_long_to_compute() {
        let most = Duration::MAX;
        let policy = RetryPolicy {
            attempts_max: u32::MAX,
            backoff_first: most,
            backoff_max: most,
            retry_after_max: most,
        };
        for chance in [0, 1023] {
            assert!(policy.delay(u32::MAX - 1, None, chance).is_some());
        }
    }
}
