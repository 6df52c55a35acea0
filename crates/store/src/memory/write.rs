use super::commit::Kept;
use super::scope::{Need, Part, Scope};
use super::{Backend, Run, TableStore, Tables, Thread, partial_scope};
use crate::invariants::{self, Holder};
use crate::mailbox;
use crate::record::{Claim, Commit, Committed, NewRun, RunRow, UsageRow, WorkerRow};
use crate::table::{Result, Workers, WriteRuns, WriteUsage};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{BoxFuture, InterruptId, Principal, Timestamp, WorkerId};

impl<B: Backend> WriteRuns for TableStore<B> {
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let scope = partial_scope::<B>(|| Scope::of_request(&who.org, &run));
        self.backend.write(scope, move |tables| match earlier(tables, who, &run)? {
            Some(row) => Ok(row),
            None => create(tables, who, run, answers),
        })
    }

    fn create_claimed<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let scope = partial_scope::<B>(|| Scope::of_request(&who.org, &run));
        self.backend.write(scope, move |tables| {
            if let Some(row) = earlier(tables, who, &run)? {
                return Ok((row, None));
            }
            let now = run.created_at;
            let row = create(tables, who, run, answers)?;
            if row.status != RunStatus::Pending {
                return Ok((row, None));
            }
            let (claim, row) = claim(tables, who, &row.new.at, worker, now)?;
            Ok((row, Some(claim)))
        })
    }

    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        let scope =
            partial_scope::<B>(|| Scope::part(&who.org, &at.thread, Part::Claim(at.run.clone())));
        self.backend.write(scope, move |tables| {
            let row = &tables.run(who, at)?.row;
            if row.status.is_final() {
                return Err(invariants::missing("run", &at.run));
            }
            if row.worker.as_ref().is_some_and(|holder| tables.is_alive(holder, now)) {
                return Err(invariants::busy(at));
            }
            match tables.thread(who, &at.thread)?.next_run(now) {
                Some(next) if next.row.new.at == *at => {}
                Some(next) => return Err(invariants::busy(&next.row.new.at)),
                None => {
                    let mut asked = tables.thread(who, &at.thread)?.interrupts.iter();
                    let asking = asked.find(|row| row.is_open()).map(|row| &row.run);
                    return Err(mailbox::not_its_turn(&at.thread, asking));
                }
            }
            claim(tables, who, at, worker, now)
        })
    }

    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        mut commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>> {
        let scope = partial_scope::<B>(|| Scope::of_commit(&who.org, claim, &commit));
        self.backend.write(scope, move |tables| {
            claimed(tables, who, claim)?;
            let writes = std::mem::take(&mut commit.sequence_writes);
            tables.sequences.check(&who.org, &writes)?;
            tables.sequences.apply(&who.org, writes, commit.at);
            let batch = Arc::unwrap_or_clone(std::mem::take(&mut commit.batch));
            let checkpoints = !batch.checkpoints.is_empty();
            let head = tables.checkpoints.put_batch(&who.org, &claim.at.thread, batch);
            for usage in std::mem::take(&mut commit.usage) {
                tables.bill(&who.org, Arc::unwrap_or_clone(usage));
            }
            let (thread, index) = tables.run_mut(who, &claim.at)?;
            Ok(thread.commit(index, commit, Kept { checkpoints, head }))
        })
    }

    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>> {
        let part = || Part::LastEvent(claim.at.run.clone());
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &claim.at.thread, part()));
        self.backend.write(scope, move |tables| {
            let (thread, index) = claimed(tables, who, claim)?;
            let told = AiEvent::Released { claim: claim.fence };
            Ok(thread.put_back(index, told, at))
        })
    }

    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let part = || Part::LastEvent(at.run.clone());
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &at.thread, part()));
        self.backend.write(scope, move |tables| {
            let (thread, index) = tables.run_mut(who, at)?;
            if let Some(open) = thread.open_run() {
                return Err(invariants::busy(&open.row.new.at));
            }
            let is_last = index + 1 == thread.runs.len();
            invariants::check_requeue(
                at,
                thread.runs[index].row.status,
                is_last,
                &thread.row.metadata,
            )?;
            thread.put_back(index, AiEvent::Requeued { by: who.subject.clone() }, now);
            let row = &mut thread.runs[index].row;
            (row.outcome, row.ended_at, row.cancel_requested) = (None, None, false);
            row.last_checkpoint = None;
            Ok(row.clone())
        })
    }

    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, &at.thread));
        self.backend.write(scope, move |tables| {
            let (thread, index) = tables.run_mut(who, at)?;
            let row = &mut thread.runs[index].row;
            if row.status.is_final() {
                return Err(invariants::missing("run", &at.run));
            }
            row.cancel_requested = true;
            Ok(())
        })
    }
}

