//! Retries of failed attempts.

use crate::ModelError;
use std::time::Duration;
pub use weftwork_types::retry::RetryPolicy;

/// Returns the delay after a failed attempt (counted from 1), or `None` if the call fails with it.
pub(crate) fn delay_after(
    policy: &RetryPolicy,
    attempt: u32,
    error: &ModelError,
    chance: u128,
) -> Option<Duration> {
    if !error.is_retriable() {
        return None;
    }
    policy.delay(attempt, error.retry_after(), chance)
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
    fn the_provider_is_given_the_time_it_asks_for_or_none() {
        let policy = RetryPolicy::default();
        let delay = |asked| delay_after(&policy, 1, &failed(asked), 0);
        assert_eq!(delay(Some(60)), Some(Duration::from_secs(60)));
        assert_eq!(delay(Some(61)), None);
        assert_eq!(delay(None), Some(policy.backoff_first / 2));
    }

    #[test]
    fn the_last_attempt_and_a_hopeless_error_are_final() {
        let policy = RetryPolicy::default();
        assert!(delay_after(&policy, 3, &failed(None), 0).is_none());
        let hopeless = ModelError::Deadline { provider: "p".to_owned() };
        assert!(delay_after(&policy, 1, &hopeless, 0).is_none());
    }
}
