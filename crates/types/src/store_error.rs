//! Store errors, divided by the reaction of the caller.

use crate::ErrorCode;
use crate::code::Fault;
use crate::interrupt::Answer;
use crate::item::{KEY_BYTES_MAX, NamespaceProblem};

/// An error of a store.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The entity does not exist, or belongs to another organisation.
    #[error("{kind} `{id}` does not exist")]
    NotFound {
        /// Kind of entity: `thread`, `run`, `interrupt`, `call`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The thread already has an unfinished run.
    #[error("thread `{thread}` is busy: run `{run}` has not ended; wait for it or cancel it")]
    Busy {
        /// The thread.
        thread: String,
        /// The unfinished run.
        run: String,
    },
    /// The run has ended, or another worker has claimed it. All further writes under this claim are
    /// refused.
    #[error(
        "write of this worker for run `{run}` refused: the run has ended or another worker claimed it (newest fence {newest}, fence of this worker {ours})"
    )]
    Fenced {
        /// The run.
        run: String,
        /// Fence of the newest claim.
        newest: u64,
        /// Fence of the refused write.
        ours: u64,
    },
    /// The run is not the last one of its thread, or it did not fail. Nothing was changed.
    #[error(
        "run `{run}` of thread `{thread}` cannot be requeued: it {why}; only the last run of a thread can be requeued, after it failed; start a new run on the thread instead"
    )]
    NotRequeued {
        /// The run.
        run: String,
        /// Its thread.
        thread: String,
        /// Reason of the refusal.
        why: &'static str,
    },
    /// The requested events are no longer retained.
    #[error(
        "events of run `{run}` after {after} were dropped: the oldest retained event is {oldest}; read on after {}", oldest - 1
    )]
    Dropped {
        /// The run.
        run: String,
        /// Event number after which the events were requested.
        after: u64,
        /// Number of the oldest retained event.
        oldest: u64,
    },
    /// The question was answered before. The first answer is retained.
    #[error("interrupt `{interrupt}` was already answered by {}", first.answered_by)]
    Answered {
        /// The question.
        interrupt: String,
        /// The first answer.
        first: Box<Answer>,
    },
    /// The idempotency key was used before with a different request.
    #[error("idempotency key `{key}` was used before with a different request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The mailbox of an instance has as many unfinished activities as it may have. Nothing was
    /// changed.
    #[error(
        "mailbox of instance `{thread}` is full: it has {capacity} unfinished activities, its limit; wait for one to end and send again"
    )]
    MailboxFull {
        /// The instance.
        thread: String,
        /// Limit of its mailbox.
        capacity: u32,
    },
    /// The instance is terminated. Nothing was changed.
    #[error(
        "instance `{thread}` is terminated and takes no more activities or other runs; create another instance"
    )]
    MailboxClosed {
        /// The instance.
        thread: String,
    },
    /// The thread belongs to an instance that is not terminated, which is reached through its mailbox
    /// only. Nothing was changed.
    #[error("thread `{thread}` belongs to an instance, which does not take {refused}")]
    BelongsToInstance {
        /// The thread, and the instance.
        thread: String,
        /// The refused request.
        refused: RefusedByInstance,
    },
    /// The data to write conflicts with stored data. Nothing was changed.
    #[error("{location} cannot be written: expected {expected}, found {found}")]
    Conflict {
        /// Kind and id of the record to write.
        location: String,
        /// Required state.
        expected: String,
        /// State found.
        found: String,
    },
    /// Another process holds the lock of the database and did not release it in time.
    #[error("store `{location}` is locked by another process; waited {waited_ms} ms")]
    Locked {
        /// Address of the store.
        location: String,
        /// Time waited, in milliseconds.
        waited_ms: u64,
    },
    /// There is no space left to write. Nothing was changed.
    #[error("store `{location}` is full: {reason}; free some space and run again")]
    Full {
        /// Address of the store.
        location: String,
        /// Error of the operating system or database.
        reason: String,
    },
    /// The store can be read but not written.
    #[error("store `{location}` is read-only: {reason}")]
    ReadOnly {
        /// Address of the store.
        location: String,
        /// Error of the operating system or database.
        reason: String,
    },
    /// The store was written by a development build, in a format that is not read any more. Nothing
    /// was changed.
    #[error(
        "{location} has format {found}, this program reads {oldest} and newer; export what you need with the program that wrote it, or name another store"
    )]
    Older {
        /// The store.
        location: String,
        /// Format found.
        found: u32,
        /// Oldest format that this program reads.
        oldest: u32,
    },
    /// The store was written by a newer version of this program.
    #[error("{location} has format {found}, this program knows up to {known}; use a newer program")]
    Newer {
        /// Store, or record of a store, with the newer format.
        location: String,
        /// Format found.
        found: u32,
        /// Newest format that this program supports.
        known: u32,
    },
    /// Stored data is damaged. It is never replaced by new data.
    #[error(
        "store is damaged at {location}: {what}; restore a backup, of a SQLite store with `weft store restore FILE`"
    )]
    Corrupt {
        /// Location: table and key.
        location: String,
        /// Description of the damage.
        what: String,
    },
    /// The file of the store is another one than the one that was opened. Nothing is read or written
    /// any more.
    #[error(
        "the file of store `{location}` was {change} while this process used it; nothing more is accepted: start the process again"
    )]
    FileChanged {
        /// Address of the store.
        location: String,
        /// The change.
        change: FileChange,
    },
    /// The store could not be opened or used, because of an error of the operating system or
    /// database.
    #[error("store `{location}` cannot be used: {reason}")]
    Unavailable {
        /// Address of the store.
        location: String,
        /// Error of the operating system or database.
        reason: String,
        /// `true` if the same call may succeed later.
        retriable: bool,
    },
    /// The labels do not form a valid namespace, prefix or pattern.
    #[error("namespace {found} is not valid: {problem}")]
    BadNamespace {
        /// Labels, truncated.
        found: String,
        /// Rule that the labels violate.
        problem: NamespaceProblem,
    },
    /// The text is not a valid item key.
    #[error(
        "item key {found} is not valid: it has {bytes} bytes; expected 1 to {KEY_BYTES_MAX}, and no NUL"
    )]
    BadKey {
        /// The text, quoted and truncated.
        found: String,
        /// Length of the text, in bytes.
        bytes: usize,
    },
    /// The value is not valid for an item. Nothing was changed.
    #[error(
        "item {item} of namespace `{namespace}` cannot be put: expected {expected}, found {found}"
    )]
    BadValue {
        /// Key of the item, quoted and truncated.
        item: String,
        /// Namespace of the item.
        namespace: String,
        /// Requirement for the value.
        expected: String,
        /// Description of the value.
        found: String,
    },
    /// The filter of a search is not valid.
    #[error("{location} cannot be used: expected {expected}, found `{found}`")]
    BadFilter {
        /// Location in the filter.
        location: String,
        /// Valid content at that location.
        expected: String,
        /// Content found.
        found: String,
    },
}

