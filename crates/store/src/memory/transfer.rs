//! Export and import of complete threads.

use super::scope::{Need, Part, Scope};
use super::{Backend, Run, TableStore, Tables, Thread, partial_scope};
use crate::invariants;
use crate::table::Result;
use crate::transfer::{ExportThreads, ImportThreads, RunExport, ThreadExport};
use std::collections::BTreeMap;
use weftwork_types::{BoxFuture, Principal, ThreadId};

impl<B: Backend> ExportThreads for TableStore<B> {
    fn export_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, id, Part::Export));
        self.backend.read(scope, move |tables| read(tables, who, id)?.checked())
    }
}

impl<B: Backend> ImportThreads for TableStore<B> {
    fn import_thread<'a>(
        &'a self,
        who: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| needs(who, &whole));
        self.backend.write(scope, move |tables| put(tables, who, whole.checked()?))
    }
}

fn needs(who: &Principal, whole: &ThreadExport) -> Scope {
    let org = &who.org;
    let id = &whole.thread.id;
    let mut scope = Scope::part(org, id, Part::Checkpoints);
    scope.add_part(Part::batch(&whole.kept));
    for run in &whole.runs {
        let new = &run.row.new;
        scope.add(Need::run(org, &new.at.run));
        scope.extend(new.options.idempotency_key.iter().map(|key| Need::request_key(org, key)));
    }
    let sequences = whole.records.chunk_by(|a, b| a.sequence == b.sequence);
    scope.extend(sequences.filter_map(|rows| rows.first()).map(|row| Need::Sequence {
        org: org.clone(),
        sequence: row.sequence.clone(),
        up_to: u64::MAX,
    }));
    scope.extend(whole.usage.iter().map(|row| Need::usage(org, &row.fact.invocation_id)));
    scope
}

fn read(tables: &Tables, who: &Principal, id: &ThreadId) -> Result<ThreadExport> {
    let thread = tables.thread(who, id)?;
    let runs = thread.runs.iter().map(|run| RunExport {
        subject: run.subject.clone(),
        row: run.row.clone(),
        events: run.events.clone(),
    });
    let is_ours = |run: &_| thread.runs.iter().any(|ours| ours.row.new.at.run == *run);
    Ok(ThreadExport {
        thread: thread.row.clone(),
        runs: runs.collect(),
        interrupts: thread.interrupts.clone(),
        calls: thread.calls.iter().map(|(_, call)| call.clone()).collect(),
        kept: tables.checkpoints.all_of(&who.org, id),
        usage: super::read::usage(tables, &who.org, is_ours),
        records: tables.sequences.exported(&who.org, id),
    })
}

fn put(tables: &mut Tables, who: &Principal, whole: ThreadExport) -> Result<()> {
    let org = &who.org;
    let id = whole.thread.id.clone();
    let place = (org.clone(), id.clone());
    if tables.threads.contains_key(&place) || tables.checkpoints.has_any(org, &id) {
        return Err(invariants::thread_exists(&id));
    }
    for run in &whole.runs {
        let new = &run.row.new;
        if tables.runs.contains_key(&(org.clone(), new.at.run.clone())) {
            return Err(invariants::run_id_reused(&new.at));
        }
        if let Some(key) = &new.options.idempotency_key
            && tables.keys.contains_key(&(org.clone(), key.clone()))
        {
            return Err(invariants::key_reused(key));
        }
    }
    let mut runs = Vec::new();
    for RunExport { subject, row, events } in whole.runs {
        if let Some(key) = &row.new.options.idempotency_key {
            tables.keys.insert((org.clone(), key.clone()), row.new.at.clone());
        }
        tables.runs.insert((org.clone(), row.new.at.run.clone()), id.clone());
        tables.run_count += 1;
        let pieces = BTreeMap::new();
        runs.push(Run { row, subject, number: tables.run_count, events, pieces });
    }
    tables.checkpoints.put_batch(org, &id, whole.kept);
    tables.sequences.import(org, whole.records);
    for row in whole.usage {
        tables.bill(org, row);
    }
    let mut thread = Thread { runs, interrupts: whole.interrupts, ..Thread::new(whole.thread) };
    whole.calls.into_iter().for_each(|call| thread.add_call(call));
    tables.threads.insert(place, thread);
    Ok(())
}
