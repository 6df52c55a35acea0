//! Options of a run that is an activity of an instance.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Place of a run in the mailbox of an instance: the queue of the unfinished runs of its thread.
///
/// A run with a place is always accepted as queued, also on a thread without other runs. Of the runs
/// of a mailbox whose time has come, the one with the highest priority begins first, and of runs with
/// equal priorities the oldest one. A run that begins later does not delay the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Maximum number of unfinished runs of the thread, including this one.
    pub capacity: u32,
    /// Priority; higher values begin first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Channel that receives the error of the run if it fails, and null if it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_channel: Option<String>,
    /// Repetitions of the run after retriable failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RunRetry>,
    /// The treatment of a question at which the run ends.
    #[serde(default, skip_serializing_if = "OnQuestion::is_hold")]
    pub on_question: OnQuestion,
}

/// The treatment of an activity that asks a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnQuestion {
    /// The activity holds its mailbox until the question is answered: the others wait behind it.
    #[default]
    Hold,
    /// The activity continues in a thread of its own, which has the question, and the others go on.
    /// The state of the instance keeps what the activity wrote before it asked, and does not get what
    /// it writes after the answer.
    SetAside,
}

impl OnQuestion {
    fn is_hold(&self) -> bool {
        *self == Self::Hold
    }
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

impl Mailbox {
    /// Creates a place with priority 0 in a mailbox of this capacity.
    #[must_use]
    pub fn of_capacity(capacity: u32) -> Self {
        let on_question = OnQuestion::Hold;
        Self { capacity, priority: 0, error_channel: None, retry: None, on_question }
    }

    /// Returns `true` if the activity is set aside when it asks a question.
    #[must_use]
    pub fn sets_aside(&self) -> bool {
        self.on_question == OnQuestion::SetAside
    }
}

/// Repetitions of a run after failures that a retry can resolve. The run continues in its process, at
/// its last checkpoint and with its recorded calls. The default is two repetitions, after 0.5 s and
/// 1 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRetry {
    /// Maximum number of repetitions.
    pub retries: u32,
    /// Delay before the first repetition, in milliseconds; doubled for each further one.
    pub backoff_ms: u64,
    /// Maximum delay, in milliseconds.
    pub backoff_max_ms: u64,
}

impl Default for RunRetry {
    fn default() -> Self {
        Self { retries: 2, backoff_ms: 500, backoff_max_ms: 20_000 }
    }
}

impl RunRetry {
    /// Returns the delay before a repetition, numbered from 0; `None` if there are no more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use weftwork_types::run::RunRetry;
    ///
    /// let retry = RunRetry { retries: 3, backoff_ms: 100, backoff_max_ms: 300 };
    /// assert_eq!(retry.delay(0), Some(Duration::from_millis(100)));
    /// assert_eq!(retry.delay(2), Some(Duration::from_millis(300)));
    /// assert_eq!(retry.delay(3), None);
    ///
    /// let usual = RunRetry { retries: 5, ..RunRetry::default() };
    /// assert_eq!(usual.delay(1), Some(Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub fn delay(&self, number: u32) -> Option<Duration> {
        let factor = 1_u64.checked_shl(number).unwrap_or(u64::MAX);
        let delay = self.backoff_ms.saturating_mul(factor).min(self.backoff_max_ms);
        (number < self.retries).then(|| Duration::from_millis(delay))
    }
}