fn claim(
    tables: &mut Tables,
    who: &Principal,
    at: &RunRef,
    worker: &WorkerId,
    now: Timestamp,
) -> Result<(Claim, RunRow)> {
    begin(tables, who, at)?;
    let (thread, index) = tables.run_mut(who, at)?;
    let row = &mut thread.runs[index].row;
    row.status = RunStatus::Running;
    row.worker = Some(worker.clone());
    row.fence += 1;
    thread.row.status = Some(RunStatus::Running);
    thread.row.updated_at = now;
    let claim = Claim { at: at.clone(), worker: worker.clone(), fence: row.fence };
    Ok((claim, row.clone()))
}

/// Applies the additional changes of a run's first claim.
fn begin(tables: &mut Tables, who: &Principal, at: &RunRef) -> Result<()> {
    let row = &tables.run(who, at)?.row;
    if row.fence > 0 {
        return Ok(());
    }
    if row.clears() {
        tables.checkpoints.delete(&who.org, &at.thread);
    }
    let newest = tables.checkpoints.newest(&who.org, &at.thread);
    let (thread, index) = tables.run_mut(who, at)?;
    let row = &mut thread.runs[index].row;
    if row.clears() {
        thread.row.head = None;
    }
    let takes_back = row.takes_back();
    row.base = row.base.or(Some(newest.into()));
    if !row.cancel_requested {
        thread.row.graph = Some(row.new.graph.clone());
    }
    thread.row.wakes_at = None;
    if !takes_back {
        let marked = thread.runs.iter_mut().map(|run| &mut run.row.rolled_back_by);
        marked.filter(|by| by.as_ref() == Some(&at.run)).for_each(|by| *by = None);
    }
    Ok(())
}

/// Returns the run of an earlier request with the same idempotency key or run id.
fn earlier(tables: &Tables, who: &Principal, new: &NewRun) -> Result<Option<RunRow>> {
    if let Some(key) = &new.options.idempotency_key
        && let Some(at) = tables.keys.get(&(who.org.clone(), key.clone()))
    {
        let row = &tables.run(who, at)?.row;
        let same = invariants::same_request(&row.new, new);
        return if same { Ok(Some(row.clone())) } else { Err(invariants::key_reused(key)) };
    }
    let Some(thread) = tables.runs.get(&(who.org.clone(), new.at.run.clone())) else {
        return Ok(None);
    };
    let row = &tables.run(who, &RunRef { thread: thread.clone(), run: new.at.run.clone() })?.row;
    let same = invariants::same_request(&row.new, new);
    if same { Ok(Some(row.clone())) } else { Err(invariants::run_id_reused(&new.at)) }
}

