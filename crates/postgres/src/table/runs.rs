use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, int, text};
use crate::store::PostgresStore;
use crate::table::accept::{Creation, create};
use crate::table::commit::{self, Write};
use crate::table::mailbox::{self, turn};
use crate::table::requeue::{self, Release, Requeue};
use crate::table::{claim, threads};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::columns;
use weftwork_store::{
    ActivityCounts, Claim, Commit, Committed, NewRun, OrphanPage, RunRow, StoreError, invariants,
};
use weftwork_store::{ReadRuns, Result, WriteRuns};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

/// Builds a query for complete rows.
macro_rules! whole {
    ($rest:literal) => {
        concat!(
            "SELECT r.org, r.id, r.thread, r.subject, r.graph, r.caller, r.input, r.options,
                    r.created_at, r.status, r.worker, r.fence, r.outcome, r.ended_at,
                    r.cancel_requested, r.base, r.last_checkpoint, r.answers, r.rolled_back_by ",
            $rest
        )
    };
}

pub(crate) use whole;

impl ReadRuns for PostgresStore {
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        self.run((who.org.clone(), at.clone()), |conn, (org, at), _| {
            Box::pin(async move {
                let rows = conn.rows(one(org, at)).await?;
                let row = rows.first().ok_or_else(|| invariants::missing("run", &at.run))?;
                Ok(read(row)?)
            })
        })
    }

    fn runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, of_thread(org, thread)).await?;
                rows.iter().map(|row| Ok(read(row)?)).collect()
            })
        })
    }

    fn unfinished_runs<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<RunRow>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, unfinished(org, thread)).await?;
                rows.iter().map(|row| Ok(read(row)?)).collect()
            })
        })
    }

    fn last_ended<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<RunRow>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, last_ended(org, thread)).await?;
                Ok(rows.first().map(read).transpose()?)
            })
        })
    }

    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>> {
        self.run((who.org.clone(), id.clone()), |conn, (org, id), _| {
            Box::pin(async move {
                let sql = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2");
                let rows = conn.rows(ask!(sql, text(org), text(id))).await?;
                Ok(read(rows.first().ok_or_else(|| invariants::missing("run", id))?)?)
            })
        })
    }

    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.run((now.0, graphs, limit), |conn, (now, graphs, limit), _| {
            Box::pin(async move {
                let sql = whole!(
                    "FROM threads t JOIN runs r ON r.org = t.org AND r.thread = t.id
                         AND r.number = (SELECT l.number FROM runs l
                             WHERE l.org = t.org AND l.thread = t.id AND l.status <> 'queued'
                             ORDER BY l.ended_at IS NULL DESC, l.ended_at DESC,
                                 l.last_checkpoint DESC NULLS LAST, l.number DESC LIMIT 1)
                     WHERE t.wakes_at <= $1 AND t.graph = ANY ($2)
                         AND comparable(t.metadata) -> 'weft:terminated' IS DISTINCT FROM 'true'
                     ORDER BY t.wakes_at, t.org, t.id LIMIT $3"
                );
                let ask = |limit| ask!(sql, *now, graphs.clone(), int(limit));
                readable(conn, *limit, ask).await
            })
        })
    }

    fn orphan_page(
        &self,
        now: Timestamp,
        page: OrphanPage,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.run((now.0, self.now(now), page), |conn, (now, alive_at, page), _| {
            Box::pin(async move {
                let sql = concat!(
                    whole!(
                        "FROM (
                         SELECT * FROM runs WHERE status IN ('pending', 'running')
                         UNION ALL
                         SELECT q.* FROM (SELECT DISTINCT org, thread FROM runs
                                          WHERE status = 'queued') t
                         CROSS JOIN LATERAL (SELECT * FROM runs r
                             WHERE r.org = t.org AND r.thread = t.thread"
                    ),
                    turn!(),
                    ") q WHERE q.status = 'queued' AND (q.cancel_requested
                             OR comparable(q.options) -> 'mailbox' IS NULL
                             OR coalesce((comparable(q.options) ->> 'not_before')::bigint <= $1,
                                 true))
                     ) r LEFT JOIN workers w ON w.id = r.worker
                     WHERE (w.id IS NULL OR NOT is_valid_lease(
                             w.renewed_at, w.expires_at, coalesce($2, database_time())))
                         AND ($4::text[] IS NULL OR r.graph = ANY ($4))
                         AND ($5::bigint IS NULL OR (r.created_at, r.number) > ($5, coalesce(
                             (SELECT o.number FROM runs o WHERE o.org = $6 AND o.id = $7), 0)))
                     ORDER BY r.created_at, r.number LIMIT $3"
                );
                let ask = |limit| {
                    let after = page.after.as_ref();
                    let created_at = after.map(|after| after.created_at.0);
                    let org = after.map(|after| text(&after.org));
                    let run = after.map(|after| text(&after.run));
                    let graphs = page.graphs.clone();
                    ask!(sql, *now, *alive_at, int(limit), graphs, created_at, org, run)
                };
                readable(conn, page.limit, ask).await
            })
        })
    }

    fn next_run<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<(Principal, RunRow)>>> {
        self.run((who.org.clone(), thread.clone(), now), |conn, (org, thread, now), _| {
            Box::pin(async move {
                let rows = conn.rows(mailbox::next_run(org, thread, *now)).await?;
                Ok(rows.first().map(mailbox::read_next).transpose()?)
            })
        })
    }

    fn count_activities<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ActivityCounts>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = conn.rows(mailbox::counts(org, thread)).await?;
                Ok(mailbox::read_counts(&rows, thread)?)
            })
        })
    }

    fn to_stop<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<Vec<(OrgId, RunRef)>>> {
        self.run(worker.clone(), |conn, worker, _| {
            Box::pin(async move {
                let sql = "SELECT org, thread, id FROM runs
                           WHERE status IN ('pending', 'running') AND worker = $1
                               AND cancel_requested AND status = 'running'
                           ORDER BY org, thread";
                let rows = conn.rows(ask!(sql, text(worker))).await?;
                let found = rows.iter().map(|row| {
                    let at = At::new("runs", &"a run to stop");
                    let run = RunRef { thread: at.id(row, "thread")?, run: at.id(row, "id")? };
                    Ok((at.id(row, "org")?, run))
                });
                found.collect()
            })
        })
    }
}

