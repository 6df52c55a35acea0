//! The record of approvals: decisions about calls, and answers that were refused.
//!
//! The records of a thread are one sequence of writes, in the order in which they were
//! written. A decision is written by the commit of the run that applies it, a
//! refusal when the answer is refused. They are deleted with their thread.

use crate::StoreError;
use crate::mailbox::is_terminated;
use crate::record::InterruptRow;
use crate::sequence::{
    Content, SEQUENCE_ROWS_MAX, Sequence, SequenceQuery, SequenceRow, SequenceWrite,
};
use crate::table::{Result, Store};
use crate::thread::{InvalidCursor, SearchFrom, ThreadQuery, ThreadStatus};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weftwork_types::approval::{ApprovalOutcome, ApprovalRecord};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{InterruptId, Principal, ThreadId, Timestamp};

/// Kind of the sequences of approvals; the key is a thread and a slash.
pub const APPROVALS: &str = "thread:approval";
/// Maximum number of refused answers to one question that are recorded. Further ones are refused
/// without a record.
pub const REFUSALS_MAX: usize = 16;
const FORMAT: u32 = 1;

/// A record with its thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Thread of the call.
    pub thread: ThreadId,
    /// The record.
    #[serde(flatten)]
    pub record: ApprovalRecord,
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingApproval {
    /// Thread of the call, on which the question is answered.
    pub thread: ThreadId,
    /// The question. [`Interrupt::approval`] returns the call; at the question's expiry the call counts
    /// as rejected.
    pub question: Interrupt,
    /// End of the run that asked last, if the run is stored.
    pub asked_at: Option<Timestamp>,
}

/// A read of records, ordered by thread and the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalQuery {
    /// The only thread to read; `None` for all threads of the organisation.
    pub thread: Option<ThreadId>,
    /// Position after which the records are read; `None` for the first.
    pub after: Option<ApprovalCursor>,
    /// Maximum number of records, at most [`SEQUENCE_ROWS_MAX`].
    pub limit: usize,
}

/// A part of the records.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalPage {
    /// The records.
    pub rows: Vec<ApprovalRow>,
    /// Position after the last record; `None` if there are no further ones.
    pub next: Option<ApprovalCursor>,
}

/// The position after a record, as a text for clients. Opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalCursor {
    version: u64,
    thread: ThreadId,
}

impl fmt::Display for ApprovalCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version, self.thread)
    }
}

impl FromStr for ApprovalCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidCursor> {
        let invalid = || InvalidCursor { found: text.chars().take(80).collect() };
        let (version, thread) = text.split_once('.').ok_or_else(invalid)?;
        let version = version.parse().map_err(|_| invalid())?;
        Ok(Self { version, thread: ThreadId::new(thread).map_err(|_| invalid())? })
    }
}

fn sequence(thread: &ThreadId) -> Sequence {
    Sequence::new(APPROVALS, format!("{}/", thread.to_key()))
}

impl ApprovalRow {
    /// Returns the write that adds the record.
    ///
    /// # Errors
    /// Never, because a record has a JSON form.
    pub fn sequence_write(&self) -> Result<SequenceWrite> {
        Ok(SequenceWrite::append(sequence(&self.thread), Content::json(FORMAT, &self.record)?))
    }
}

fn read(row: &SequenceRow) -> Result<ApprovalRow> {
    let corrupt = |what: &str| StoreError::Corrupt {
        location: format!("approval {} of `{}`", row.version, row.sequence.key),
        what: what.to_owned(),
    };
    if row.content.format != FORMAT {
        return Err(corrupt("its format is not known to this program"));
    }
    let thread = row.sequence.key.trim_end_matches('/');
    let thread = ThreadId::from_key(thread).map_err(|_| corrupt("its key is not a thread"))?;
    Ok(ApprovalRow { thread, record: row.json()? })
}

/// Returns a page of records.
///
/// # Errors
/// [`StoreError::Corrupt`] if a record cannot be read, otherwise only system errors.
pub async fn approvals(
    store: &dyn Store,
    who: &Principal,
    query: ApprovalQuery,
) -> Result<ApprovalPage> {
    let ApprovalQuery { thread, after, limit } = query;
    let limit = limit.min(SEQUENCE_ROWS_MAX);
    let (first, after) = match (&thread, after) {
        (_, Some(after)) => (sequence(&after.thread).key, after.version),
        (Some(thread), None) => (sequence(thread).key, 0),
        (None, None) => (String::new(), 0),
    };
    let last = thread.map(|thread| sequence(&thread).key);
    // A position in another thread has no records of this one after it.
    if limit == 0 || last.as_ref().is_some_and(|last| *last != first) {
        return Ok(ApprovalPage { rows: Vec::new(), next: None });
    }
    let query = SequenceQuery { kind: APPROVALS.to_owned(), first, last, after, limit };
    let found = store.sequence_rows(who, query.clone()).await?;
    let rows = found.iter().map(read).collect::<Result<Vec<_>>>()?;
    let next = match found.last() {
        Some(last) if found.len() == limit => {
            let more = store
                .sequence_rows(who, SequenceQuery { limit: 1, ..query.following(last) })
                .await?;
            let row = rows.last().filter(|_| !more.is_empty());
            row.map(|row| ApprovalCursor { version: last.version, thread: row.thread.clone() })
        }
        _ => None,
    };
    Ok(ApprovalPage { rows, next })
}

