//! Kinds of runs: those of threads, and the activities of instances.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weftwork_types::run::{Mailbox, RunOptions};

/// Kind of a run.
#[derive(Debug)]
pub(crate) enum RunKind {
    /// A run of a thread.
    Plain,
    /// An activity of an instance, or a run that continues one on the thread of the instance.
    Activity(Activity),
}

/// An activity of an instance, with its repetitions in this process.
#[derive(Debug)]
pub(crate) struct Activity {
    mailbox: Mailbox,
    /// Number of repetitions after failures.
    repetitions: AtomicU32,
}

impl RunKind {
    /// Returns the kind of the run with these options.
    pub(crate) fn of(options: &RunOptions) -> Self {
        match &options.mailbox {
            None => Self::Plain,
            Some(mailbox) => Self::Activity(Activity {
                mailbox: mailbox.clone(),
                repetitions: AtomicU32::default(),
            }),
        }
    }

    /// Returns the activity if the run is one.
    pub(crate) fn activity(&self) -> Option<&Activity> {
        match self {
            Self::Plain => None,
            Self::Activity(activity) => Some(activity),
        }
    }
}

/// Returns `true` for the options of an activity, and of a run that continues one on its instance.
pub(crate) fn is_activity(options: &RunOptions) -> bool {
    options.mailbox.is_some()
}

/// Returns `true` for the options of an activity that continues in a thread of its own if it asks.
pub(crate) fn sets_aside(options: &RunOptions) -> bool {
    options.mailbox.as_ref().is_some_and(Mailbox::sets_aside)
}

impl Activity {
    /// Channel of the state that takes the error of the activity.
    pub(crate) fn error_channel(&self) -> Option<&str> {
        self.mailbox.error_channel.as_deref()
    }

    /// Returns `true` if the activity continues in a thread of its own once it asks.
    pub(crate) fn sets_aside(&self) -> bool {
        self.mailbox.sets_aside()
    }

    /// Returns `true` if a repetition is left.
    pub(crate) fn has_repetition(&self) -> bool {
        self.delay_of(self.repetitions.load(Ordering::Relaxed)).is_some()
    }

    /// Counts a repetition, and returns its number and the time before it; `None` if none is left.
    pub(crate) fn next_repetition(&self) -> Option<Repetition> {
        let number = self.repetitions.fetch_add(1, Ordering::Relaxed);
        let delay = self.delay_of(number)?;
        Some(Repetition { number, delay })
    }

    fn delay_of(&self, number: u32) -> Option<Duration> {
        self.mailbox.retry?.delay(number)
    }
}

/// A repetition of an activity after a failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repetition {
    /// Number of the repetitions before it.
    pub(crate) number: u32,
    pub(crate) delay: Duration,
}
