use super::scope::{Need, Part, Scope};
use super::{Backend, Run, TableStore, partial_scope};
use crate::invariants;
use crate::mailbox::{ActivityCounts, is_terminated};
use crate::orphan::OrphanPage;
use crate::record::{InterruptRow, RunRow, StoredEvent, UsageRow};
use crate::table::{JournalRead, ReadEvents, ReadInterrupts, ReadRuns, ReadUsage, Result};
use std::collections::BTreeMap;
use weftwork_types::event::{Piece, Position};
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{BoxFuture, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId};

impl<B: Backend> ReadRuns for TableStore<B> {
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, &at.thread));
        self.backend.read(scope, move |tables| Ok(tables.run(who, at)?.row.clone()))
    }

    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| {
            let runs = &tables.thread(who, thread)?.runs;
            Ok(runs.iter().map(|run| run.row.clone()).collect())
        })
    }

    fn unfinished_runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| {
            let runs = tables.thread(who, thread)?.runs.iter().map(|run| &run.row);
            Ok(runs.filter(|row| !row.status.is_final()).cloned().collect())
        })
    }

    fn last_ended<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<RunRow>>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| {
            let runs = tables.thread(who, thread)?.runs.iter().map(|run| &run.row);
            let ended = runs.filter(|row| row.ended_at.is_some());
            // Of equal ones, the last one.
            Ok(ended.max_by_key(|row| (row.ended_at, row.last_checkpoint)).cloned())
        })
    }

    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::run(&who.org, id)));
        self.backend.read(scope, move |tables| {
            let thread = tables.runs.get(&(who.org.clone(), id.clone()));
            let thread = thread.ok_or_else(|| invariants::missing("run", id))?;
            let at = RunRef { thread: thread.clone(), run: id.clone() };
            Ok(tables.run(who, &at)?.row.clone())
        })
    }

    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Active));
        self.backend.read(scope, move |tables| {
            let mut due = Vec::new();
            for ((org, id), thread) in &tables.threads {
                let wakes_at = thread.row.wakes_at.filter(|at| *at <= now);
                if let Some((at, run)) = wakes_at.zip(thread.last_begun())
                    && thread.row.graph.as_ref().is_some_and(|graph| graphs.contains(graph))
                    && !is_terminated(&thread.row.metadata)
                {
                    due.push(((at, org, id), run));
                }
            }
            due.sort_unstable_by_key(|(key, _)| *key);
            let rows = due.into_iter().take(limit).map(|((_, org, _), run)| {
                (Principal::new(org.clone(), run.subject.clone()), run.row.clone())
            });
            Ok(rows.collect())
        })
    }

    fn orphan_page(
        &self,
        now: Timestamp,
        page: OrphanPage,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        let scope = partial_scope::<B>(|| {
            let after = page.after.as_ref().map(|after| Need::run(&after.org, &after.run));
            after.into_iter().chain([Need::Active, Need::Workers]).collect()
        });
        self.backend.read(scope, move |tables| {
            let open = tables
                .threads
                .iter()
                .filter_map(|((org, _), thread)| Some((org, thread.next_run(now)?)));
            let after = page.after.as_ref().map(|after| {
                let number = tables.run_number(&after.org, &after.run).unwrap_or(0);
                (after.created_at, number)
            });
            let place = |run: &Run| (run.row.new.created_at, run.number);
            let mut found: Vec<_> = open
                .filter(|(_, run)| page.has_graph(&run.row.new.graph))
                .filter(|(_, run)| after.is_none_or(|after| place(run) > after))
                .filter(|(_, run)| {
                    let waits = run.row.waits_in_mailbox(now);
                    let held = run.row.worker.as_ref();
                    !waits && !held.is_some_and(|worker| tables.is_alive(worker, now))
                })
                .collect();
            found.sort_unstable_by_key(|(_, run)| place(run));
            let rows = found.into_iter().take(page.limit).map(|(org, run)| {
                (Principal::new(org.clone(), run.subject.clone()), run.row.clone())
            });
            Ok(rows.collect())
        })
    }

    fn next_run<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<(Principal, RunRow)>>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| {
            let Ok(thread) = tables.thread(who, thread) else { return Ok(None) };
            Ok(thread.next_run(now).map(|run| {
                let by = Principal::new(who.org.clone(), run.subject.clone());
                (by, run.row.clone())
            }))
        })
    }

    fn count_activities<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ActivityCounts>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| {
            let mut counts = ActivityCounts::default();
            let Ok(thread) = tables.thread(who, thread) else { return Ok(counts) };
            let activities = thread.runs.iter().map(|run| &run.row);
            let activities = activities.filter(|row| row.new.options.mailbox.is_some());
            // Of the runs of one activity, the last one has its status.
            let last: BTreeMap<_, _> =
                activities.map(|row| (row.activity().map(|at| at.run), row.status)).collect();
            last.into_values().for_each(|status| counts.add(status, 1));
            counts.asking = u64::from(thread.asks());
            Ok(counts)
        })
    }

    fn to_stop<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Active));
        self.backend.read(scope, move |tables| {
            let runs = tables
                .threads
                .iter()
                .flat_map(|((org, _), thread)| thread.runs.iter().map(move |run| (org, &run.row)));
            let asked = runs.filter(|(_, row)| {
                let has = row.worker.as_ref() == Some(worker);
                row.cancel_requested && row.status == RunStatus::Running && has
            });
            Ok(asked.map(|(org, row)| (org.clone(), row.new.at.clone())).collect())
        })
    }
}

