use crate::error::Done;
use crate::row;
use crate::table::claim_cache::{self, ClaimCache};
use crate::table::compact::Call;
use crate::table::{checkpoint_write, interrupts, log, pieces, sequences, usage};
use rusqlite::{Connection, params};
use std::borrow::Cow;
use std::sync::Arc;
use weftwork_store::{Claim, Commit, Committed, UsageRow};
use weftwork_types::OrgId;
use weftwork_types::run::RunOutcome;

/// Writes a commit: checkpoints, questions, events, calls, usage and outcome, after checking the
/// claim. Also returns the end of the run's log.
pub(crate) fn commit(
    conn: &Connection,
    known: &ClaimCache,
    org: &OrgId,
    claim: &Claim,
    commit: &Commit,
) -> Done<(Committed, i64)> {
    let mut held = match known.take(conn, org, claim)? {
        Some(held) => held,
        None => claim_cache::check(conn, org, claim)?,
    };
    let thread = &claim.at.thread;
    checkpoint_write::put_batch(conn, org, thread, &commit.batch)?;
    let leaves = !commit.batch.checkpoints.is_empty() || commit.finish.is_some();
    if leaves && held.asks {
        interrupts::close(conn, org, thread)?;
    }
    interrupts::ask(conn, org, &claim.at, commit)?;
    let Commit { events, at, .. } = commit;
    let calls = commit.calls.iter().map(|call| Call::from(&**call)).collect();
    let (usage, of_others) = by_payer(claim, &commit.usage);
    of_others.iter().try_for_each(|row| usage::record(conn, org, row))?;
    let head = checkpoint_write::head(&commit.batch);
    let usage = Some((&held.payer, usage.as_ref()));
    let first_seq = log::add(conn, held.end, log::Entry { at: *at, head, calls, usage, events })?;
    pieces::write(conn, org, &claim.at.run, commit)?;
    if let Some(end) = &commit.finish {
        finish(conn, org, claim, end, commit)?;
    }
    sequences::apply(conn, org, &commit.sequence_writes, *at)?;
    let committed = Committed { first_seq, cancel_requested: held.cancel_requested };
    held.asks = !commit.interrupts.is_empty() || held.asks && !leaves;
    held.end = held.end.after(events.len());
    let position = held.end.position;
    known.put(conn, org, claim, commit.finish.is_none().then_some(held));
    Ok((committed, position))
}

/// Splits usage into that of the run and that of other runs.
fn by_payer<'a>(
    claim: &Claim,
    usage: &'a [Arc<UsageRow>],
) -> (Cow<'a, [Arc<UsageRow>]>, Vec<Arc<UsageRow>>) {
    let own = |row: &Arc<UsageRow>| row.run() == Some(&claim.at.run);
    if usage.iter().all(own) {
        return (Cow::Borrowed(usage), Vec::new());
    }
    let (usage, of_others) = usage.iter().cloned().partition(own);
    (Cow::Owned(usage), of_others)
}

/// Ends a run. From now on the row of the thread has its current state, instead of the log.
fn finish(
    conn: &Connection,
    org: &OrgId,
    claim: &Claim,
    end: &RunOutcome,
    commit: &Commit,
) -> Done<()> {
    let status = row::word(&end.status())?;
    let org = org.as_str();
    let at = commit.at.0;
    let sql = "UPDATE threads SET status = ?3, updated_at = ?4, wakes_at = coalesce(?5, wakes_at),
                   head = (SELECT head FROM threads_now WHERE org = ?1 AND id = ?2)
               WHERE org = ?1 AND id = ?2";
    let wakes_at = commit.wakes_at.map(|at| at.0);
    let values = params![org, claim.at.thread.as_str(), status, at, wakes_at];
    row::execute(conn, sql, values)?;
    let sql = "UPDATE runs SET status = ?3, outcome = ?4, ended_at = ?5, last_checkpoint = (
                   SELECT head FROM threads WHERE org = ?1 AND id = ?6)
               WHERE org = ?1 AND id = ?2";
    let run = claim.at.run.as_str();
    let thread = claim.at.thread.as_str();
    let values = params![org, run, status, row::json(end)?, at, thread];
    row::execute(conn, sql, values)?;
    Ok(())
}
