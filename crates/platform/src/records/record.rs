//! Plans and deliverables as their events make them.

use super::Result;
use super::error::RecordError;
use super::version::{CHANGES_MAX, Event, VERSIONS_MAX, Version, check_length};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use weftwork_store::sequence::{DELIVERABLES, PLANS, of_thread};
use weftwork_store::{Sequence, SequenceQuery, SequenceRow, StoreError};
use weftwork_types::canonical;
use weftwork_types::id::InvalidId;
use weftwork_types::{RunId, ThreadId};

/// Length of a derived id in characters.
const DERIVED_CHARS: usize = 32;

/// Kinds of records with versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A plan.
    Plan,
    /// The result of a build.
    Deliverable,
}

impl RecordKind {
    /// Returns the word for the kind, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Deliverable => "deliverable",
        }
    }

    /// Returns the kind of the sequences of such records.
    fn sequences(self) -> &'static str {
        match self {
            Self::Plan => PLANS,
            Self::Deliverable => DELIVERABLES,
        }
    }

    /// Returns the read of all such records of a thread.
    pub(super) fn query(self, thread: &ThreadId) -> SequenceQuery {
        let (first, last) = of_thread(thread);
        SequenceQuery { first, last: Some(last), ..SequenceQuery::all(self.sequences()) }
    }
}

/// The id of a record within its thread: 1 to 128 characters from letters, digits, `_`, `-`, `.`
/// and `:`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RecordId(String);

impl TryFrom<String> for RecordId {
    type Error = InvalidId;

    fn try_from(text: String) -> std::result::Result<Self, InvalidId> {
        Self::new(text)
    }
}

impl RecordId {
    /// Creates an id from a text.
    ///
    /// # Errors
    /// [`InvalidId`] for other texts.
    pub fn new(text: impl AsRef<str>) -> std::result::Result<Self, InvalidId> {
        // Runs and records have the same characters in their ids.
        let id =
            RunId::new(text.as_ref()).map_err(|error| InvalidId { kind: "record id", ..error })?;
        Ok(Self(id.into()))
    }

    /// Creates an id from texts, such as those of a run and its task. Equal texts give equal ids.
    #[must_use]
    pub fn derived(texts: &[&str]) -> Self {
        let hash = canonical::hash(&serde_json::json!(texts)).to_string();
        Self(hash.chars().take(DERIVED_CHARS).collect())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The place of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RecordRef {
    /// Kind.
    pub kind: RecordKind,
    /// Thread that the record belongs to.
    pub thread: ThreadId,
    /// Id within the thread.
    pub id: RecordId,
}

impl RecordRef {
    /// Creates the place of a plan.
    #[must_use]
    pub fn plan(thread: &ThreadId, id: RecordId) -> Self {
        Self { kind: RecordKind::Plan, thread: thread.clone(), id }
    }

    /// Creates the place of a deliverable.
    #[must_use]
    pub fn deliverable(thread: &ThreadId, id: RecordId) -> Self {
        Self { kind: RecordKind::Deliverable, thread: thread.clone(), id }
    }

    /// Returns the place of the record that an event belongs to.
    pub(super) fn of_row(kind: RecordKind, thread: &ThreadId, row: &SequenceRow) -> Option<Self> {
        let id = row.sequence.key.strip_prefix(thread.to_key().as_ref())?.strip_prefix('/')?;
        Some(Self { kind, thread: thread.clone(), id: RecordId::new(id).ok()? })
    }

    pub(super) fn sequence(&self) -> Sequence {
        Sequence::new(self.kind.sequences(), format!("{}/{}", self.thread.to_key(), self.id))
    }

    pub(super) fn content_key(&self, unique: &str) -> String {
        format!("{}/{}/{}/{unique}", self.thread.to_key(), self.kind.name(), self.id)
    }

    pub(super) fn missing(&self) -> RecordError {
        StoreError::NotFound { kind: self.kind.name(), id: self.id.to_string() }.into()
    }
}

impl fmt::Display for RecordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.name(), self.id)
    }
}

/// A plan or a deliverable with its versions, without their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Place of the record.
    #[serde(flatten)]
    pub at: RecordRef,
    /// Subject of the first version, to which the record belongs.
    pub subject: String,
    /// Number of the current version: the newest one, unless another one was made current since.
    pub current: u64,
    /// Versions that were not deleted, in the order of their numbers.
    pub versions: Vec<Version>,
    /// Version of the sequence of the record.
    #[serde(skip)]
    pub(super) revision: u64,
    /// Versions that each version continues, deleted ones included, in the order of their numbers.
    #[serde(skip)]
    parents: Vec<[Option<u64>; 2]>,
    /// Versions that were current when a version was added that does not continue them.
    #[serde(skip)]
    displaced: BTreeSet<u64>,
    /// Keys of the contents of all versions. A version that is written twice counts once.
    #[serde(skip)]
    contents: BTreeSet<String>,
}

