//! Reasons why a thread cannot be resumed.

use std::fmt;
use weftwork_types::InterruptId;

/// The reason why there is nothing to resume on a thread. Shown as the rest of a sentence, with what
/// to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotResumable {
    /// It has no run.
    NoRun,
    /// Its last run has completed.
    Completed,
    /// It waits for the answers to these questions.
    Asks(Vec<InterruptId>),
    /// It waits for a time, at which it continues by itself.
    Sleeps,
    /// The failure of the last activity of an instance is recorded in the state.
    Recorded,
}

impl fmt::Display for NotResumable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRun => f.write_str("it has no run; give it input"),
            Self::Completed => f.write_str("its last run has completed; give it new input"),
            Self::Asks(questions) => {
                let ids: Vec<_> = questions.iter().map(|id| format!("`{id}`")).collect();
                let ids = ids.join(", ");
                write!(f, "its last run waits for an answer; answer question {ids}")
            }
            Self::Sleeps => f.write_str(
                "its last run waits for a time, at which it continues by itself; wait, or give new input",
            ),
            Self::Recorded => f.write_str(
                "the failure of its last activity is recorded in its state; send another activity",
            ),
        }
    }
}
