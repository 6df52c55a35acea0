//! Limits of what a server may send.

use std::time::Duration;

/// Maximum size of a frame of a stream, in bytes.
pub(crate) const FRAME_BYTES_MAX: usize = 4 << 20;
/// Maximum size of all frames of a run that one process reads, in bytes.
pub(crate) const STREAM_BYTES_MAX: u64 = 32 << 20;
/// Maximum size of a JSON answer, in bytes.
pub(crate) const BODY_BYTES_MAX: u64 = 8 << 20;
/// Maximum size of the frames of a run that are emitted, in bytes. Later ones are dropped.
pub(crate) const EMITTED_BYTES_MAX: usize = 4 << 20;
/// Maximum size of a question with the schema of its answer, in bytes.
pub(crate) const QUESTION_BYTES_MAX: usize = 64 << 10;
/// Maximum number of open questions of a run.
pub(crate) const QUESTIONS_MAX: usize = 32;
/// Maximum length of a text of a server within an error, in characters.
pub(crate) const DETAIL_CHARS_MAX: usize = 500;
/// Maximum length of a namespace, in bytes.
pub(crate) const NAMESPACE_BYTES_MAX: usize = 1_024;
/// Number of the newest runs of a thread among which a run is looked for.
pub(crate) const RUNS_MAX: usize = 100;
/// Number of attempts of a request that may be repeated.
pub(crate) const ATTEMPTS_MAX: u32 = 5;
/// Delay before the second attempt. It doubles with each further one.
const DELAY: Duration = Duration::from_millis(250);
/// Longest delay.
const DELAY_MAX: Duration = Duration::from_secs(8);
/// Maximum wait for the head of an answer.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum wait between two pieces of an answer. Servers send a heartbeat every few seconds.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the delay after a number of failed attempts, from 1.
pub(crate) fn delay(failed: u32) -> Duration {
    let doubled = DELAY.saturating_mul(1 << failed.saturating_sub(1).min(16));
    doubled.min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::delay;

    #[test]
    fn delays_double_up_to_a_limit() {
        let delays: Vec<_> = [1, 2, 3, 6, 7, 100].map(|failed| delay(failed).as_millis()).into();
        assert_eq!(delays, [250, 500, 1_000, 8_000, 8_000, 8_000]);
    }
}
