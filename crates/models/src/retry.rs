//! Retries of failed attempts.

use crate::ModelError;
use std::time::Duration;

/// Limits and delays for retrying failed attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of attempts of one call, including the first. At least one is made.
    pub attempts_max: u32,
    /// The delay before the second attempt; it doubles with each further one.
    pub backoff_first: Duration,
    /// The maximum backoff delay.
    pub backoff_max: Duration,
    /// The maximum delay that a provider may ask for. If it asks for more, the call fails, because
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
    /// it. `chance` is any number that differs between calls; it spreads the retries of calls that
    /// failed at the same time.
    #[must_use]
    pub fn wait(&self, attempt: u32, error: &ModelError, chance: u128) -> Option<Duration> {
        if attempt >= self.attempts_max || !error.is_retriable() {
            return None;
        }
        if let Some(asked) = error.retry_after() {
            return (asked <= self.retry_after_max).then_some(asked);
        }
        let doubled = 2u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.backoff_first.saturating_mul(doubled).min(self.backoff_max);
        // Between half the delay and the full delay.
        let parts = u32::try_from(chance % 1024).unwrap_or(0);
        Some(full / 2 + full / 2 * parts / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(retry_after: Option<u64>) -> ModelError {
        ModelError::Provider {
            provider: "p".to_owned(),
            status: 500,
            message: "oops".to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
            kind: crate::RefusalKind::Unavailable,
        }
    }

    #[test]
    fn waits_double_stay_below_their_limit_and_differ_by_chance() {
        let policy = RetryPolicy { attempts_max: 100, ..RetryPolicy::default() };
        for (attempt, full_ms) in [(1, 500), (2, 1000), (3, 2000), (7, 20_000), (99, 20_000)] {
            for chance in [0, 1, 511, 1023, u128::MAX] {
                let wait = policy.wait(attempt, &failed(None), chance).expect("a wait");
                let full = Duration::from_millis(full_ms);
                assert!(wait >= full / 2 && wait <= full, "{attempt}: {wait:?}");
            }
        }
        assert_ne!(policy.wait(1, &failed(None), 0), policy.wait(1, &failed(None), 1023));
    }

    #[test]
    fn the_provider_is_given_the_time_it_asks_for_or_none() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(1, &failed(Some(60)), 0), Some(Duration::from_secs(60)));
        assert_eq!(policy.wait(1, &failed(Some(61)), 0), None);
    }

    #[test]
    fn the_last_attempt_and_a_hopeless_error_are_final() {
        let policy = RetryPolicy::default();
        assert!(policy.wait(2, &failed(None), 0).is_some());
        assert!(policy.wait(3, &failed(None), 0).is_none());
        let hopeless = ModelError::Deadline { provider: "p".to_owned() };
        assert!(policy.wait(1, &hopeless, 0).is_none());
        assert!(RetryPolicy::once().wait(1, &failed(None), 0).is_none());
    }
}
