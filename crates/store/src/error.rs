//! How stores fail, split by what the caller can do.

use crate::items::{KEY_BYTES_MAX, NamespaceProblem};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Answer;

/// A store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such thing, or it belongs to another organisation.
    #[error("{kind} `{id}` does not exist")]
    NotFound {
        /// What kind of thing: `thread`, `run`, `interrupt`, `call`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The thread already has a run that is not finished.
    #[error("thread `{thread}` is busy: run `{run}` has not ended; wait for it or cancel it")]
    Busy {
        /// The thread.
        thread: String,
        /// The run that holds it.
        run: String,
    },
    /// The run has ended or another worker took it over; whatever this one still writes is refused.
    #[error(
        "run `{run}` takes no more writes of this worker: it has ended or was taken over (its fence is {newest}, ours is {ours})"
    )]
    Fenced {
        /// The run.
        run: String,
        /// The fence in the store.
        newest: u64,
        /// The fence of the refused write.
        ours: u64,
    },
    /// Only the last run of a thread can be requeued, once it failed. Nothing was changed.
    #[error(
        "run `{run}` of thread `{thread}` cannot be requeued: it {why}, and only the last run of a thread can be, once it failed; start a new run on the thread instead"
    )]
    NotRequeued {
        /// The run.
        run: String,
        /// Its thread.
        thread: String,
        /// What stands against it.
        why: &'static str,
    },
    /// Events that were asked for are not kept any more.
    #[error(
        "events of run `{run}` after {after} were dropped: the oldest that is kept is {oldest}; read on after {}", oldest - 1
    )]
    Dropped {
        /// The run.
        run: String,
        /// After which event it was read.
        after: u64,
        /// The oldest that is kept.
        oldest: u64,
    },
    /// The question was answered before; the first answer counts.
    #[error("interrupt `{interrupt}` was already answered by {}", first.answered_by)]
    Answered {
        /// The question.
        interrupt: String,
        /// The first answer.
        first: Box<Answer>,
    },
    /// The same idempotency key came with another request.
    #[error("idempotency key `{key}` was used before with a different request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// What was to be written does not fit what is stored. Nothing was changed.
    #[error("{place} cannot be written: expected {expected}, found {found}")]
    Conflict {
        /// What was to be written: kind and id.
        place: String,
        /// What it needs.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Another process holds the database and did not let go in time.
    #[error("store `{place}` is locked by another process; waited {waited_ms} ms")]
    Locked {
        /// Which store.
        place: String,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// There is no room left to write. Nothing was changed.
    #[error("store `{place}` is full: {reason}; free some space and run again")]
    Full {
        /// Which store.
        place: String,
        /// What the system said.
        reason: String,
    },
    /// The store may be read but not written.
    #[error("store `{place}` is read-only: {reason}")]
    ReadOnly {
        /// Which store.
        place: String,
        /// What the system said.
        reason: String,
    },
    /// The store was written by a newer version of this program.
    #[error("{place} has format {found}, this program knows up to {known}; use a newer program")]
    Newer {
        /// Which store, or which record of it.
        place: String,
        /// The format found.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// What is stored cannot be read. It is never replaced by something fresh.
    #[error("store is damaged at {place}: {what}; restore it from a backup")]
    Corrupt {
        /// Where: table and key.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The store could not be opened or used, for a reason of the system.
    #[error("store `{place}` cannot be used: {reason}")]
    Unavailable {
        /// Which store.
        place: String,
        /// What the system said.
        reason: String,
        /// Whether the same call may succeed later.
        retriable: bool,
    },
    /// Labels do not make a namespace, or what namespaces begin or end with.
    #[error("namespace {found} is not valid: {problem}")]
    BadNamespace {
        /// The labels, cut.
        found: String,
        /// What is wrong with them.
        problem: NamespaceProblem,
    },
    /// A text is not the key of an item.
    #[error(
        "item key {found} is not valid: it has {bytes} bytes; expected 1 to {KEY_BYTES_MAX}, and no NUL"
    )]
    BadKey {
        /// The text, quoted and cut.
        found: String,
        /// How long it is.
        bytes: usize,
    },
    /// A value cannot be that of an item. Nothing was changed.
    #[error(
        "item {item} of namespace `{namespace}` cannot be put: expected {expected}, found {found}"
    )]
    BadValue {
        /// The item's key, quoted and cut.
        item: String,
        /// Its namespace.
        namespace: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A filter of a search cannot be read.
    #[error("{place} cannot be used: expected {expected}, found `{found}`")]
    BadFilter {
        /// Where in the filter.
        place: String,
        /// What must be there.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl StoreError {
    /// The stable code.
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
        })
    }

    /// Whether the same call may succeed later without a change.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Locked { .. } | Self::Full { .. } => true,
            Self::Unavailable { retriable, .. } => *retriable,
            _ => false,
        }
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string()).retriable(self.is_retriable())
    }
}
