//! Values stored by reference: results of tools that are too large for a message.
//!
//! An artifact is a record of its thread (see [`of_thread`]), written by
//! the commit that includes the result of its call. It belongs to the subject of the run's
//! principal, and lapses at a time. A second sequence has the ids by that time.

use crate::StoreError;
use crate::sequence::{
    Change, Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite, of_thread,
};
use crate::table::{Result, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weftwork_types::canonical::{self, Hash};
use weftwork_types::run::RunRef;
use weftwork_types::shown::present;
use weftwork_types::{Principal, RunId, ThreadId, Timestamp};

/// Kind of the sequences of artifacts; the key is the id.
pub const ARTIFACTS: &str = "thread:artifact";
/// Kind of the sequences of lapses; the key is a time and an id.
const LAPSES: &str = "artifact_lapse";
const FORMAT: u32 = 2;
/// The format without shown forms.
const WHOLE_ONLY: u32 = 1;
/// Number of artifacts that one transaction deletes.
const AT_ONCE: usize = 100;
/// Highest version of a sequence in all stores.
const ALL: u64 = i64::MAX as u64;

/// A value stored by reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Id: the thread, a slash, and a part of the call's key.
    pub id: String,
    /// Thread whose run stored the value.
    pub thread: ThreadId,
    /// Run that stored the value.
    pub run: RunId,
    /// Subject of the run's principal. Other subjects cannot read the value.
    pub subject: String,
    /// Canonical name of the tool that returned the value.
    pub tool: String,
    /// Length of the value's JSON text in bytes.
    pub bytes: u64,
    /// Hash of the value's canonical JSON text.
    pub sha256: Hash,
    /// Time of the call's end.
    pub stored_at: Timestamp,
    /// Time from which the value cannot be read.
    pub expires_at: Timestamp,
    /// The value.
    pub value: Value,
    /// The part of the value that may be shown; `None` if the whole value may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub shown: Option<Value>,
}

impl Artifact {
    /// Returns the writes that store the artifact.
    ///
    /// # Errors
    /// Never, because a JSON value has a JSON form.
    pub fn sequence_writes(&self) -> Result<[SequenceWrite; 2]> {
        let lapse = Sequence::new(LAPSES, lapse_key(self.expires_at, &self.id));
        Ok([
            SequenceWrite::replace(
                Sequence::new(ARTIFACTS, &self.id),
                Content::json(FORMAT, self)?,
            ),
            SequenceWrite::replace(lapse, Content::json(FORMAT, &self.id)?),
        ])
    }

    fn read(row: &SequenceRow) -> Result<Self> {
        let mut artifact: Self = row.json()?;
        if row.content.format == WHOLE_ONLY {
            // What of it may be shown was not recorded.
            artifact.shown = Some(Value::Null);
        }
        if canonical::hash(&artifact.value) == artifact.sha256 {
            return Ok(artifact);
        }
        Err(StoreError::Corrupt {
            location: format!("artifact `{}`", artifact.id),
            what: "its value does not have the recorded hash".to_owned(),
        })
    }

    /// Returns the part of the value that clients may have.
    #[must_use]
    pub fn shown(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.value)
    }

    fn is_for(&self, who: &Principal, now: Timestamp) -> bool {
        self.subject == who.subject && self.expires_at > now
    }
}

fn lapse_key(at: Timestamp, id: &str) -> String {
    format!("{:020}/{id}", at.0)
}

/// Returns an artifact.
///
/// # Errors
/// Returns [`StoreError::NotFound`] if it does not exist, has lapsed, or belongs to another subject.
pub async fn artifact(
    store: &dyn Store,
    who: &Principal,
    id: &str,
    now: Timestamp,
) -> Result<Artifact> {
    let rows = store.sequence_rows(who, SequenceQuery::of(Sequence::new(ARTIFACTS, id), 0)).await?;
    let found = rows.last().map(Artifact::read).transpose()?;
    found.filter(|found| found.is_for(who, now)).ok_or_else(|| StoreError::NotFound {
        kind: "artifact",
        id: id.chars().take(200).collect(),
    })
}

/// Returns the artifacts of a thread that the principal may read, in the order of their ids.
///
/// # Errors
/// Only system errors.
pub async fn artifacts(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
    now: Timestamp,
) -> Result<Vec<Artifact>> {
    let (first, last) = of_thread(thread);
    let kind = ARTIFACTS.to_owned();
    // Artifacts are large, so that few are read at once.
    let mut query = SequenceQuery { kind, first, last: Some(last), after: 0, limit: 20 };
    let mut found = Vec::new();
    loop {
        let rows = store.sequence_rows(who, query.clone()).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        query = query.following(last);
        for row in &rows {
            found.extend(Some(Artifact::read(row)?).filter(|found| found.is_for(who, now)));
        }
    }
}

/// Deletes the artifacts of an organisation that have lapsed, and returns their number.
///
/// # Errors
/// Only system errors. Deletions up to then are retained.
pub async fn delete_lapsed(store: &dyn Store, who: &Principal, now: Timestamp) -> Result<u64> {
    let mut deleted = 0;
    loop {
        let kind = LAPSES.to_owned();
        let first = String::new();
        let last = Some(lapse_key(now, "~"));
        let query = SequenceQuery { kind, first, last, after: 0, limit: AT_ONCE };
        let rows = store.sequence_rows(who, query).await?;
        if rows.is_empty() {
            return Ok(deleted);
        }
        let mut writes = Vec::new();
        for row in rows {
            let id: String = row.json()?;
            writes.push(SequenceWrite::delete(Sequence::new(ARTIFACTS, id), ALL));
            writes.push(SequenceWrite {
                to: row.sequence,
                expected: None,
                change: Change::Delete { up_to: ALL },
            });
            deleted += 1;
        }
        store.write_sequences(who, writes, now).await?;
    }
}

/// Returns the id of the artifact of a call.
#[must_use]
pub fn artifact_id(at: &RunRef, key: Hash) -> String {
    let key: String = key.to_string().chars().take(32).collect();
    format!("{}/{key}", at.thread.to_key())
}
