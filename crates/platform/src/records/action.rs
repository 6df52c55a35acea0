//! Actions of people on records.

use super::Result;
use super::cache::RecordCache;
use super::check::Form;
use super::error::{Changed, MergeConflicts, RecordError};
use super::merge::merge_contents;
use super::record::{Record, RecordKind, RecordRef};
use super::version::{
    ALL, Author, Event, NewVersion, RECORDS_MAX, VersionContent, check_length, version_writes,
    writes_unchecked,
};
use serde_json::json;
use weftwork_store::{
    Change, Content, Metadata, SequenceQuery, SequenceRow, SequenceWrite, Store, StoreError,
};
use weftwork_types::canonical::hash;
use weftwork_types::{Principal, ThreadId, Timestamp};

/// Number of rows that are read at once to count records.
const COUNTED_ROWS: usize = 64;

/// The plans and deliverables that a principal has in a store.
///
/// Each action reads the record and writes it in one transaction, which expects the record as it
/// was read. If another writer was faster, the action is decided again.
///
/// # Cancel safety
/// An action whose future is dropped has changed the record completely or not at all.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) who: &'a Principal,
    now: Timestamp,
    cache: Option<&'a RecordCache>,
    /// Key of the request that changes a record.
    key: Option<&'a str>,
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("who", self.who).field("now", &self.now).finish()
    }
}

/// An edit of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// Number of the version that was edited. `None` for the version that is current when the edit
    /// is made.
    pub base: Option<u64>,
    /// New title; `None` for that of the edited version.
    pub title: Option<String>,
    /// New content.
    pub content: String,
}

/// A merge of two versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merge {
    /// Number of the first version.
    pub a: u64,
    /// Number of the second version, which is merged into the first one.
    pub b: u64,
    /// The merged content, for versions with conflicts.
    pub resolution: Option<String>,
}

/// Returns the part of the key of a content that a request with a key adds.
fn unique_of_key(key: &str) -> String {
    format!("key-{}", hash(&json!(key)))
}

impl<'a> Records<'a> {
    /// Gives the changes the key of their request: a version that was added under it is not added again.
    #[must_use]
    pub fn under_key(self, key: Option<&'a str>) -> Self {
        Self { key, ..self }
    }

    /// Returns the version of a record that was added under the key of the request.
    pub(crate) fn added_under_key(&self, record: &Record) -> Option<u64> {
        let unique = self.key.map(unique_of_key)?;
        let added = record.versions.iter().find(|version| version.unique == unique)?;
        Some(added.number)
    }

    /// Creates the view of a principal at a time.
    #[must_use]
    pub fn new(store: &'a dyn Store, who: &'a Principal, now: Timestamp) -> Self {
        Self { store, who, now, cache: None, key: None }
    }

