//! Creation, metadata and search of threads.
//!
//! A thread exists from its creation or its first run on, whichever comes first. Its metadata is a
//! JSON object of the client, by which it can be searched.

use crate::StoreError;
use crate::record::{RunRow, ThreadRow};
use crate::table::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use weftwork_types::canonical::{DEPTH_MAX, can_be_read_back};
use weftwork_types::code::Fault;
use weftwork_types::run::RunStatus;
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Metadata of a thread.
pub type Metadata = Map<String, Value>;

/// Maximum number of threads that one search returns. A higher limit has the same effect.
pub const SEARCH_LIMIT_MAX: usize = 1_000;
/// Maximum length of the metadata of a thread, in bytes of JSON.
pub const METADATA_BYTES_MAX: usize = 64 * 1_024;

/// A thread to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewThread {
    /// Id of the thread.
    pub id: ThreadId,
    /// Graph of the thread, if it is known before the first run.
    pub graph: Option<String>,
    /// Metadata of the thread.
    pub metadata: Metadata,
    /// Creation time.
    pub created_at: Timestamp,
    /// Result if the thread exists.
    pub if_exists: IfExists,
}

/// The result of the creation of a thread that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// The creation fails with [`StoreError::Conflict`].
    #[default]
    Refuse,
    /// The existing thread is returned, unchanged.
    Return,
}

impl NewThread {
    /// Returns the row of the thread. Every store calls this before it writes.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the metadata exceeds a limit.
    pub fn row(&self) -> Result<ThreadRow> {
        check_metadata(&self.id, &self.metadata)?;
        Ok(ThreadRow {
            id: self.id.clone(),
            graph: self.graph.clone().filter(|graph| !graph.is_empty()),
            status: None,
            head: None,
            created_at: self.created_at,
            updated_at: self.created_at,
            wakes_at: None,
            metadata: self.metadata.clone(),
        })
    }
}

/// Member of the metadata of a thread that describes its conversation, with the member `subject`.
pub const CONVERSATION: &str = "weft:conversation";

/// Returns `true` if a thread is the conversation of another subject of the organisation.
#[must_use]
pub fn is_of_other(who: &Principal, metadata: &Metadata) -> bool {
    let subject = metadata.get(CONVERSATION).and_then(|of| of.get("subject"));
    subject.is_some_and(|subject| *subject != who.subject)
}

/// Merges new metadata into that of a thread, member by member: members of the same name are
/// replaced. Every store uses this.
///
/// # Errors
/// Returns [`StoreError::Conflict`] if the result exceeds a limit.
pub fn merge_metadata(id: &ThreadId, known: &mut Metadata, new: &Metadata) -> Result<()> {
    let mut merged = known.clone();
    merged.extend(new.iter().map(|(name, value)| (name.clone(), value.clone())));
    check_metadata(id, &merged)?;
    *known = merged;
    Ok(())
}

fn check_metadata(id: &ThreadId, metadata: &Metadata) -> Result<()> {
    let refuse = |expected, found| {
        let location = format!("metadata of thread `{id}`");
        Err(StoreError::Conflict { location, expected, found })
    };
    if !metadata.values().all(can_be_read_back) {
        return refuse(format!("at most {DEPTH_MAX} levels"), "more".to_owned());
    }
    let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    if bytes > METADATA_BYTES_MAX {
        return refuse(format!("at most {METADATA_BYTES_MAX} bytes of JSON"), bytes.to_string());
    }
    Ok(())
}

/// The status of a thread, derived from its runs and questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// The thread has no unfinished run, and none of the other conditions holds.
    Idle,
    /// A run has not ended, unless a question is open and the next run waits for its time or in a
    /// mailbox.
    Busy,
    /// The thread is not busy, the last run did not fail, and it ended at an interrupt or a question
    /// is open.
    Interrupted,
    /// The thread is not busy, and the last run failed.
    Error,
}

/// The unfinished runs of a thread, as far as its status depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedRuns {
    /// No run is unfinished.
    None,
    /// The first of them waits for its time, or in a mailbox.
    Waiting,
    /// The first of them is executed, or is about to be.
    Active,
}

impl UnfinishedRuns {
    /// Returns the state of the runs of a thread, in the order of their acceptance.
    #[must_use]
    pub fn of<'a>(runs: impl Iterator<Item = &'a RunRow>) -> Self {
        let mut first = Self::None;
        for run in runs.filter(|run| !run.status.is_final()) {
            let options = &run.new.options;
            let waits = options.not_before.is_some() || options.mailbox.is_some();
            first = match (first, run.status) {
                (_, RunStatus::Pending | RunStatus::Running) => return Self::Active,
                (Self::None, _) if waits => Self::Waiting,
                (Self::None, _) => Self::Active,
                (known, _) => known,
            };
        }
        first
    }
}