impl Record {
    /// Reads a record from all records of its sequence. `None` if it was deleted, or never existed.
    pub(super) fn read(at: &RecordRef, rows: &[SequenceRow]) -> Result<Option<Self>> {
        for (place, row) in rows.iter().enumerate() {
            match row.json()? {
                Event::Version(version) => {
                    let mut record = Self::new(at, &version.by);
                    record.add(*version);
                    record.revision = row.version;
                    return record.with_events(rows.get(place + 1..).unwrap_or_default());
                }
                Event::Deleted { .. } => return Ok(None),
                Event::Current { .. } | Event::DeletedVersion { .. } => {}
            }
        }
        Ok(None)
    }

    /// Returns the record after further events. `None` if it was deleted.
    pub(super) fn with_events(mut self, rows: &[SequenceRow]) -> Result<Option<Self>> {
        for row in rows {
            match row.json()? {
                Event::Version(version) => self.add(*version),
                Event::Deleted { .. } => return Ok(None),
                Event::Current { version, .. } => self.current = version,
                Event::DeletedVersion { version, .. } => self.delete(version),
            }
            self.revision = row.version;
        }
        Ok(Some(self))
    }

    fn new(at: &RecordRef, subject: &str) -> Self {
        Self {
            at: at.clone(),
            subject: subject.to_owned(),
            current: 0,
            versions: Vec::new(),
            revision: 0,
            parents: Vec::new(),
            displaced: BTreeSet::new(),
            contents: BTreeSet::new(),
        }
    }

    fn add(&mut self, version: Version) {
        if !self.contents.insert(version.unique.clone()) {
            return;
        }
        let number = self.parents.len() as u64 + 1;
        let is_older = |parent: &u64| (1..number).contains(parent);
        let parent = version.parent.filter(is_older);
        let merge_of = version.merge_of.filter(is_older);
        self.parents.push([parent, merge_of]);
        self.versions.push(Version { number, parent, merge_of, ..version });
        // Most versions continue the current one, whose ancestors need no search.
        let continues = [parent, merge_of].contains(&Some(self.current));
        if number > 1 && !continues && !self.ancestors(number).contains(&self.current) {
            self.displaced.insert(self.current);
        }
        self.current = number;
    }

    fn delete(&mut self, number: u64) {
        self.versions.retain(|version| version.number != number);
        if self.current == number {
            self.current = self.versions.last().map_or(0, |version| version.number);
        }
    }

    /// Returns the version with a number; `None` if it never existed or was deleted.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// Returns the version with a number.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it never existed or was deleted.
    pub fn version(&self, number: u64) -> Result<&Version> {
        let missing = || StoreError::NotFound {
            kind: "version",
            id: format!("{number} of {} {}", self.at.kind.name(), self.at.id),
        };
        Ok(self.find(number).ok_or_else(missing)?)
    }

    /// Returns the current version.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for a broken invariant: a record has a current version.
    pub fn current_version(&self) -> Result<&Version> {
        self.version(self.current)
    }

    /// Returns the versions that were current until a version was added that does not continue
    /// them, and that the current version does not continue: for example the edit of a person
    /// during a build that began before it. They can be merged into the current one.
    #[must_use]
    pub fn unmerged(&self) -> Vec<u64> {
        let continued = self.ancestors(self.current);
        let is_left = |number: &&u64| self.find(**number).is_some() && !continued.contains(number);
        self.displaced.iter().filter(is_left).copied().collect()
    }

    /// Returns the newest version that both versions are or continue.
    pub(super) fn common_ancestor(&self, a: u64, b: u64) -> Option<&Version> {
        let of_a = self.ancestors(a);
        let of_b = self.ancestors(b);
        of_a.iter()
            .rev()
            .filter(|number| of_b.contains(number))
            .find_map(|number| self.find(*number))
    }

    /// Returns a version and all versions that it continues, deleted ones included.
    fn ancestors(&self, number: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let mut next = vec![number];
        while let Some(number) = next.pop() {
            if found.insert(number) {
                let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                let parents = index.and_then(|index| self.parents.get(index));
                next.extend(parents.into_iter().flatten().flatten());
            }
        }
        found
    }

    /// Checks that one more version, or one more change, is within the limits. A run checks the
    /// record that it read; its writes expect no version, so that several runs at once may exceed
    /// the limit by one version each.
    ///
    /// # Errors
    /// [`RecordError::Limit`] otherwise.
    pub fn check_room(&self) -> Result<()> {
        check_length(&self.at, "versions", self.versions.len() + 1, VERSIONS_MAX)?;
        self.check_changes()
    }

    /// Checks that one more change may be made.
    pub(super) fn check_changes(&self) -> Result<()> {
        let changes = usize::try_from(self.revision).unwrap_or(usize::MAX);
        check_length(&self.at, "changes", changes.saturating_add(1), CHANGES_MAX)
    }
}