    /// Lets reads of single records begin with what this process read before.
    #[must_use]
    pub fn cached(self, cache: &'a RecordCache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Creates a record with its first version. Its thread counts as changed.
    ///
    /// # Errors
    /// Those of [`version_writes`]; [`RecordError::Limit`] if the thread has as many records of this
    /// kind as it may have, [`StoreError::NotFound`] if the thread does not exist,
    /// [`StoreError::Conflict`] if the record exists or existed.
    pub async fn create(&self, at: &RecordRef, new: &NewVersion, form: &Form) -> Result<Record> {
        let mut writes = version_writes(at, new, form, self.author("v1"))?;
        expect(&mut writes, 0);
        self.store.thread(self.who, &at.thread).await?;
        self.check_room(at.kind, &at.thread).await?;
        match self.store.write_sequences(self.who, writes.clone(), self.now).await {
            Err(StoreError::Conflict { .. }) if self.has(at, 0, &writes).await? => {}
            written => written?,
        }
        // A deletion of the thread that has not seen the record begins again after this change of
        // the thread. If it was deleted before, nothing else deletes the record.
        let touched = self.store.update_metadata(self.who, &at.thread, Metadata::new(), self.now);
        if let Err(error) = touched.await {
            let written = writes.into_iter().map(|write| SequenceWrite::delete(write.to, ALL));
            self.store.write_sequences(self.who, written.collect(), self.now).await?;
            return Err(error.into());
        }
        self.read(at).await
    }

    /// Checks that a thread has room for one more record of a kind. A run checks this before it
    /// makes a record; see [`Record::check_room`].
    ///
    /// # Errors
    /// [`RecordError::Limit`] if it has none.
    pub async fn check_room(&self, kind: RecordKind, thread: &ThreadId) -> Result<()> {
        let records = self.count(kind, thread).await?;
        check_length(format!("thread `{thread}`"), "records of a kind", records + 1, RECORDS_MAX)
    }

    /// Returns a record.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist or belongs to another subject.
    pub async fn read(&self, at: &RecordRef) -> Result<Record> {
        let found = self.read_of_all(at).await?;
        let found = found.filter(|record| record.subject == self.who.subject);
        found.ok_or_else(|| at.missing())
    }

    /// Reads a record of any subject: all its events, or those after the ones that this process has read.
    async fn read_of_all(&self, at: &RecordRef) -> Result<Option<Record>> {
        let org = &self.who.org;
        let known = self.cache.and_then(|cache| Some((cache, cache.revision(org, at)?)));
        if let Some((cache, revision)) = known {
            let query = SequenceQuery::of(at.sequence(), revision.saturating_sub(1));
            let rows = self.rows(query).await?;
            if let Some(record) = cache.with_later(org, at, &rows) {
                if let Some(newest) = rows.last().filter(|row| row.version > revision) {
                    cache.put(org, &record, newest);
                }
                return Ok(Some(record));
            }
        }
        let rows = self.rows(SequenceQuery::of(at.sequence(), 0)).await?;
        let record = Record::read(at, &rows)?;
        if let (Some(cache), Some(record), Some(newest)) = (self.cache, &record, rows.last()) {
            cache.put(org, record, newest);
        }
        Ok(record)
    }

    /// Returns a version with its content; `None` for the current one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist, [`StoreError::Corrupt`] if its content is
    /// damaged.
    pub async fn content(&self, record: &Record, version: Option<u64>) -> Result<VersionContent> {
        let version = record.version(version.unwrap_or(record.current))?;
        let query = SequenceQuery::of(version.contents(&record.at), 0);
        let rows = self.store.sequence_rows(self.who, query).await?;
        if rows.is_empty() {
            // It may have been deleted since the record was read.
            self.read(&record.at).await?.version(version.number)?;
        }
        let content = version.read_content(&record.at, &rows)?;
        Ok(VersionContent { version: version.clone(), content })
    }

    /// Returns the records of a kind of a thread, in the order of their oldest versions.
    ///
    /// # Errors
    /// Only those of the store.
    pub async fn list(&self, kind: RecordKind, thread: &ThreadId) -> Result<Vec<Record>> {
        let mut records = self.all(kind, thread).await?;
        records.retain(|record| record.subject == self.who.subject);
        records.sort_by_key(|record| record.versions.first().map(|version| version.at));
        Ok(records)
    }

    /// Returns the number of records of all subjects. Of a record with many versions a few are read.
    async fn count(&self, kind: RecordKind, thread: &ThreadId) -> Result<usize> {
        let mut count = 0;
        let mut query = SequenceQuery { limit: COUNTED_ROWS, ..kind.query(thread) };
        loop {
            let rows = self.store.sequence_rows(self.who, query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            // Each part begins with the first row of a sequence: that of a deleted record says so.
            for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
                let first = rows.first().map(SequenceRow::json).transpose()?;
                count += usize::from(!matches!(first, Some(Event::Deleted { .. })));
            }
            // No id of a record has this character, which precedes all that they have.
            let next = format!("{}\u{1}", last.sequence.key);
            query = SequenceQuery { first: next, ..query };
        }
    }

    /// Returns the records of all subjects.
    async fn all(&self, kind: RecordKind, thread: &ThreadId) -> Result<Vec<Record>> {
        let rows = self.rows(kind.query(thread)).await?;
        let mut records = Vec::new();
        for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
            let at = rows.first().and_then(|row| RecordRef::of_row(kind, thread, row));
            records.extend(at.map(|at| Record::read(&at, rows)).transpose()?.flatten());
        }
        Ok(records)
    }

    /// Adds a version that continues the current one.
    ///
    /// # Errors
    /// [`RecordError::Changed`] if another version is current than the one that was edited, those
    /// of [`version_writes`], and [`RecordError::Limit`] if the record has as many versions as it may
    /// have.
    pub async fn edit(&self, at: &RecordRef, edit: &Edit, form: &Form) -> Result<Record> {
        let mut record = self.read(at).await?;
        let edited = edit.base.unwrap_or(record.current);
        loop {
            let base = record.find(edited);
            let Some(version) = base.filter(|version| version.number == record.current) else {
                match self.changed(&record, edited).await {
                    // The current version was deleted since the record was read.
                    Err(RecordError::Store(StoreError::NotFound { .. })) => {
                        record = self.read(at).await?;
                        continue;
                    }
                    changed => return Err(changed?),
                }
            };
            record.check_room()?;
            let new = NewVersion {
                title: edit.title.clone().unwrap_or_else(|| version.title.clone()),
                content: edit.content.clone(),
                agent: version.agent.clone(),
                run: None,
                parent: Some(edited),
                merge_of: None,
            };
            let unique = self.unique(&record);
            let writes = version_writes(at, &new, form, self.author(&unique))?;
            match self.write(&record, writes).await? {
                Written::Done(record) => return Ok(record),
                Written::Late(newer) => record = newer,
            }
        }
    }

