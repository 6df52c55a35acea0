use crate::error::Done;
use crate::row::{self, At};
use crate::table::log::{self, End};
use crate::table::short::Payer;
use crate::table::{interrupts, keep, pieces, usage};
use rusqlite::{Connection, params};
use std::borrow::Cow;
use weftwork_store::rule::{self, Holder};
use weftwork_store::{Claim, Commit, Committed, UsageRow};
use weftwork_types::run::{RunFinal, RunStatus};
use weftwork_types::{OrgId, WorkerId};

/// What a write for a run needs to know.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) end: End,
    payer: Payer,
    /// Whether the thread has open questions.
    asks: bool,
    pub(crate) cancel_requested: bool,
}

/// Lets a write pass when its claim is the newest.
pub(crate) fn check(conn: &Connection, org: &OrgId, claim: &Claim) -> Done<Held> {
    let sql = "SELECT number, status, worker, fence, cancel_requested, caller, graph,
                   place, last_seq,
                   EXISTS (SELECT 1 FROM interrupts asked
                           WHERE asked.org = runs.org AND asked.thread = runs.thread
                               AND answer IS NULL AND closed = 0) AS asks
               FROM runs LEFT JOIN log ON place = (
                   SELECT place FROM log
                   WHERE place BETWEEN number << 32 AND (number << 32) + 0xffffffff
                   ORDER BY place DESC LIMIT 1)
               WHERE org = ?1 AND id = ?2 AND thread = ?3";
    let (run, thread) = (claim.at.run.as_str(), claim.at.thread.as_str());
    let name = format_args!("run `{run}`");
    let held = row::one(conn, sql, params![org.as_str(), run, thread], |row| {
        let at = At::new("runs", &name);
        let holder: Option<String> = at.plain(row, "worker")?;
        let worker: Option<WorkerId> = holder.map(|_| at.id(row, "worker")).transpose()?;
        let status: RunStatus = at.word(row, "status")?;
        let fence = at.plain(row, "fence")?;
        rule::check_claim(claim, Holder { status, worker: worker.as_ref(), fence })?;
        let place: Option<i64> = at.plain(row, "place")?;
        let seq = place.map(|_| at.plain(row, "last_seq")).transpose()?;
        Ok(Held {
            end: End::of(at.plain(row, "number")?, place.zip(seq)),
            payer: Payer::read(&at, row)?,
            asks: at.plain(row, "asks")?,
            cancel_requested: at.plain(row, "cancel_requested")?,
        })
    })?;
    Ok(held.ok_or_else(|| rule::missing("run", run))?)
}

/// Writes a commit: claim, what is kept, questions, what is told, called and billed, outcome.
pub(crate) fn commit(
    conn: &Connection,
    org: &OrgId,
    claim: &Claim,
    commit: &Commit,
) -> Done<Committed> {
    let held = check(conn, org, claim)?;
    let thread = &claim.at.thread;
    keep::keep(conn, org, thread, &commit.keep)?;
    let leaves = !commit.keep.checkpoints.is_empty() || commit.finish.is_some();
    if leaves && held.asks {
        interrupts::close(conn, org, thread)?;
    }
    for interrupt in &commit.interrupts {
        interrupts::ask(conn, org, &claim.at, interrupt)?;
    }
    let Commit { calls, events, at, .. } = commit;
    let (usage, of_others) = by_payer(claim, &commit.usage);
    of_others.iter().try_for_each(|row| usage::record(conn, org, row))?;
    let (head, usage) = (keep::head(&commit.keep), Some((&held.payer, usage.as_ref())));
    let first_seq = log::add(conn, held.end, log::Entry { at: *at, head, calls, usage, events })?;
    pieces::write(conn, org, &claim.at.run, commit)?;
    if let Some(end) = &commit.finish {
        finish(conn, org, claim, (end, commit))?;
    }
    Ok(Committed { first_seq, cancel_requested: held.cancel_requested })
}

/// What the run itself used, and what it records for others.
fn by_payer<'a>(claim: &Claim, usage: &'a [UsageRow]) -> (Cow<'a, [UsageRow]>, Vec<UsageRow>) {
    let own = |row: &UsageRow| row.caller.run == claim.at.run;
    if usage.iter().all(own) {
        return (Cow::Borrowed(usage), Vec::new());
    }
    let (usage, of_others) = usage.iter().cloned().partition(own);
    (Cow::Owned(usage), of_others)
}

/// Ends a run. From now on the row of its thread says how that stands, and not the log.
fn finish(
    conn: &Connection,
    org: &OrgId,
    claim: &Claim,
    (end, commit): (&RunFinal, &Commit),
) -> Done<()> {
    let status = row::word(&end.status())?;
    let (org, at) = (org.as_str(), commit.at.0);
    let sql = "UPDATE threads SET status = ?3, updated_at = ?4, wakes_at = coalesce(?5, wakes_at),
                   head = (SELECT head FROM threads_now WHERE org = ?1 AND id = ?2)
               WHERE org = ?1 AND id = ?2";
    let wakes_at = commit.wakes_at.map(|at| at.0);
    let values = params![org, claim.at.thread.as_str(), status, at, wakes_at];
    row::execute(conn, sql, values)?;
    let sql = "UPDATE runs SET status = ?3, outcome = ?4, ended_at = ?5
               WHERE org = ?1 AND id = ?2";
    let values = params![org, claim.at.run.as_str(), status, row::json(end)?, at];
    row::execute(conn, sql, values)?;
    Ok(())
}