fn create(
    tables: &mut Tables,
    who: &Principal,
    new: NewRun,
    answers: BTreeMap<InterruptId, Answer>,
) -> Result<RunRow> {
    let place = (who.org.clone(), new.at.thread.clone());
    let known = tables.threads.get(&place);
    let unfinished = known.map_or(0, |thread| thread.unfinished().count());
    mailbox::check_mailbox(&new, known.map(|thread| &thread.row.metadata), unfinished)?;
    let delays = |run: &&Run| mailbox::delays(&run.row, &new);
    let open = known.and_then(|thread| thread.unfinished().find(delays));
    let open = open.map(|run| run.row.clone());
    if let Some(open) = &open
        && !invariants::may_wait(&new)
    {
        return Err(invariants::busy(&open.new.at));
    }
    for id in answers.keys() {
        let rows = known.map(|thread| thread.interrupts.as_slice()).unwrap_or_default();
        invariants::check_answerable(*id, rows.iter().find(|row| row.interrupt.id == *id))?;
    }
    let named = new.options.roll_back.as_ref();
    let named = named.and_then(|id| known?.runs.iter().find(|run| run.row.new.at.run == *id));
    let named = named.map(|run| run.row.clone());
    let oldest = invariants::oldest_rolled_back(&new, named.as_ref(), open.as_ref())?;
    let newest = tables.checkpoints.newest(&who.org, &new.at.thread);
    let base = oldest.and_then(|oldest| invariants::base_after(&new, oldest, newest));
    let oldest = oldest.filter(|_| base.is_some()).map(|oldest| oldest.new.at.run.clone());
    if let Some(key) = &new.options.idempotency_key {
        tables.keys.insert((who.org.clone(), key.clone()), new.at.clone());
    }
    tables.runs.insert((who.org.clone(), new.at.run.clone()), new.at.thread.clone());
    tables.run_count += 1;
    let thread = tables.threads.entry(place).or_insert_with(|| Thread::of(&new));
    let status = mailbox::first_status(&new, open.is_some());
    if status == RunStatus::Pending {
        thread.row.graph = Some(new.graph.clone());
        thread.row.status = Some(RunStatus::Pending);
        thread.row.updated_at = new.created_at;
        thread.row.wakes_at = None;
    }
    if new.options.multitask.cancels() && (open.is_some() || named.is_some()) {
        let before = thread.runs.iter_mut().map(|run| &mut run.row);
        before.filter(|row| !row.status.is_final()).for_each(|row| row.cancel_requested = true);
    }
    if let Some(oldest) = oldest {
        let runs = thread.runs.iter_mut().map(|run| &mut run.row);
        let taken_back = runs.skip_while(|row| row.new.at.run != oldest);
        for row in taken_back {
            row.rolled_back_by.get_or_insert_with(|| new.at.run.clone());
        }
    }
    for row in &mut thread.interrupts {
        if let Some(answer) = answers.get(&row.interrupt.id) {
            row.answer = Some(answer.clone());
        }
    }
    let asked =
        thread.interrupts.iter().find(|row| Some(&row.interrupt.id) == answers.keys().next());
    let asked_by = asked.map(|row| row.run.clone());
    let row = RunRow { base, answers: asked_by, ..RunRow::accepted(new, status) };
    thread.runs.push(Run {
        row: row.clone(),
        subject: who.subject.clone(),
        number: tables.run_count,
        events: Vec::new(),
        pieces: BTreeMap::new(),
    });
    Ok(row)
}

/// Returns the thread of a run and its index, after checking the claim.
fn claimed<'t>(
    tables: &'t mut Tables,
    who: &Principal,
    claim: &Claim,
) -> Result<(&'t mut Thread, usize)> {
    let (thread, index) = tables.run_mut(who, &claim.at)?;
    let row = &thread.runs[index].row;
    let holder = Holder { status: row.status, worker: row.worker.as_ref(), fence: row.fence };
    invariants::check_claim(claim, holder)?;
    Ok((thread, index))
}

impl<B: Backend> WriteUsage for TableStore<B> {
    fn record_usage<'a>(
        &'a self,
        who: &'a Principal,
        usage: UsageRow,
    ) -> BoxFuture<'a, Result<()>> {
        let invocation = &usage.fact.invocation_id;
        let scope = partial_scope::<B>(|| Scope::of(Need::usage(&who.org, invocation)));
        self.backend.write(scope, move |tables| {
            tables.bill(&who.org, usage);
            Ok(())
        })
    }
}

impl<B: Backend> Workers for TableStore<B> {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Worker(worker.id.clone())));
        self.backend.write(scope, move |tables| {
            tables.workers.insert(worker.id.clone(), worker);
            Ok(())
        })
    }

    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Worker(worker.clone())));
        self.backend.write(scope, move |tables| {
            tables.workers.remove(worker);
            Ok(())
        })
    }
}
