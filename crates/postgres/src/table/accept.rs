//! Acceptance of runs.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, bytes, int, json, text, word};
use crate::table::runs::{read, whole};
use crate::table::{checkpoints, claim, interrupts, mailbox, threads};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::mailbox::first_status;
use weftwork_store::{Base, Claim, NewRun, RunRow, invariants};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::RunStatus;
use weftwork_types::{InterruptId, OrgId, Principal, RunId, ThreadId, WorkerId};

/// A run to be created, and the worker that claims it in the same transaction.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) who: Principal,
    pub(crate) new: NewRun,
    pub(crate) answers: BTreeMap<InterruptId, Answer>,
    pub(crate) worker: Option<WorkerId>,
}

/// Creates a run, and its thread if it does not exist.
pub(crate) async fn create(
    conn: &mut Conn,
    creation: &Creation,
    before: Before,
) -> Done<(RunRow, Option<Claim>)> {
    let Creation { who, new, answers, worker } = creation;
    let org = &who.org;
    let thread = &new.at.thread;
    let key = new.options.idempotency_key.clone();
    let by_key = whole!("FROM runs r WHERE r.org = $1 AND r.idempotency_key = $2");
    let by_id = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2");
    let named = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2 AND r.thread = $3");
    let rolled_back = new.options.roll_back.as_ref().map(text);
    let queries = vec![
        threads::lock(org, thread),
        // Queried before the keys. A thread without a row has no lock, so a concurrent request
        // may create the same run between these queries; a run that is found here is then found
        // by its key or id as well.
        mailbox::delaying(org, new),
        interrupts::asked(org, thread, answers.keys()),
        ask!(by_key, text(org), key),
        ask!(by_id, text(org), text(&new.at.run)),
        checkpoints::newest_of(org, thread),
        ask!(named, text(org), rolled_back, text(thread)),
        mailbox::state(org, thread),
    ];
    let found = conn.begin(queries).await?;
    let [_, open, asked, by_key, by_id, newest, named, state] = found.as_slice() else {
        return Err(At::new("runs", &new.at.run).corrupt("an answer is missing").into());
    };
    if let Some(row) = earlier(new, by_key.first(), by_id.first())? {
        // After an error of the connection, it may be the run that this call created.
        let ours = before == Before::Doubt && row.new.at == new.at && row.fence == 1;
        let claim = row.worker.clone().filter(|by| ours && Some(by) == worker.as_ref());
        let claim = claim.map(|worker| Claim { at: new.at.clone(), worker, fence: 1 });
        return Ok((row, claim));
    }
    mailbox::check(new, state.first())?;
    let open = open.first().map(read).transpose()?;
    if let Some(open) = &open
        && !invariants::may_wait(new)
    {
        return Err(invariants::busy(&open.new.at).into());
    }
    let asked_by = interrupts::check(thread, answers, asked)?;
    let mut asks = interrupts::answer(org, thread, answers)?;
    let named = named.first().map(read).transpose()?;
    let oldest = invariants::oldest_rolled_back(new, named.as_ref(), open.as_ref())?;
    let place = checkpoints::newest_id(newest.first(), thread)?;
    let base = oldest.and_then(|oldest| invariants::base_after(new, oldest, place));
    let status = first_status(new, open.is_some());
    let mut run = RunRow { base, answers: asked_by, ..RunRow::accepted(new.clone(), status) };
    if open.is_some() {
        asks.extend(new.options.multitask.cancels().then(|| cancels(org, thread)));
    }
    if let (Some(_), Some(oldest)) = (base, oldest) {
        asks.push(marks(org, thread, &oldest.new.at.run, &new.at.run));
    }
    let worker = worker.as_ref().filter(|_| status == RunStatus::Pending);
    if let Some(worker) = worker {
        asks.extend(claim::begin(org, &mut run, newest.first())?);
        (run.status, run.worker, run.fence) = (RunStatus::Running, Some(worker.clone()), 1);
    }
    asks.push(match status {
        RunStatus::Pending => touches(who, new, run.status)?,
        _ => creates_thread(who, new),
    });
    asks.push(inserts(org, &who.subject, &run)?);
    conn.commit(asks).await?;
    let claim = worker.map(|by| Claim { at: new.at.clone(), worker: by.clone(), fence: 1 });
    Ok((run, claim))
}