    /// Makes a version the current one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist.
    pub async fn set_current(&self, at: &RecordRef, version: u64) -> Result<Record> {
        self.change(at, |record| {
            record.version(version)?;
            record.check_changes()?;
            let event = Event::Current { version, by: self.subject(), at: self.now };
            Ok(vec![event.append(at)?])
        })
        .await
    }

    /// Adds a copy of a version, which becomes the current one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist, [`RecordError::Limit`] if the record has as
    /// many versions as it may have.
    pub async fn copy_version(&self, at: &RecordRef, version: u64) -> Result<Record> {
        let mut record = self.read(at).await?;
        loop {
            record.check_room()?;
            let VersionContent { version: copied, content } =
                self.content(&record, Some(version)).await?;
            let new = NewVersion {
                title: copied.title,
                content,
                agent: copied.agent,
                run: None,
                parent: Some(version),
                merge_of: None,
            };
            let unique = self.unique(&record);
            let author = self.author(&unique);
            let writes = writes_unchecked(at, &new, copied.format, copied.kind, author)?;
            match self.write(&record, writes).await? {
                Written::Done(record) => return Ok(record),
                Written::Late(newer) => record = newer,
            }
        }
    }

    /// Deletes a version with its content. If it is the current one, the newest of the others
    /// becomes current.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist, [`RecordError::LastVersion`] if it is the only
    /// one.
    pub async fn delete_version(&self, at: &RecordRef, version: u64) -> Result<Record> {
        self.change(at, |record| {
            let deleted = record.version(version)?;
            if record.versions.len() == 1 {
                return Err(RecordError::LastVersion { of: at.clone(), version });
            }
            let event = Event::DeletedVersion { version, by: self.subject(), at: self.now };
            Ok(vec![event.append(at)?, deleted.delete_content(at)])
        })
        .await
    }

    /// Adds a version that merges two versions, by what they changed since the newest version that
    /// both continue. It becomes the current one.
    ///
    /// # Errors
    /// [`RecordError::Conflicts`] if both changed a part in different ways and there is no
    /// resolution, [`RecordError::NotMergeable`] for versions of different formats and for one
    /// version, [`StoreError::NotFound`] if a version does not exist, and those of
    /// [`edit`](Self::edit).
    pub async fn merge_versions(
        &self,
        at: &RecordRef,
        merge: &Merge,
        form: &Form,
    ) -> Result<Record> {
        let mut record = self.read(at).await?;
        loop {
            let new = self.merged(&record, merge).await?;
            record.check_room()?;
            let unique = self.unique(&record);
            let writes = version_writes(at, &new, form, self.author(&unique))?;
            match self.write(&record, writes).await? {
                Written::Done(record) => return Ok(record),
                Written::Late(newer) => record = newer,
            }
        }
    }

    /// Deletes a record with all its versions.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist.
    pub async fn delete(&self, at: &RecordRef) -> Result<()> {
        loop {
            let record = self.read(at).await?;
            // The titles go as well; the event remains for runs that still add a version.
            let event = Event::Deleted { by: self.subject(), at: self.now };
            let content = Content::json(super::version::STORED_FORMAT, &event)?;
            let deleted = SequenceWrite::replace(at.sequence(), content);
            let mut writes = vec![deleted.expecting(record.revision)];
            writes.extend(record.versions.iter().map(|version| version.delete_content(at)));
            match self.store.write_sequences(self.who, writes, self.now).await {
                Err(StoreError::Conflict { .. }) => {}
                written => return Ok(written?),
            }
        }
    }

