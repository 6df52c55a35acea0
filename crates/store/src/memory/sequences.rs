//! Sequence writes in memory.

use super::scope::{Need, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::remote::{REMOTE_DELETIONS, REMOTE_THREADS, deletion_key};
use crate::sequence::{
    Change, Content, EXPORTED_KINDS, KINDS_OF_THREADS, Sequence, SequenceQuery, SequenceRow,
    SequenceTable, SequenceWrite, check_all, of_thread,
};
use crate::table::Result;
use std::collections::BTreeMap;
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

/// The sequences of all organisations.
#[derive(Debug, Default)]
pub(crate) struct Sequences(pub(crate) BTreeMap<(OrgId, Sequence), Records>);

#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) version: u64,
    pub(crate) rows: BTreeMap<u64, (Timestamp, Content)>,
}

impl Sequences {
    /// Checks that writes can be applied.
    pub(super) fn check(&self, org: &OrgId, writes: &[SequenceWrite]) -> Result<()> {
        check_all(writes, |sequence| self.version(org, sequence))
    }

    /// Applies checked writes.
    pub(super) fn apply(&mut self, org: &OrgId, writes: Vec<SequenceWrite>, at: Timestamp) {
        for SequenceWrite { to, change, .. } in writes {
            let records = self.0.entry((org.clone(), to)).or_default();
            let content = match change {
                Change::Delete { up_to } => {
                    records.rows.retain(|version, _| *version > up_to);
                    continue;
                }
                Change::Replace(content) => {
                    records.rows.clear();
                    content
                }
                Change::Append(content) => content,
            };
            records.version += 1;
            records.rows.insert(records.version, (at, content));
        }
    }

    /// Deletes the sequences of a thread.
    pub(super) fn delete_of(&mut self, org: &OrgId, thread: &ThreadId) {
        let (first, last) = of_thread(thread);
        self.move_deletions(org, &first, &last);
        self.0.retain(|(owner, Sequence { kind, key }), _| {
            let of_thread = KINDS_OF_THREADS.contains(&kind.as_str());
            owner != org || !of_thread || !(&first..=&last).contains(&key)
        });
    }

    /// Makes the records of remote threads records of their deletions.
    fn move_deletions(&mut self, org: &OrgId, first: &str, last: &str) {
        let workers = Principal::of_workers().org;
        let moved = self.0.extract_if(.., |(owner, Sequence { kind, key }), _| {
            owner == org && kind == REMOTE_THREADS && (first..=last).contains(&key.as_str())
        });
        let moved: Vec<_> = moved.collect();
        for ((_, Sequence { key, .. }), records) in moved {
            let moved = Sequence::new(REMOTE_DELETIONS, deletion_key(&key));
            self.0.insert((workers.clone(), moved), records);
        }
    }

    /// Returns the records that are exported with a thread.
    pub(super) fn exported(&self, org: &OrgId, thread: &ThreadId) -> Vec<SequenceRow> {
        let (first, last) = of_thread(thread);
        let mut rows = Vec::new();
        for kind in EXPORTED_KINDS {
            let first = first.clone();
            let query =
                SequenceQuery { first, last: Some(last.clone()), ..SequenceQuery::all(kind) };
            rows.extend(self.select(org, &query));
        }
        rows
    }

    /// Replaces the records of sequences by those of an imported thread.
    pub(super) fn import(&mut self, org: &OrgId, rows: Vec<SequenceRow>) {
        for SequenceRow { sequence, .. } in &rows {
            if let Some(records) = self.0.get_mut(&(org.clone(), sequence.clone())) {
                records.rows.clear();
            }
        }
        for SequenceRow { sequence, version, at, content } in rows {
            let records = self.0.entry((org.clone(), sequence)).or_default();
            records.version = records.version.max(version);
            records.rows.insert(version, (at, content));
        }
    }

    fn version(&self, org: &OrgId, sequence: &Sequence) -> u64 {
        self.0.get(&(org.clone(), sequence.clone())).map_or(0, |records| records.version)
    }

    fn read(&self, org: &OrgId, query: &SequenceQuery) -> Vec<SequenceRow> {
        self.select(org, query).take(query.reads()).collect()
    }

    /// Returns all records that a query selects, without its limit.
    fn select<'a>(
        &'a self,
        org: &'a OrgId,
        query: &'a SequenceQuery,
    ) -> impl Iterator<Item = SequenceRow> + 'a {
        let first = (org.clone(), Sequence::new(query.kind.clone(), query.first.clone()));
        let sequences = self.0.range(first..).take_while(move |((owner, sequence), _)| {
            let within = query.last.as_ref().is_none_or(|last| sequence.key <= *last);
            owner == org && sequence.kind == query.kind && within
        });
        sequences.flat_map(|((_, sequence), records)| {
            let after = if sequence.key == query.first { query.after } else { 0 };
            let rows = records.rows.iter().filter(move |(version, _)| **version > after);
            rows.map(|(version, (at, content))| SequenceRow {
                sequence: sequence.clone(),
                version: *version,
                at: *at,
                content: content.clone(),
            })
        })
    }
}

impl Tables {
    fn write_sequences(
        &mut self,
        org: &OrgId,
        writes: Vec<SequenceWrite>,
        at: Timestamp,
    ) -> Result<()> {
        self.sequences.check(org, &writes)?;
        self.sequences.apply(org, writes, at);
        Ok(())
    }
}

impl<B: Backend> SequenceTable for TableStore<B> {
    fn sequence_rows<'a>(
        &'a self,
        who: &'a Principal,
        query: SequenceQuery,
    ) -> BoxFuture<'a, Result<Vec<SequenceRow>>> {
        let need = || Need::Records { org: who.org.clone(), query: query.clone() };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| Ok(tables.sequences.read(&who.org, &query)))
    }

    fn effect_version<'a>(
        &'a self,
        who: &'a Principal,
        sequence: &'a Sequence,
    ) -> BoxFuture<'a, Result<u64>> {
        let need = || Need::Sequence { org: who.org.clone(), sequence: sequence.clone(), up_to: 0 };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| Ok(tables.sequences.version(&who.org, sequence)))
    }

    fn write_sequences<'a>(
        &'a self,
        who: &'a Principal,
        writes: Vec<SequenceWrite>,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::of_writes(&who.org, &writes));
        self.backend.write(scope, move |tables| tables.write_sequences(&who.org, writes, at))
    }
}