impl ThreadStatus {
    /// Derives the status of a thread from the status of its last run that began. `asks` is `true` if
    /// a question is open.
    #[must_use]
    pub fn of(last: Option<RunStatus>, unfinished: UnfinishedRuns, asks: bool) -> Self {
        let is_busy = match unfinished {
            UnfinishedRuns::None => false,
            UnfinishedRuns::Waiting => !asks,
            UnfinishedRuns::Active => true,
        };
        match last {
            _ if is_busy => Self::Busy,
            Some(RunStatus::Failed) => Self::Error,
            Some(RunStatus::Interrupted) => Self::Interrupted,
            _ if asks => Self::Interrupted,
            _ => Self::Idle,
        }
    }

    /// Returns the word for the status, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// A search for threads. All conditions must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadQuery {
    /// Ids of the threads; `None` for any.
    pub ids: Option<BTreeSet<ThreadId>>,
    /// Metadata that [is contained](contains) in that of the thread; empty for any.
    pub metadata: Metadata,
    /// Status; `None` for any.
    pub status: Option<ThreadStatus>,
    /// Order of the result, or the position after an earlier result.
    pub from: SearchFrom,
    /// Maximum number of threads, at most [`SEARCH_LIMIT_MAX`].
    pub limit: usize,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            ids: None,
            metadata: Metadata::new(),
            status: None,
            from: SearchFrom::Start(ThreadOrder::default()),
            limit: SEARCH_LIMIT_MAX,
        }
    }
}

/// The position at which a search starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchFrom {
    /// The first thread in this order.
    Start(ThreadOrder),
    /// The thread after the last one of an earlier result, in the order of that result.
    After(ThreadCursor),
}

/// The order of the threads that a search returns. Threads with equal times are ordered by id, in
/// the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadOrder {
    /// Property by which threads are ordered.
    pub by: ThreadKey,
    /// Direction of the order.
    pub direction: Direction,
}

/// A property by which threads are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadKey {
    /// Creation time.
    #[default]
    CreatedAt,
    /// Time of the last change. A thread that changes during a search moves in this order.
    UpdatedAt,
    /// Id.
    Id,
}

/// A direction of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// From the lowest to the highest.
    Ascending,
    /// From the highest to the lowest.
    #[default]
    Descending,
}

/// A position in a search: its order, and the last thread of a result. A search from a cursor is not
/// affected by threads that were created or deleted meanwhile, other than that they are included or
/// missing. The text form is opaque to clients; it contains only letters, digits, and `_-.:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCursor {
    order: ThreadOrder,
    time: Timestamp,
    id: ThreadId,
}

impl ThreadCursor {
    /// Returns the position of a thread.
    #[must_use]
    pub fn of(order: ThreadOrder, row: &ThreadRow) -> Self {
        let time = match order.by {
            ThreadKey::CreatedAt => row.created_at,
            ThreadKey::UpdatedAt => row.updated_at,
            ThreadKey::Id => Timestamp(0),
        };
        Self { order, time, id: row.id.clone() }
    }

    fn is_before(&self, other: &Self) -> bool {
        let ours = (self.time, &self.id);
        let theirs = (other.time, &other.id);
        match self.order.direction {
            Direction::Ascending => ours < theirs,
            Direction::Descending => ours > theirs,
        }
    }
}

impl fmt::Display for ThreadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.order.by {
            ThreadKey::CreatedAt => 'c',
            ThreadKey::UpdatedAt => 'u',
            ThreadKey::Id => 'i',
        };
        let direction = match self.order.direction {
            Direction::Ascending => 'a',
            Direction::Descending => 'd',
        };
        write!(f, "{by}{direction}.{}.{}", self.time.0, self.id)
    }
}

/// An error for a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cursor `{found}` is not valid: expected the cursor of an earlier result, unchanged")]
pub struct InvalidCursor {
    /// Rejected text, truncated to 80 characters.
    pub found: String,
}

