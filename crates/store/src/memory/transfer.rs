//! Export and import of complete threads.

use super::{MemoryStore, Run, Tables, Thread};
use crate::invariants;
use crate::table::Result;
use crate::transfer::{ExportThreads, ImportThreads, RunExport, ThreadExport};
use std::collections::BTreeMap;
use weftwork_types::{BoxFuture, Principal, ThreadId};

impl ExportThreads for MemoryStore {
    fn export_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadExport>> {
        self.with(move |tables| read(tables, who, id)?.checked())
    }
}

impl ImportThreads for MemoryStore {
    fn import_thread<'a>(
        &'a self,
        who: &'a Principal,
        whole: ThreadExport,
    ) -> BoxFuture<'a, Result<()>> {
        self.with(move |tables| put(tables, who, whole.checked()?))
    }
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
        calls: thread.calls.clone(),
        kept: tables.checkpoints.all_of(&who.org, id),
        usage: super::read::usage(tables, &who.org, is_ours),
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
    for row in whole.usage {
        let key = (org.clone(), row.fact.invocation_id.clone());
        tables.usage.entry(key).or_insert(row);
    }
    let thread =
        Thread { row: whole.thread, runs, interrupts: whole.interrupts, calls: whole.calls };
    tables.threads.insert(place, thread);
    Ok(())
}
