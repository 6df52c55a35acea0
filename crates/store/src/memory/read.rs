use super::{MemoryStore, Thread};
use crate::record::{
    Head, InterruptRow, RunRow, StepRow, StoredEvent, TaskWrites, ThreadRow, UsageRow,
};
use crate::rule;
use crate::table::{
    JournalRead, ReadEvents, ReadInterrupts, ReadRuns, ReadSteps, ReadThreads, ReadUsage, Result,
};
use std::cmp::Reverse;
use weftwork_types::port::CallRecord;
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, OrgId, Principal, RunId, TaskId, ThreadId, Timestamp,
};

impl ReadThreads for MemoryStore {
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        self.with(move |tables| Ok(tables.thread(who, id)?.row.clone()))
    }

    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        self.with(move |tables| {
            let ours = tables.threads.iter().filter(|((org, _), _)| *org == who.org);
            let mut rows: Vec<_> = ours.map(|(_, thread)| &thread.row).collect();
            rows.sort_unstable_by_key(|row| Reverse((row.updated_at, &row.id)));
            Ok(rows.into_iter().skip(offset).take(limit).cloned().collect())
        })
    }
}

impl ReadRuns for MemoryStore {
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        self.with(move |tables| Ok(tables.run(who, at)?.row.clone()))
    }

    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        self.with(move |tables| {
            let runs = &tables.thread(who, thread)?.runs;
            Ok(runs.iter().map(|run| run.row.clone()).collect())
        })
    }

    fn orphans(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.with(move |tables| {
            let open = tables
                .threads
                .iter()
                .filter_map(|((org, _), thread)| Some((org, thread.open_run()?)));
            let mut found: Vec<_> = open
                .filter(|(_, run)| {
                    !run.row.worker.as_ref().is_some_and(|worker| tables.is_alive(worker, now))
                })
                .collect();
            found.sort_unstable_by_key(|(_, run)| (run.row.new.created_at, run.number));
            let rows = found.into_iter().take(limit).map(|(org, run)| {
                (Principal { org: org.clone(), subject: run.subject.clone() }, run.row.clone())
            });
            Ok(rows.collect())
        })
    }
}

impl ReadSteps for MemoryStore {
    fn head<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<Head>>> {
        self.with(move |tables| {
            let found = tables.thread(who, thread)?;
            let is_kept = |head| tables.checkpoints.has(&who.org, thread, head);
            let head =
                found.row.head.filter(|head| found.steps.contains_key(head) || !is_kept(*head));
            head.map(|head| lineage(found, head)).transpose()
        })
    }

    fn lineage<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        at: CheckpointId,
    ) -> BoxFuture<'a, Result<Head>> {
        self.with(move |tables| {
            let thread = tables.thread(who, thread)?;
            if !thread.steps.contains_key(&at) {
                return Err(rule::no_checkpoint(at));
            }
            lineage(thread, at)
        })
    }

    fn checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StepRow>>> {
        self.with(move |tables| {
            let steps = tables.thread(who, thread)?.steps.values().rev();
            let older = steps.filter(|step| before.is_none_or(|before| step.id < before));
            Ok(older.filter(|step| step.ns.is_empty()).take(limit).cloned().collect())
        })
    }
}

fn lineage(thread: &Thread, at: CheckpointId) -> Result<Head> {
    let mut steps = Vec::new();
    let mut next = Some(at);
    while let Some(id) = next {
        let step = thread.steps.get(&id);
        let step = step.ok_or_else(|| rule::lineage_broken(&thread.row.id, id))?;
        next = step.parent;
        steps.push(step.clone());
    }
    steps.reverse();
    let of_it = (at, TaskId(0))..=(at, TaskId(u128::MAX));
    let pending = thread.writes.range(of_it).map(|(&(of, task), body)| TaskWrites {
        of,
        task,
        body: body.clone(),
    });
    Ok(Head { steps, pending: pending.collect() })
}

impl ReadEvents for MemoryStore {
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>> {
        self.with(move |tables| {
            let events = &tables.run(who, at)?.events;
            let skipped = usize::try_from(after).unwrap_or(usize::MAX);
            Ok(events.iter().skip(skipped).take(limit).cloned().collect())
        })
    }
}

impl ReadInterrupts for MemoryStore {
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        self.with(move |tables| Ok(tables.thread(who, thread)?.interrupts.clone()))
    }
}

impl JournalRead for MemoryStore {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        self.with(move |tables| Ok(tables.thread(who, thread)?.calls.clone()))
    }
}

impl ReadUsage for MemoryStore {
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.with(move |tables| {
            let runs = &tables.thread(who, thread)?.runs;
            Ok(usage(tables, &who.org, |run| runs.iter().any(|r| r.row.new.at.run == *run)))
        })
    }

    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.with(move |tables| Ok(usage(tables, &who.org, |other| other == run)))
    }
}

pub(super) fn usage(
    tables: &super::Tables,
    org: &OrgId,
    wanted: impl Fn(&RunId) -> bool,
) -> Vec<UsageRow> {
    let rows = tables.usage.iter().filter(|((o, _), row)| o == org && wanted(&row.caller.run));
    let mut rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
    rows.sort_by_key(|row| row.fact.started_at); // Stable: ties stay in order of the invocation.
    rows
}