/// Marks the runs of a thread from the oldest one on as rolled back.
fn marks(org: &OrgId, thread: &ThreadId, oldest: &RunId, by: &RunId) -> Ask {
    let sql = "UPDATE runs SET rolled_back_by = $4
               WHERE org = $1 AND thread = $2 AND rolled_back_by IS NULL
                   AND number >= (SELECT number FROM runs WHERE org = $1 AND id = $3)";
    ask!(sql, text(org), text(thread), text(oldest), text(by))
}

/// Returns the run of an earlier request with the same idempotency key or run id.
fn earlier(new: &NewRun, by_key: Option<&Row>, by_id: Option<&Row>) -> Result<Option<RunRow>> {
    if let (Some(key), Some(row)) = (&new.options.idempotency_key, by_key) {
        let row = read(row)?;
        let same = invariants::same_request(&row.new, new);
        return if same { Ok(Some(row)) } else { Err(invariants::key_reused(key)) };
    }
    match by_id.map(read).transpose()? {
        Some(row) if !invariants::same_request(&row.new, new) => {
            Err(invariants::run_id_reused(&new.at))
        }
        found => Ok(found),
    }
}

/// Requests cancellation of the unfinished runs of a thread.
fn cancels(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "UPDATE runs SET cancel_requested = true
               WHERE org = $1 AND thread = $2 AND status IN ('queued', 'pending', 'running')";
    ask!(sql, text(org), text(thread))
}

/// Updates the thread for a new run, or creates it.
fn touches(who: &Principal, new: &NewRun, status: RunStatus) -> Result<Ask> {
    let org = text(&who.org);
    let thread = text(&new.at.thread);
    let created_at = new.created_at.0;
    let status = word(&status)?;
    let follows = "INSERT INTO threads AS t (org, id, graph, status, seq, created_at, updated_at)
                   VALUES ($1, $2, $3, $4, 0, $5, $5)
                   ON CONFLICT (org, id) DO UPDATE SET graph = excluded.graph,
                       status = excluded.status, seq = 0, updated_at = excluded.updated_at,
                       wakes_at = NULL";
    Ok(ask!(follows, org, thread, new.graph.clone(), status, created_at))
}

/// Creates the thread of a queued run if it does not exist. One that exists is not changed.
fn creates_thread(who: &Principal, new: &NewRun) -> Ask {
    let sql = "INSERT INTO threads (org, id, graph, status, seq, created_at, updated_at)
               VALUES ($1, $2, $3, '', 0, $4, $4) ON CONFLICT (org, id) DO NOTHING";
    ask!(sql, text(&who.org), text(&new.at.thread), new.graph.clone(), new.created_at.0)
}

/// Writes the row of a run.
pub(crate) fn inserts(org: &OrgId, subject: &str, run: &RunRow) -> Result<Ask> {
    let sql = "INSERT INTO runs (org, id, thread, subject, graph, caller, input, options,
                   idempotency_key, created_at, status, worker, fence, outcome, ended_at,
                   cancel_requested, base, last_checkpoint, answers, rolled_back_by)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                   $17, $18, $19, $20)";
    let new = &run.new;
    Ok(ask!(
        sql,
        text(org),
        text(&new.at.run),
        text(&new.at.thread),
        subject.to_owned(),
        new.graph.clone(),
        json(&new.caller)?,
        json(&new.input)?,
        json(&new.options)?,
        new.options.idempotency_key.clone(),
        new.created_at.0,
        word(&run.status)?,
        run.worker.as_ref().map(text),
        int(run.fence),
        run.outcome.as_ref().map(json).transpose()?,
        run.ended_at.map(|at| at.0),
        run.cancel_requested,
        run.base.map(Base::to_bytes),
        run.last_checkpoint.map(|id| bytes(id.0)),
        run.answers.as_ref().map(text),
        run.rolled_back_by.as_ref().map(text),
    ))
}
