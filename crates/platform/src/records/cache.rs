//! Records that were read before, so that a write of a record with many versions reads few of its
//! events.

use super::record::{Record, RecordRef};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_store::{Content, SequenceRow};
use weftwork_types::OrgId;

/// Maximum number of versions of all records in a cache.
const VERSIONS_MAX: usize = 50_000;

/// Records as this process read them last. The newest event of each is known too: a record is the one
/// that was read, with later events, only if the store still has this event.
#[derive(Default)]
pub struct RecordCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    records: BTreeMap<(OrgId, RecordRef), Entry>,
    versions: usize,
    uses: u64,
}

struct Entry {
    record: Record,
    newest: Content,
    used: u64,
}

impl fmt::Debug for RecordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCache").field("records", &self.lock().records.len()).finish()
    }
}

impl RecordCache {
    /// Returns the revision of a record that was read before.
    pub(super) fn revision(&self, org: &OrgId, at: &RecordRef) -> Option<u64> {
        let key = (org.clone(), at.clone());
        self.lock().records.get(&key).map(|entry| entry.record.revision)
    }

    /// Returns a record with the events after its revision, given the rows from its newest event on.
    /// `None` if the store has another event in that place, or the record was removed here.
    pub(super) fn with_later(
        &self,
        org: &OrgId,
        at: &RecordRef,
        rows: &[SequenceRow],
    ) -> Option<Record> {
        let (newest, later) = rows.split_first()?;
        let mut entries = self.lock();
        entries.uses += 1;
        let uses = entries.uses;
        let entry = entries.records.get_mut(&(org.clone(), at.clone()))?;
        if newest.version != entry.record.revision || newest.content != entry.newest {
            return None;
        }
        entry.used = uses;
        let record = entry.record.clone();
        drop(entries);
        // An event that cannot be read is an error of the reader of all events, which follows.
        record.with_events(later).ok().flatten()
    }

    /// Keeps a record as it was read, with its newest event.
    pub(super) fn put(&self, org: &OrgId, record: &Record, newest: &SequenceRow) {
        let mut entries = self.lock();
        entries.uses += 1;
        let key = (org.clone(), record.at.clone());
        let used = entries.uses;
        entries.remove(&key);
        entries.versions += record.versions.len();
        let entry = Entry { record: record.clone(), newest: newest.content.clone(), used };
        entries.records.insert(key, entry);
        while entries.versions > VERSIONS_MAX && entries.records.len() > 1 {
            let oldest = entries.records.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            entries.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn remove(&mut self, key: &(OrgId, RecordRef)) {
        if let Some(entry) = self.records.remove(key) {
            self.versions -= entry.record.versions.len();
        }
    }
}