impl FromStr for ThreadCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidCursor> {
        let invalid = || InvalidCursor { found: text.chars().take(80).collect() };
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or_else(invalid);
        let order = next()?;
        let time = next()?;
        let id = next()?;
        let (by, direction) = order.split_at_checked(1).ok_or_else(invalid)?;
        let by = match by {
            "c" => ThreadKey::CreatedAt,
            "u" => ThreadKey::UpdatedAt,
            "i" => ThreadKey::Id,
            _ => return Err(invalid()),
        };
        let direction = match direction {
            "a" => Direction::Ascending,
            "d" => Direction::Descending,
            _ => return Err(invalid()),
        };
        let time = Timestamp(time.parse().map_err(|_| invalid())?);
        let id = ThreadId::new(id).map_err(|_| invalid())?;
        Ok(Self { order: ThreadOrder { by, direction }, time, id })
    }
}

/// A thread found by a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundThread {
    /// Row of the thread.
    pub row: ThreadRow,
    /// Status of the thread.
    pub status: ThreadStatus,
    /// First column of the row that cannot be read, if there is one. The row has no value of such a
    /// column, and no thread takes the others from a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Fault>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ThreadPage {
    /// Threads, in order.
    pub threads: Vec<FoundThread>,
    /// Position after the last thread, if there may be more.
    pub next: Option<ThreadCursor>,
}

impl ThreadQuery {
    /// Returns the order of the result.
    #[must_use]
    pub fn order(&self) -> ThreadOrder {
        match &self.from {
            SearchFrom::Start(order) => *order,
            SearchFrom::After(cursor) => cursor.order,
        }
    }

    /// Returns the time and id after which the result starts. At the start of an order, these are
    /// values before those of all threads.
    #[must_use]
    pub fn bound(&self) -> (Timestamp, &str) {
        match &self.from {
            SearchFrom::After(cursor) => (cursor.time, cursor.id.as_str()),
            SearchFrom::Start(order) => match order.direction {
                Direction::Ascending => (Timestamp(i64::MIN), ""),
                Direction::Descending => (Timestamp(i64::MAX), "\u{10ffff}"),
            },
        }
    }

    /// Returns the number of threads that a store has to read: one more than the result has, so
    /// that the end is detected.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.limit.min(SEARCH_LIMIT_MAX) + 1
    }

    /// Returns `true` if a thread fulfils the conditions and is after the start.
    #[must_use]
    pub fn has(&self, row: &ThreadRow, status: ThreadStatus) -> bool {
        let after = match &self.from {
            SearchFrom::Start(_) => true,
            SearchFrom::After(cursor) => cursor.is_before(&ThreadCursor::of(cursor.order, row)),
        };
        after
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&row.id))
            && self.status.is_none_or(|wanted| wanted == status)
            && self.fits(row)
    }

    /// Returns `true` if the metadata of a thread contains that of the search.
    #[must_use]
    pub fn fits(&self, row: &ThreadRow) -> bool {
        has_members(&row.metadata, &self.metadata)
    }

    /// Makes the result from at most [`reads`](Self::reads) threads in order. Threads whose
    /// metadata does not fit are left out, so that a store may select by a part of it.
    #[must_use]
    pub fn page(&self, mut threads: Vec<FoundThread>) -> ThreadPage {
        let limit = self.reads() - 1;
        let more = threads.len() > limit;
        threads.truncate(limit);
        let last = threads.last().filter(|_| more);
        let next = last.map(|last| ThreadCursor::of(self.order(), &last.row));
        threads.retain(|found| self.fits(&found.row));
        ThreadPage { threads, next }
    }
}

/// Returns `true` if a value contains another: an object contains the members of the other one, an
/// array contains each element of the other one in any place, and other values are equal. Numbers
/// are compared by value, so that `1` and `1.0` are equal.
///
/// ```
/// use serde_json::json;
/// use weftwork_store::thread::contains;
///
/// let value = json!({"user": {"id": 7, "name": "Ada"}, "tags": ["a", "b"]});
/// assert!(contains(&value, &json!({"user": {"id": 7.0}, "tags": ["b"]})));
/// assert!(!contains(&value, &json!({"tags": ["c"]})));
/// ```
#[must_use]
pub fn contains(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => has_members(value, other),
        (Value::Array(value), Value::Array(other)) => {
            other.iter().all(|other| value.iter().any(|value| contains(value, other)))
        }
        (Value::Number(value), Value::Number(other)) => {
            let is_float = value.is_f64() || other.is_f64();
            value == other || is_float && value.as_f64() == other.as_f64()
        }
        _ => value == other,
    }
}

fn has_members(value: &Metadata, other: &Metadata) -> bool {
    other.iter().all(|(name, other)| value.get(name).is_some_and(|value| contains(value, other)))
}
