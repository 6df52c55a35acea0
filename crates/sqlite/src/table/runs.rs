use crate::error::Done;
use crate::lock::Locks;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::accept::{create, earlier};
use crate::table::mailbox::{self, turn};
use crate::table::{checkpoint_write, claim_cache, commit, requeue, threads, workers};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::columns;
use weftwork_store::{
    ActivityCounts, Base, CheckpointNamespace, Claim, Commit, Committed, NewRun, OrphanPage,
    RunRow, invariants,
};
use weftwork_store::{ReadRuns, Result, WriteRuns};
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{
    BoxFuture, CheckpointId, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

impl ReadRuns for SqliteStore {
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        let org = who.org.clone();
        let at = at.clone();
        self.read(move |conn| expect(conn, &org, &at))
    }

    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            let sql = "SELECT * FROM runs WHERE org = ?1 AND thread = ?2 ORDER BY rowid";
            row::all(conn, sql, params![org.as_str(), thread.as_str()], read)
        })
    }

    fn unfinished_runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            let sql = "SELECT * FROM runs INDEXED BY runs_unfinished
                       WHERE org = ?1 AND thread = ?2 AND status IN ('queued', 'pending', 'running')
                       ORDER BY number";
            row::all(conn, sql, params![org.as_str(), thread.as_str()], read)
        })
    }

    fn last_ended<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<RunRow>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            let sql = "SELECT * FROM runs WHERE number = (
                           SELECT number FROM runs
                           WHERE org = ?1 AND thread = ?2 AND ended_at IS NOT NULL
                           ORDER BY ended_at DESC, last_checkpoint DESC, number DESC LIMIT 1)";
            row::one(conn, sql, params![org.as_str(), thread.as_str()], read)
        })
    }

    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>> {
        let org = who.org.clone();
        let id = id.clone();
        self.read(move |conn| {
            let sql = "SELECT * FROM runs WHERE org = ?1 AND id = ?2";
            let found = row::one(conn, sql, params![org.as_str(), id.as_str()], read)?;
            Ok(found.ok_or_else(|| invariants::missing("run", &id))?)
        })
    }

    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.read(move |conn| {
            let sql = "SELECT runs.* FROM threads t CROSS JOIN runs
                       ON runs.rowid = (SELECT r.rowid FROM runs r
                           WHERE r.org = t.org AND r.thread = t.id AND r.status <> 'queued'
                           ORDER BY r.ended_at IS NULL DESC, r.ended_at DESC,
                               r.last_checkpoint DESC, r.rowid DESC LIMIT 1)
                       WHERE t.wakes_at <= ?1 AND t.graph IN (SELECT value FROM json_each(?2))
                           AND json_extract(t.metadata, '$.\"weft:terminated\"') IS NOT TRUE
                       ORDER BY t.wakes_at, t.org, t.id";
            let asked = params![now.0, row::json(&graphs)?];
            row::readable(conn, sql, asked, limit, |row| Ok(Some((read_creator(row)?, read(row)?))))
        })
    }

    fn orphan_page(
        &self,
        now: Timestamp,
        page: OrphanPage,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        let locks = self.locks();
        self.read(move |conn| orphans(conn, &locks, now, &page))
    }

    fn next_run<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<(Principal, RunRow)>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| mailbox::next_run(conn, &org, &thread, now))
    }

    fn count_activities<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ActivityCounts>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| mailbox::count(conn, &org, &thread))
    }

    fn to_stop<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>> {
        let worker = worker.clone();
        self.read(move |conn| {
            let sql = "SELECT org, thread, id FROM runs
                       WHERE status IN ('pending', 'running') AND worker = ?1
                           AND cancel_requested AND status = 'running'
                       ORDER BY org, thread";
            row::all(conn, sql, [worker.as_str()], |row| {
                let at = At::new("runs", &"a run to stop");
                let run = RunRef { thread: at.id(row, "thread")?, run: at.id(row, "id")? };
                Ok((at.id(row, "org")?, run))
            })
        })
    }
}