impl WriteRuns for PostgresStore {
    fn create_run<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let creation = Creation { who: who.clone(), new: run, answers, worker: None };
        self.run(creation, |conn, creation, before| {
            Box::pin(async move { Ok(create(conn, creation, before).await?.0) })
        })
    }

    fn create_claimed<'a>(
        &'a self,
        who: &'a Principal,
        run: NewRun,
        answers: BTreeMap<InterruptId, Answer>,
        worker: &'a WorkerId,
    ) -> BoxFuture<'a, Result<(RunRow, Option<Claim>)>> {
        let worker = Some(worker.clone());
        let creation = Creation { who: who.clone(), new: run, answers, worker };
        self.run(creation, |conn, creation, before| Box::pin(create(conn, creation, before)))
    }

    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        let claiming = claim::Claiming {
            org: who.org.clone(),
            at: at.clone(),
            worker: worker.clone(),
            now,
            alive_at: self.now(now),
            mark: self.mark(),
        };
        self.run(claiming, |conn, claiming, before| Box::pin(claim::claim(conn, claiming, before)))
    }

    fn commit<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        commit: Commit,
    ) -> BoxFuture<'a, Result<Committed>> {
        let write = Write { org: who.org.clone(), claim: claim.clone(), commit, mark: self.mark() };
        self.run(write, |conn, write, before| Box::pin(commit::commit(conn, write, before)))
    }

    fn release<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<u64>> {
        let org = who.org.clone();
        let claim = claim.clone();
        let release = Release { org, claim, at, mark: self.mark() };
        self.run(release, |conn, release, before| Box::pin(requeue::release(conn, release, before)))
    }

    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let requeue = Requeue { who: who.clone(), at: at.clone(), now, mark: self.mark() };
        self.run(requeue, |conn, requeue, before| Box::pin(requeue::requeue(conn, requeue, before)))
    }

    fn request_cancel<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
    ) -> BoxFuture<'a, Result<()>> {
        self.run((who.org.clone(), at.clone()), |conn, (org, at), _| {
            Box::pin(async move {
                let sql = "UPDATE runs SET cancel_requested = true
                           WHERE org = $1 AND id = $2 AND thread = $3
                             AND status IN ('queued', 'pending', 'running') RETURNING 1";
                let ask = ask!(sql, text(org), text(&at.run), text(&at.thread));
                let changed = conn.write(vec![ask]).await?;
                if changed.iter().all(Vec::is_empty) {
                    return Err(invariants::missing("run", &at.run).into());
                }
                Ok(())
            })
        })
    }
}