impl<B: Backend> ReadEvents for TableStore<B> {
    fn events<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>>> {
        let part = || Part::Events { run: at.run.clone(), after, limit };
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &at.thread, part()));
        self.backend.read(scope, move |tables| {
            let events = &tables.run(who, at)?.events;
            let found = events.partition_point(|event| event.seq <= after);
            let found: Vec<_> = events.iter().skip(found).take(limit).cloned().collect();
            invariants::check_kept(&at.run, after, found.first().map(|event| event.seq))?;
            Ok(found)
        })
    }

    fn pieces<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Piece>>> {
        let part = || Part::Pieces(at.run.clone());
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &at.thread, part()));
        self.backend.read(scope, move |tables| {
            let rows = &tables.run(who, at)?.pieces;
            let all = rows.values().flatten().filter(|piece| piece.at.end > after);
            Ok(all.take(limit).cloned().collect())
        })
    }
}

impl<B: Backend> ReadInterrupts for TableStore<B> {
    fn interrupts<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<InterruptRow>>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, thread));
        self.backend.read(scope, move |tables| Ok(tables.thread(who, thread)?.interrupts.clone()))
    }
}

impl<B: Backend> JournalRead for TableStore<B> {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::AllCalls));
        self.backend.read(scope, move |tables| {
            let mut calls: Vec<_> = tables.thread(who, thread)?.calls.iter().collect();
            calls.sort_unstable_by_key(|(number, _)| *number);
            Ok(calls.into_iter().map(|(_, call)| call.clone()).collect())
        })
    }

    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::Calls(vec![key])));
        self.backend.read(scope, move |tables| {
            let Ok(thread) = tables.thread(who, thread) else { return Ok(None) };
            let found = thread.calls.iter().find(|(_, call)| call.key == key);
            Ok(found.map(|(_, call)| call.clone()))
        })
    }
}

impl<B: Backend> ReadUsage for TableStore<B> {
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::Usage));
        self.backend.read(scope, move |tables| {
            let runs = &tables.thread(who, thread)?.runs;
            Ok(usage(tables, &who.org, |run| runs.iter().any(|r| r.row.new.at.run == *run)))
        })
    }

    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let need = || Need::UsageOfRun { org: who.org.clone(), run: run.clone() };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| Ok(usage(tables, &who.org, |other| other == run)))
    }
}

pub(super) fn usage(
    tables: &super::Tables,
    org: &OrgId,
    wanted: impl Fn(&RunId) -> bool,
) -> Vec<UsageRow> {
    let rows =
        tables.usage.iter().filter(|((o, _), row)| o == org && row.run().is_some_and(&wanted));
    let mut rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
    rows.sort_by_key(|row| row.fact.started_at); // Stable: rows with equal times stay ordered by invocation.
    rows
}