impl WriteRuns for SqliteStore {
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let who = who.clone();
        self.write(move |conn| match earlier(conn, &who.org, &run)? {
            Some(row) => Ok(row),
            None => create(conn, &who, &run, &answers),
        })
    }

    fn create_claimed<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let who = who.clone();
        let worker = worker.clone();
        self.write(move |conn| {
            if let Some(row) = earlier(conn, &who.org, &run)? {
                return Ok((row, None));
            }
            let row = create(conn, &who, &run, &answers)?;
            if row.status != RunStatus::Pending {
                return Ok((row, None));
            }
            let (claim, row) = claim(conn, &who.org, row, worker.clone(), run.created_at)?;
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
        let org = who.org.clone();
        let at = at.clone();
        let worker = worker.clone();
        let locks = self.locks();
        self.write(move |conn| {
            let row = expect(conn, &org, &at)?;
            if row.status.is_final() {
                return Err(invariants::missing("run", &at.run).into());
            }
            if row.status == RunStatus::Queued {
                match mailbox::next_run(conn, &org, &at.thread, now)? {
                    Some((_, next)) if next.new.at == at => {}
                    Some((_, next)) => return Err(invariants::busy(&next.new.at).into()),
                    None => return Err(mailbox::not_its_turn(conn, &org, &at.thread)?.into()),
                }
            }
            if let Some(holder) = &row.worker {
                if workers::is_alive(conn, &locks, holder, now)? {
                    return Err(invariants::busy(&at).into());
                }
                if locks.is_gone(holder) {
                    workers::delete(conn, &locks, holder)?;
                }
            }
            claim(conn, &org, row, worker.clone(), now)
        })
    }

    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>> {
        let org = who.org.clone();
        let claim = claim.clone();
        Box::pin(async move {
            let known = self.known();
            let run = claim.at.run.clone();
            let work = {
                let known = Arc::clone(&known);
                move |conn: &Connection| commit::commit(conn, &known, &org, &claim, &commit)
            };
            let (committed, position) = self.write(work).await?;
            known.stands(&run, position);
            Ok(committed)
        })
    }

    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>> {
        let org = who.org.clone();
        let claim = claim.clone();
        self.write(move |conn| {
            claim_cache::check(conn, &org, &claim)?;
            requeue::put(conn, &org, &claim.at, AiEvent::Released { claim: claim.fence }, at)
        })
    }

    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let who = who.clone();
        let at = at.clone();
        self.write(move |conn| requeue::requeue(conn, &who, &at, now))
    }

    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let at = at.clone();
        self.write(move |conn| {
            let sql = "UPDATE runs SET cancel_requested = 1
                       WHERE org = ?1 AND id = ?2 AND thread = ?3
                         AND status IN ('queued', 'pending', 'running')";
            let key = params![org.as_str(), at.run.as_str(), at.thread.as_str()];
            match row::execute(conn, sql, key)? {
                0 => Err(invariants::missing("run", &at.run).into()),
                _ => Ok(()),
            }
        })
    }
}

fn claim(
    conn: &Connection,
    org: &OrgId,
    mut run: RunRow,
    worker: WorkerId,
    now: Timestamp,
) -> Done<(Claim, RunRow)> {
    if run.fence == 0 {
        begin(conn, org, &mut run)?;
    }
    run.status = RunStatus::Running;
    run.fence += 1;
    let at = run.new.at.clone();
    let status = row::word(&run.status)?;
    let sql = "UPDATE runs SET status = ?3, worker = ?4, fence = ?5, base = ?6
               WHERE org = ?1 AND id = ?2";
    let fence = row::int(run.fence);
    let base = run.base.map(Base::to_bytes);
    let values = params![org.as_str(), at.run.as_str(), status, worker.as_str(), fence, base];
    row::execute(conn, sql, values)?;
    let sql = "UPDATE threads SET status = ?3, updated_at = ?4 WHERE org = ?1 AND id = ?2";
    row::execute(conn, sql, params![org.as_str(), at.thread.as_str(), status, now.0])?;
    run.worker = Some(worker.clone());
    Ok((Claim { at, worker, fence: run.fence }, run))
}

/// Applies the additional changes of a run's first claim.
fn begin(conn: &Connection, org: &OrgId, run: &mut RunRow) -> Done<()> {
    let thread = &run.new.at.thread;
    if run.base.is_some() && !run.takes_back() {
        let sql = "UPDATE runs SET rolled_back_by = NULL
                   WHERE org = ?1 AND thread = ?2 AND rolled_back_by = ?3";
        row::execute(conn, sql, params![org.as_str(), thread.as_str(), run.new.at.run.as_str()])?;
    }
    if run.clears() {
        checkpoint_write::delete(conn, org, thread)?;
        let sql = "UPDATE threads SET head = NULL WHERE org = ?1 AND id = ?2";
        row::execute(conn, sql, params![org.as_str(), thread.as_str()])?;
    }
    if run.status == RunStatus::Queued {
        let sql = "UPDATE threads SET graph = coalesce(?3, graph), wakes_at = NULL
                   WHERE org = ?1 AND id = ?2";
        // One that is cancelled has not run on the thread.
        let graph = (!run.cancel_requested).then_some(&run.new.graph);
        row::execute(conn, sql, params![org.as_str(), thread.as_str(), graph])?;
    }
    if run.base.is_none() {
        run.base = Some(newest(conn, org, thread)?.into());
    }
    Ok(())
}