/// Returns the first `limit` runs of a query that can be read, each with the principal that created
/// it. A damaged row takes none of the others from the list. `ask` makes the query for a number of
/// rows.
async fn readable(
    conn: &mut Conn,
    limit: usize,
    ask: impl Fn(usize) -> Ask,
) -> Done<Vec<(Principal, RunRow)>> {
    let mut asked = limit;
    loop {
        let rows = conn.rows(ask(asked)).await?;
        let runs = rows.iter().map(|row| Ok((columns::read_creator(row)?, read(row)?)));
        let is_damaged = |run: &Result<_>| matches!(run, Err(StoreError::Corrupt { .. }));
        let found = runs.filter(|run| !is_damaged(run)).take(limit);
        let found = found.collect::<Result<Vec<_>>>()?;
        if found.len() == limit || rows.len() < asked {
            return Ok(found);
        }
        asked = asked.saturating_mul(2);
    }
}

/// Queries the runs of a thread, oldest first; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!("FROM runs r WHERE r.org = $1 AND r.thread = $2 ORDER BY r.number");
    ask!(sql, text(org), text(thread))
}

/// Queries the runs of a thread that have not ended, oldest first; see [`read`].
fn unfinished(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!(
        "FROM runs r WHERE r.org = $1 AND r.thread = $2
             AND r.status IN ('queued', 'pending', 'running') ORDER BY r.number"
    );
    ask!(sql, text(org), text(thread))
}

/// Queries the run of a thread that ended last; see [`read`].
fn last_ended(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!(
        "FROM runs r WHERE r.org = $1 AND r.thread = $2 AND r.ended_at IS NOT NULL
         ORDER BY r.ended_at DESC, r.last_checkpoint DESC NULLS LAST, r.number DESC LIMIT 1"
    );
    ask!(sql, text(org), text(thread))
}

/// Queries a run; see [`read`].
pub(crate) fn one(org: &OrgId, at: &RunRef) -> Ask {
    let sql = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2 AND r.thread = $3");
    ask!(sql, text(org), text(&at.run), text(&at.thread))
}

/// Queries the last run of a thread; see [`named`].
pub(crate) fn last(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id FROM runs WHERE org = $1 AND thread = $2 ORDER BY number DESC LIMIT 1";
    ask!(sql, text(org), text(thread))
}

/// Queries the oldest unfinished run of a thread; see [`read`] and [`named`].
pub(crate) fn open_run(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!(
        "FROM runs r WHERE r.org = $1 AND r.thread = $2
             AND r.status IN ('queued', 'pending', 'running') ORDER BY r.number LIMIT 1"
    );
    ask!(sql, text(org), text(thread))
}

/// Reads the reference to a run from a row.
pub(crate) fn named(row: &Row, thread: &ThreadId) -> Result<RunRef> {
    let name = format!("thread `{thread}`");
    Ok(RunRef { thread: thread.clone(), run: At::new("runs", &name).id(row, "id")? })
}

pub(crate) fn read(row: &Row) -> Result<RunRow> {
    columns::read_run(row)
}
