//! Export and import of complete threads.

use super::{MemoryStore, Run, Tables, Thread};
use crate::rule;
use crate::table::Result;
use crate::whole::{ReadWhole, WholeRun, WholeThread, WriteWhole};
use std::collections::BTreeMap;
use weftwork_types::{BoxFuture, Principal, ThreadId};

impl ReadWhole for MemoryStore {
    fn whole<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<WholeThread>> {
        self.with(move |tables| read(tables, who, id)?.checked())
    }
}

impl WriteWhole for MemoryStore {
    fn put_whole<'a>(
        &'a self,
        who: &'a Principal,
        whole: WholeThread,
    ) -> BoxFuture<'a, Result<()>> {
        self.with(move |tables| put(tables, who, whole.checked()?))
    }
}

fn read(tables: &Tables, who: &Principal, id: &ThreadId) -> Result<WholeThread> {
    let thread = tables.thread(who, id)?;
    let runs = thread.runs.iter().map(|run| WholeRun {
        subject: run.subject.clone(),
        row: run.row.clone(),
        events: run.events.clone(),
    });
    let is_ours = |run: &_| thread.runs.iter().any(|ours| ours.row.new.at.run == *run);
    Ok(WholeThread {
        thread: thread.row.clone(),
        runs: runs.collect(),
        interrupts: thread.interrupts.clone(),
        calls: thread.calls.clone(),
        kept: tables.checkpoints.all_of(&who.org, id),
        usage: super::read::usage(tables, &who.org, is_ours),
    })
}

fn put(tables: &mut Tables, who: &Principal, whole: WholeThread) -> Result<()> {
    let (org, id) = (&who.org, whole.thread.id.clone());
    let place = (org.clone(), id.clone());
    if tables.threads.contains_key(&place) || tables.checkpoints.has_any(org, &id) {
        return Err(rule::thread_exists(&id));
    }
    for run in &whole.runs {
        let new = &run.row.new;
        if tables.runs.contains_key(&(org.clone(), new.at.run.clone())) {
            return Err(rule::run_id_reused(&new.at));
        }
        if let Some(key) = &new.options.idempotency_key
            && tables.keys.contains_key(&(org.clone(), key.clone()))
        {
            return Err(rule::key_reused(key));
        }
    }
    let mut runs = Vec::new();
    for WholeRun { subject, row, events } in whole.runs {
        if let Some(key) = &row.new.options.idempotency_key {
            tables.keys.insert((org.clone(), key.clone()), row.new.at.clone());
        }
        tables.runs.insert((org.clone(), row.new.at.run.clone()), id.clone());
        tables.run_count += 1;
        let pieces = BTreeMap::new();
        runs.push(Run { row, subject, number: tables.run_count, events, pieces });
    }
    tables.checkpoints.keep(org, &id, whole.kept);
    for row in whole.usage {
        let key = (org.clone(), row.fact.invocation_id.clone());
        tables.usage.entry(key).or_insert(row);
    }
    let thread =
        Thread { row: whole.thread, runs, interrupts: whole.interrupts, calls: whole.calls };
    tables.threads.insert(place, thread);
    Ok(())
}