/// Returns the newest checkpoint of a thread's root graph.
pub(crate) fn newest(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
) -> Done<Option<CheckpointId>> {
    checkpoint_write::newest_id(
        conn,
        org,
        &CheckpointNamespace { thread: thread.clone(), ns: String::new() },
    )
}

fn orphans(
    conn: &Connection,
    locks: &Locks,
    now: Timestamp,
    page: &OrphanPage,
) -> Done<Vec<(Principal, RunRow)>> {
    let sql = concat!(
        "SELECT * FROM (
         SELECT * FROM runs WHERE status IN ('pending', 'running')
         UNION ALL
         SELECT q.* FROM (SELECT DISTINCT org, thread FROM runs INDEXED BY runs_unfinished
                          WHERE status IN ('queued', 'pending', 'running')
                              AND status = 'queued') t
         JOIN runs q ON q.number = (",
        turn!(),
        ") WHERE q.status = 'queued'
         )
         WHERE (?2 IS NULL OR graph IN (SELECT value FROM json_each(?2)))
             AND (?3 IS NULL OR (created_at, number) > (?3, coalesce(
                 (SELECT number FROM runs WHERE org = ?4 AND id = ?5), 0)))
         ORDER BY created_at, number"
    );
    let graphs = page.graphs.as_ref().map(row::json).transpose()?;
    let after = page.after.as_ref();
    let values = params![
        now.0,
        graphs,
        after.map(|after| after.created_at.0),
        after.map(|after| after.org.as_str()),
        after.map(|after| after.run.as_str()),
    ];
    let mut alive = BTreeMap::new();
    row::readable(conn, sql, values, page.limit, |row| {
        let at = At::new("runs", &"a run without a living worker");
        if let Some(worker) = at.plain::<Option<String>>(row, "worker")? {
            let known = alive.get(&worker).copied();
            let is_alive = match known {
                Some(known) => known,
                None => workers::is_alive(conn, locks, &at.id(row, "worker")?, now)?,
            };
            alive.insert(worker, is_alive);
            if is_alive {
                return Ok(None);
            }
        }
        let found = (read_creator(row)?, read(row)?);
        Ok((!found.1.waits_in_mailbox(now)).then_some(found))
    })
}

/// Returns the oldest unfinished run of a thread. The index is named explicitly; otherwise SQLite
/// reads finished runs, too.
pub(crate) fn open_run(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<Option<RunRef>> {
    let sql = "SELECT id FROM runs INDEXED BY runs_unfinished
               WHERE org = ?1 AND thread = ?2 AND status IN ('queued', 'pending', 'running')
               ORDER BY number LIMIT 1";
    row::one(conn, sql, params![org.as_str(), thread.as_str()], |row| {
        let run: RunId = At::new("runs", thread).id(row, "id")?;
        Ok(RunRef { thread: thread.clone(), run })
    })
}

pub(crate) fn expect(conn: &Connection, org: &OrgId, at: &RunRef) -> Done<RunRow> {
    let sql = "SELECT * FROM runs WHERE org = ?1 AND id = ?2 AND thread = ?3";
    let key = params![org.as_str(), at.run.as_str(), at.thread.as_str()];
    Ok(row::one(conn, sql, key, read)?.ok_or_else(|| invariants::missing("run", &at.run))?)
}

pub(crate) fn read_creator(row: &Row<'_>) -> Done<Principal> {
    Ok(columns::read_creator(row)?)
}

/// Reads a status and the number of runs that have it.
pub(crate) fn expect_status(row: &Row<'_>) -> Done<(RunStatus, u64)> {
    let at = At::new("runs", &"the count of a status");
    Ok((at.word(row, "status")?, at.count(row, "runs")?))
}

pub(crate) fn read(row: &Row<'_>) -> Done<RunRow> {
    Ok(columns::read_run(row)?)
}
