//! Claims of runs.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, int, text, word};
use crate::table::runs::{self, whole};
use crate::table::{checkpoint_write, checkpoints, mailbox, threads};
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::{Base, Claim, RunRow, invariants};
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{OrgId, Timestamp, WorkerId};

/// A claim to be made.
#[derive(Debug)]
pub(crate) struct Claiming {
    pub(crate) org: OrgId,
    pub(crate) at: RunRef,
    pub(crate) worker: WorkerId,
    pub(crate) now: Timestamp,
    /// Time at which the holder has to be alive; `None` for the clock of the database.
    pub(crate) alive_at: Option<i64>,
    pub(crate) mark: Vec<u8>,
}

/// Claims a run for a worker. Reads everything that the decision needs with the lock on the thread, in
/// one round trip.
pub(crate) async fn claim(
    conn: &mut Conn,
    claiming: &Claiming,
    before: Before,
) -> Done<(Claim, RunRow)> {
    let Claiming { org, at, worker, now, alive_at, mark } = claiming;
    let sql = whole!(
        ", coalesce(is_valid_lease(w.renewed_at, w.expires_at, coalesce($4, database_time())),
             false) AS alive
         FROM runs r LEFT JOIN workers w ON w.id = r.worker
         WHERE r.org = $1 AND r.id = $2 AND r.thread = $3"
    );
    let ask = ask!(sql, text(org), text(&at.run), text(&at.thread), *alive_at);
    let found = conn
        .begin(vec![
            threads::lock(org, &at.thread),
            ask,
            mailbox::next_run(org, &at.thread, *now),
            checkpoints::newest_of(org, &at.thread),
            mailbox::asking(org, &at.thread),
        ])
        .await?;
    let [Some(thread), Some(row), next, newest, asking] =
        found.iter().map(|rows| rows.first()).collect::<Vec<_>>()[..]
    else {
        return Err(invariants::missing("run", &at.run).into());
    };
    let place = At::new("runs", &at.run);
    let mut run = runs::read(row)?;
    let claim = |fence| Claim { at: at.clone(), worker: worker.clone(), fence };
    // The answer of this very write was lost: its mark says that it took effect.
    if before == Before::Doubt && place.plain::<Option<&[u8]>>(thread, "mark")? == Some(mark) {
        return Ok((claim(run.fence), run));
    }
    if run.status.is_final() {
        return Err(invariants::missing("run", &at.run).into());
    }
    if place.plain(row, "alive")? {
        return Err(invariants::busy(at).into());
    }
    if run.status == RunStatus::Queued {
        match next.map(|next| runs::named(next, &at.thread)).transpose()? {
            Some(next) if next == *at => {}
            Some(next) => return Err(invariants::busy(&next).into()),
            None => return Err(mailbox::not_its_turn(&at.thread, asking)?.into()),
        }
    }
    let mut asks = if run.fence == 0 { begin(org, &mut run, newest)? } else { Vec::new() };
    run.status = RunStatus::Running;
    run.worker = Some(worker.clone());
    run.fence += 1;
    let status = word(&run.status)?;
    let taken = "UPDATE runs SET status = $3, worker = $4, fence = $5, base = $6
                 WHERE org = $1 AND id = $2";
    let follows = "UPDATE threads SET status = $3, updated_at = $4, mark = $5
                   WHERE org = $1 AND id = $2";
    let fence = int(run.fence);
    let base = run.base.map(Base::to_bytes);
    asks.extend([
        ask!(taken, text(org), text(&at.run), status.clone(), text(worker), fence, base),
        ask!(follows, text(org), text(&at.thread), status, now.0, mark.clone()),
    ]);
    conn.commit(asks).await?;
    Ok((claim(run.fence), run))
}

/// Applies the additional changes of a run's first claim, given the thread's newest checkpoint.
pub(crate) fn begin(org: &OrgId, run: &mut RunRow, newest: Option<&Row>) -> Result<Vec<Ask>> {
    let thread = &run.new.at.thread;
    let mut asks = Vec::new();
    if run.base.is_some() && !run.takes_back() {
        let unmarks = "UPDATE runs SET rolled_back_by = NULL
                       WHERE org = $1 AND thread = $2 AND rolled_back_by = $3";
        asks.push(ask!(unmarks, text(org), text(thread), text(&run.new.at.run)));
    }
    if run.status == RunStatus::Queued {
        let follows = "UPDATE threads SET graph = coalesce($3, graph), seq = 0, wakes_at = NULL
                       WHERE org = $1 AND id = $2";
        // One that is cancelled has not run on the thread.
        let graph = (!run.cancel_requested).then(|| run.new.graph.clone());
        asks.push(ask!(follows, text(org), text(thread), graph));
    }
    if run.clears() {
        asks.push(checkpoint_write::lock_thread(org, thread));
        asks.extend(checkpoint_write::deletes(org, thread));
        let forgets = "UPDATE threads SET head = NULL WHERE org = $1 AND id = $2";
        asks.push(ask!(forgets, text(org), text(thread)));
    }
    if run.base.is_none() {
        run.base = Some(checkpoints::newest_id(newest, thread)?.into());
    }
    Ok(asks)
}