/// A change of the file of an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// Another file has its name.
    Replaced,
    /// No file has its name.
    Deleted,
    /// Its owner may not read or write it any more.
    Unreadable,
}

impl std::fmt::Display for FileChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Replaced => "replaced",
            Self::Deleted => "deleted",
            Self::Unreadable => "made unreadable",
        })
    }
}

/// A request that the thread of an instance refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedByInstance {
    /// A run with new input that is not an activity, or a change of the state.
    Input,
    /// An answer to a question that is being set aside.
    Answer,
    /// A run at a checkpoint of the thread.
    Checkpoint,
    /// A run that cancels the unfinished runs of the thread.
    Cancellation,
    /// The deletion of the thread.
    Deletion,
}

impl std::fmt::Display for RefusedByInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Input => {
                "runs with new input; send an activity, with `weft instances send` for example"
            }
            Self::Answer => {
                "answers; its question is being set aside, and is answered in the thread that \
                 `weft instances show` names"
            }
            Self::Checkpoint => {
                "runs at a checkpoint; answer or continue it where it is, or copy the thread"
            }
            Self::Cancellation => {
                "runs that cancel others; answer or continue it with the strategy `reject` or `enqueue`"
            }
            Self::Deletion => "a deletion; terminate the instance before",
        })
    }
}

impl StoreError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::NotFound { .. } => "W0201",
            Self::Busy { .. } => "W0202",
            Self::Fenced { .. } => "W0203",
            Self::Answered { .. } => "W0204",
            Self::KeyReused { .. } => "W0205",
            Self::Locked { .. } => "W0206",
            Self::Full { .. } => "W0207",
            Self::ReadOnly { .. } => "W0208",
            Self::Newer { .. } => "W0209",
            Self::Corrupt { .. } => "W0210",
            Self::Unavailable { .. } => "W0211",
            Self::Conflict { .. } => "W0212",
            Self::BadNamespace { .. } => "W0213",
            Self::BadKey { .. } => "W0214",
            Self::BadValue { .. } => "W0215",
            Self::BadFilter { .. } => "W0216",
            Self::NotRequeued { .. } => "W0217",
            Self::Dropped { .. } => "W0218",
            Self::FileChanged { .. } => "W0219",
            Self::Older { .. } => "W0220",
            Self::MailboxFull { .. } => "W0640",
            Self::MailboxClosed { .. } => "W0641",
            Self::BelongsToInstance { .. } => "W0649",
        })
    }

    /// Returns `true` if the same call may succeed later without a change.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Locked { .. }
            | Self::Full { .. }
            | Self::MailboxFull { .. } => true,
            Self::Unavailable { retriable, .. } => *retriable,
            _ => false,
        }
    }

    /// Converts the error to the form in which it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string())
            .retriable(self.is_retriable())
            .with_sources_of(self)
    }
}

/// Result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;