/// Returns all records of a thread, and the version of their sequence.
async fn records(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<(Vec<ApprovalRecord>, u64)> {
    let mut records = Vec::new();
    let mut version = 0;
    let mut query = SequenceQuery::of(sequence(thread), 0);
    loop {
        let rows = store.sequence_rows(who, query.clone()).await?;
        let Some(last) = rows.last() else { return Ok((records, version)) };
        version = last.version;
        query = query.following(last);
        for row in &rows {
            records.push(read(row)?.record);
        }
    }
}

/// Returns the questions of a thread about which a decision is recorded.
///
/// # Errors
/// See [`approvals`].
pub async fn decided(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<InterruptId>> {
    let (found, _) = records(store, who, thread).await?;
    let decided =
        found.into_iter().filter(|one| matches!(one.outcome, ApprovalOutcome::Decided(_)));
    Ok(decided.map(|one| one.question).collect())
}

/// Records that an answer was refused, unless [`REFUSALS_MAX`] answers to the question were refused
/// before.
///
/// # Errors
/// See [`approvals`].
pub async fn record_refusal(store: &dyn Store, who: &Principal, row: &ApprovalRow) -> Result<()> {
    let ApprovalRow { thread, record } = row;
    let new = row.sequence_write()?;
    loop {
        let (known, version) = records(store, who, thread).await?;
        let refused = known.iter().filter(|one| {
            one.question == record.question && matches!(one.outcome, ApprovalOutcome::Refused(_))
        });
        if refused.count() >= REFUSALS_MAX {
            return Ok(());
        }
        let writes = vec![new.clone().expecting(version)];
        match store.write_sequences(who, writes, record.at).await {
            // Another record was written meanwhile: of several writers one gets on.
            Err(StoreError::Conflict { .. }) => {}
            written => return written,
        }
    }
}

/// Returns calls that wait for a decision, of a thread or of all threads of the organisation, at
/// most `limit`: those of a thread in the order in which they were asked. Calls of a terminated
/// instance wait no more, because it takes no answers.
///
/// # Errors
/// [`StoreError::NotFound`] if the thread does not exist, otherwise only system errors.
pub async fn waiting(
    store: &dyn Store,
    who: &Principal,
    thread: Option<&ThreadId>,
    limit: usize,
) -> Result<Vec<WaitingApproval>> {
    let mut found = match thread {
        Some(thread) if is_terminated(&store.thread(who, thread).await?.metadata) => Vec::new(),
        Some(thread) => of_one(store, who, thread).await?,
        None => of_all(store, who, limit).await?,
    };
    found.truncate(limit);
    Ok(found)
}

async fn of_all(store: &dyn Store, who: &Principal, limit: usize) -> Result<Vec<WaitingApproval>> {
    let mut found = Vec::new();
    // An idle thread has no open question.
    for status in [ThreadStatus::Interrupted, ThreadStatus::Error, ThreadStatus::Busy] {
        let mut query = ThreadQuery { status: Some(status), ..ThreadQuery::default() };
        loop {
            let page = store.search_threads(who, query.clone()).await?;
            for thread in page.threads {
                if is_terminated(&thread.row.metadata) {
                    continue;
                }
                match of_one(store, who, &thread.row.id).await {
                    Ok(waiting) => found.extend(waiting),
                    // The thread was deleted meanwhile.
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
            let Some(next) = page.next else { break };
            query.from = SearchFrom::After(next);
        }
    }
    Ok(found)
}

async fn of_one(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<WaitingApproval>> {
    let rows = store.interrupts(who, thread).await?;
    let mut open = rows.into_iter().filter(InterruptRow::is_open).peekable();
    if open.peek().is_none() {
        return Ok(Vec::new());
    }
    let runs = store.runs(who, thread).await?;
    let waiting = open.filter_map(|row| {
        row.interrupt.approval()?;
        let asked = runs.iter().find(|run| run.new.at.run == row.run);
        let asked_at = asked.and_then(|run| run.ended_at);
        let question = row.interrupt.into_shown();
        Some(WaitingApproval { thread: thread.clone(), question, asked_at })
    });
    Ok(waiting.collect())
}
