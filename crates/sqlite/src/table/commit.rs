use crate::error::Done;
use crate::row::{self, At};
use crate::table::{calls, events, interrupts, keep, pieces, threads, usage};
use rusqlite::{Connection, params};
use weftwork_store::rule::{self, Holder};
use weftwork_store::{Claim, Commit, Committed};
use weftwork_types::run::{RunFinal, RunStatus};
use weftwork_types::{CheckpointId, OrgId, Timestamp, WorkerId};

/// What a write for a run needs to know.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) head: Option<CheckpointId>,
    pub(crate) cancel_requested: bool,
}

/// Lets a write pass when its claim is the newest.
pub(crate) fn check(conn: &Connection, org: &OrgId, claim: &Claim) -> Done<Held> {
    let sql = "SELECT runs.status, runs.worker, runs.fence, runs.cancel_requested, threads.head
               FROM runs JOIN threads ON threads.org = runs.org AND threads.id = runs.thread
               WHERE runs.org = ?1 AND runs.id = ?2 AND runs.thread = ?3";
    let (run, thread) = (claim.at.run.as_str(), claim.at.thread.as_str());
    let name = format!("run `{run}`");
    let held = row::one(conn, sql, params![org.as_str(), run, thread], |row| {
        let at = At::new("runs", &name);
        let holder: Option<String> = at.plain(row, "worker")?;
        let worker: Option<WorkerId> = holder.map(|_| at.id(row, "worker")).transpose()?;
        let status: RunStatus = at.word(row, "status")?;
        let fence = at.plain(row, "fence")?;
        rule::check_claim(claim, Holder { status, worker: worker.as_ref(), fence })?;
        Ok(Held {
            head: at.maybe_bits(row, "head")?.map(CheckpointId),
            cancel_requested: at.plain(row, "cancel_requested")?,
        })
    })?;
    Ok(held.ok_or_else(|| rule::missing("run", run))?)
}

/// Writes a commit: claim, what is kept, calls, what is billed, questions, events, outcome.
pub(crate) fn commit(
    conn: &Connection,
    org: &OrgId,
    claim: &Claim,
    commit: &Commit,
) -> Done<Committed> {
    let held = check(conn, org, claim)?;
    let thread = &claim.at.thread;
    keep::keep(conn, org, thread, &commit.keep)?;
    for call in &commit.calls {
        calls::record(conn, org, thread, call)?;
    }
    for row in &commit.usage {
        usage::record(conn, org, row)?;
    }
    let head = keep::head(&commit.keep).or(held.head);
    if !commit.keep.checkpoints.is_empty() || commit.finish.is_some() {
        interrupts::close(conn, org, thread)?;
    }
    for interrupt in &commit.interrupts {
        interrupts::ask(conn, org, &claim.at, interrupt)?;
    }
    let first_seq = events::append(conn, org, &claim.at.run, &commit.events, commit.at)?;
    pieces::write(conn, org, &claim.at.run, commit)?;
    if let Some(end) = &commit.finish {
        finish(conn, org, claim, end, commit.at)?;
        if let Some(wakes_at) = commit.wakes_at {
            threads::wakes_at(conn, org, thread, wakes_at)?;
        }
    }
    let head = head.map(|id| id.0.to_be_bytes());
    let (org, thread, at) = (org.as_str(), thread.as_str(), commit.at.0);
    match &commit.finish {
        // A thread whose run goes on has its status, and stays where lists find it.
        None => {
            let sql = "UPDATE threads SET head = ?3, updated_at = ?4
                       WHERE org = ?1 AND id = ?2";
            row::execute(conn, sql, params![org, thread, head, at])?
        }
        Some(end) => {
            let sql = "UPDATE threads SET head = ?3, updated_at = ?4, status = ?5
                       WHERE org = ?1 AND id = ?2";
            row::execute(conn, sql, params![org, thread, head, at, row::word(&end.status())?])?
        }
    };
    Ok(Committed { first_seq, cancel_requested: held.cancel_requested })
}

fn finish(
    conn: &Connection,
    org: &OrgId,
    claim: &Claim,
    end: &RunFinal,
    at: Timestamp,
) -> Done<()> {
    let sql = "UPDATE runs SET status = ?3, outcome = ?4, ended_at = ?5
               WHERE org = ?1 AND id = ?2";
    let (status, outcome) = (row::word(&end.status())?, row::json(end)?);
    row::execute(conn, sql, params![org.as_str(), claim.at.run.as_str(), status, outcome, at.0])?;
    Ok(())
}