    /// Returns the version that a merge adds.
    async fn merged(&self, record: &Record, merge: &Merge) -> Result<NewVersion> {
        let a = self.content(record, Some(merge.a)).await?;
        let b = self.content(record, Some(merge.b)).await?;
        let not_mergeable = |found, expected| {
            let of = record.at.clone();
            Err(RecordError::NotMergeable { of, a: merge.a, b: merge.b, found, expected })
        };
        if merge.a == merge.b {
            return not_mergeable("one version".to_owned(), "two versions");
        }
        let format = a.version.format;
        if format != b.version.format {
            let found = format!("{format} and {}", b.version.format);
            return not_mergeable(found, "one format, or a resolution as an edit");
        }
        let ancestor = record.common_ancestor(merge.a, merge.b);
        let base = match ancestor {
            Some(version) => Some(self.content(record, Some(version.number)).await?),
            None => None,
        };
        let title = match &base {
            Some(base) if base.version.title == a.version.title => b.version.title,
            _ => a.version.title,
        };
        let content = match &merge.resolution {
            Some(resolution) => resolution.clone(),
            None => {
                let text = base.as_ref().map(|base| base.content.as_str());
                let conflicts = |conflicts| {
                    RecordError::Conflicts(Box::new(MergeConflicts {
                        of: record.at.clone(),
                        a: merge.a,
                        b: merge.b,
                        base: ancestor.map(|version| version.number),
                        conflicts,
                    }))
                };
                merge_contents(format, text, &a.content, &b.content).map_err(conflicts)?
            }
        };
        let agent = a.version.agent;
        let parent = Some(merge.a);
        Ok(NewVersion { title, content, agent, run: None, parent, merge_of: Some(merge.b) })
    }

    /// Writes a change that follows from the record, until no other writer is faster.
    async fn change(
        &self,
        at: &RecordRef,
        decide: impl Fn(&Record) -> Result<Vec<SequenceWrite>>,
    ) -> Result<Record> {
        let mut record = self.read(at).await?;
        loop {
            let writes = decide(&record)?;
            match self.write(&record, writes).await? {
                Written::Done(record) => return Ok(record),
                Written::Late(newer) => record = newer,
            }
        }
    }

    /// Writes changes of a record as it was read. The first write is an event.
    async fn write(&self, record: &Record, mut writes: Vec<SequenceWrite>) -> Result<Written> {
        let at = &record.at;
        expect(&mut writes, record.revision);
        match self.store.write_sequences(self.who, writes.clone(), self.now).await {
            Ok(()) => Ok(Written::Done(self.read(at).await?)),
            Err(error @ StoreError::Conflict { .. }) => {
                let newer = self.read(at).await?;
                if newer.revision == record.revision {
                    return Err(error.into());
                }
                match self.has(at, record.revision, &writes).await? {
                    true => Ok(Written::Done(newer)),
                    false => Ok(Written::Late(newer)),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns `true` if the event after a revision is the first of these writes. A store whose
    /// connection broke repeats writes that had taken effect, and then refuses them.
    async fn has(&self, at: &RecordRef, revision: u64, writes: &[SequenceWrite]) -> Result<bool> {
        let query = SequenceQuery { limit: 1, ..SequenceQuery::of(at.sequence(), revision) };
        let rows = self.store.sequence_rows(self.who, query).await?;
        let next = rows.first().map(|row| Change::Append(row.content.clone()));
        Ok(next.is_some() && next.as_ref() == writes.first().map(|write| &write.change))
    }

    async fn changed(&self, record: &Record, base: u64) -> Result<RecordError> {
        Ok(RecordError::Changed(Box::new(Changed {
            of: record.at.clone(),
            base,
            base_version: record.find(base).cloned(),
            current: self.content(record, None).await?,
        })))
    }

    async fn rows(&self, mut query: SequenceQuery) -> Result<Vec<SequenceRow>> {
        let mut all = Vec::new();
        loop {
            let rows = self.store.sequence_rows(self.who, query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(all) };
            query = query.following(last);
            all.extend(rows);
        }
    }

    fn subject(&self) -> String {
        self.who.subject.clone()
    }

    /// Returns the part of a key that no other content of a record has. Of several writers of one
    /// revision, one has effect, and so has one of several requests with one key.
    fn unique(&self, record: &Record) -> String {
        match self.key {
            Some(key) => unique_of_key(key),
            None => format!("v{}", record.revision + 1),
        }
    }

    fn author<'b>(&'b self, unique: &'b str) -> Author<'b> {
        Author { subject: &self.who.subject, at: self.now, unique }
    }
}

/// The result of a write.
enum Written {
    /// It took effect; the record after it.
    Done(Record),
    /// Another writer was faster; the record after its change.
    Late(Record),
}

/// Requires a version of the sequence of the record.
fn expect(writes: &mut [SequenceWrite], revision: u64) {
    if let Some(event) = writes.first_mut() {
        event.expected = Some(revision);
    }
}
