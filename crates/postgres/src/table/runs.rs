use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, int, json, text, word};
use crate::store::PostgresStore;
use crate::table::back::{self, Release, Requeue};
use crate::table::commit::{self, Write};
use crate::table::{interrupts, threads};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::table::{ReadRuns, Result, WriteRuns};
use weftwork_store::{Claim, Commit, Committed, NewRun, RunRow, StoreError, rule};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{RunRef, RunStatus};
use weftwork_types::{
    BoxFuture, InterruptId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

/// A query for whole rows.
macro_rules! whole {
    ($rest:literal) => {
        concat!(
            "SELECT r.org, r.id, r.thread, r.subject, r.graph, r.caller, r.input, r.options,
                    r.created_at, r.status, r.worker, r.fence, r.outcome, r.ended_at,
                    r.cancel_requested ",
            $rest
        )
    };
}

impl ReadRuns for PostgresStore {
    fn run<'a>(&'a self, who: &'a Principal, at: &'a RunRef) -> BoxFuture<'a, Result<RunRow>> {
        self.run((who.org.clone(), at.clone()), |conn, (org, at), _| {
            Box::pin(async move {
                let rows = conn.rows(one(org, at)).await?;
                let row = rows.first().ok_or_else(|| rule::missing("run", &at.run))?;
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

    fn find_run<'a>(&'a self, who: &'a Principal, id: &'a RunId) -> BoxFuture<'a, Result<RunRow>> {
        self.run((who.org.clone(), id.clone()), |conn, (org, id), _| {
            Box::pin(async move {
                let sql = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2");
                let rows = conn.rows(ask!(sql, text(org), text(id))).await?;
                Ok(read(rows.first().ok_or_else(|| rule::missing("run", id))?)?)
            })
        })
    }

    fn due(
        &self,
        now: Timestamp,
        graphs: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.run((now.0, graphs, int(limit)), |conn, (now, graphs, limit), _| {
            Box::pin(async move {
                let sql = whole!(
                    "FROM threads t JOIN runs r ON r.org = t.org AND r.thread = t.id
                         AND r.number = (SELECT max(l.number) FROM runs l
                                         WHERE l.org = t.org AND l.thread = t.id)
                     WHERE t.wakes_at <= $1 AND t.graph = ANY ($2)
                     ORDER BY t.wakes_at, t.org, t.id LIMIT $3"
                );
                let rows = conn.rows(ask!(sql, *now, graphs.clone(), *limit)).await?;
                rows.iter().map(|row| Ok((made_by(row)?, read(row)?))).collect()
            })
        })
    }

    fn orphans(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Principal, RunRow)>>> {
        self.run((self.now(now), int(limit)), |conn, (now, limit), _| {
            Box::pin(async move {
                let sql = whole!(
                    "FROM runs r LEFT JOIN workers w ON w.id = r.worker
                     WHERE r.status IN ('pending', 'running')
                         AND (w.id IS NULL OR w.expires_at <= coalesce($1, database_time()))
                     ORDER BY r.created_at, r.number LIMIT $2"
                );
                let rows = conn.rows(ask!(sql, *now, *limit)).await?;
                rows.iter().map(|row| Ok((made_by(row)?, read(row)?))).collect()
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
        self.run((who.clone(), run, answers), |conn, (who, run, answers), _| {
            Box::pin(create(conn, who, run, answers))
        })
    }

    fn claim<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        worker: &'a WorkerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(Claim, RunRow)>> {
        let taking = Taking {
            org: who.org.clone(),
            at: at.clone(),
            worker: worker.clone(),
            now,
            alive_at: self.now(now),
            mark: self.mark(),
        };
        self.run(taking, |conn, taking, before| Box::pin(take(conn, taking, before)))
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
        let (org, claim) = (who.org.clone(), claim.clone());
        let release = Release { org, claim, at, mark: self.mark() };
        self.run(release, |conn, release, before| Box::pin(back::release(conn, release, before)))
    }

    fn requeue<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a RunRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<RunRow>> {
        let requeue = Requeue { who: who.clone(), at: at.clone(), now, mark: self.mark() };
        self.run(requeue, |conn, requeue, before| Box::pin(back::requeue(conn, requeue, before)))
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
                             AND status IN ('pending', 'running') RETURNING 1";
                let ask = ask!(sql, text(org), text(&at.run), text(&at.thread));
                let changed = conn.write(vec![ask]).await?;
                if changed.iter().all(Vec::is_empty) {
                    return Err(rule::missing("run", &at.run).into());
                }
                Ok(())
            })
        })
    }
}

/// Finds the runs of a thread, oldest first; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!("FROM runs r WHERE r.org = $1 AND r.thread = $2 ORDER BY r.number");
    ask!(sql, text(org), text(thread))
}

/// Finds a run; see [`read`].
pub(crate) fn one(org: &OrgId, at: &RunRef) -> Ask {
    let sql = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2 AND r.thread = $3");
    ask!(sql, text(org), text(&at.run), text(&at.thread))
}

/// Finds the last run of a thread; see [`named`].
pub(crate) fn last(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id FROM runs WHERE org = $1 AND thread = $2 ORDER BY number DESC LIMIT 1";
    ask!(sql, text(org), text(thread))
}

/// A claim about to be made.
#[derive(Debug)]
struct Taking {
    org: OrgId,
    at: RunRef,
    worker: WorkerId,
    now: Timestamp,
    /// When the holder must be alive; by the clock of the database when none.
    alive_at: Option<i64>,
    mark: Vec<u8>,
}

async fn take(conn: &mut Conn, taking: &Taking, before: Before) -> Done<(Claim, RunRow)> {
    let Taking { org, at, worker, now, alive_at, mark } = taking;
    let sql = whole!(
        ", coalesce(w.expires_at > coalesce($4, database_time()), false) AS alive
         FROM runs r LEFT JOIN workers w ON w.id = r.worker
         WHERE r.org = $1 AND r.id = $2 AND r.thread = $3"
    );
    let ask = ask!(sql, text(org), text(&at.run), text(&at.thread), *alive_at);
    let found = conn.begin(vec![threads::lock(org, &at.thread), ask]).await?;
    let [Some(thread), Some(row)] = found.iter().map(|rows| rows.first()).collect::<Vec<_>>()[..]
    else {
        return Err(rule::missing("run", &at.run).into());
    };
    let place = At::new("runs", &at.run);
    let mut run = read(row)?;
    let claim = |fence| Claim { at: at.clone(), worker: worker.clone(), fence };
    if before == Before::Doubt && place.plain::<Option<&[u8]>>(thread, "mark")? == Some(mark) {
        return Ok((claim(run.fence), run));
    }
    if run.status.is_final() {
        return Err(rule::missing("run", &at.run).into());
    }
    if place.plain(row, "alive")? {
        return Err(rule::busy(at).into());
    }
    run.status = RunStatus::Running;
    run.worker = Some(worker.clone());
    run.fence += 1;
    let status = word(&run.status)?;
    let taken = "UPDATE runs SET status = $3, worker = $4, fence = $5 WHERE org = $1 AND id = $2";
    let follows = "UPDATE threads SET status = $3, updated_at = $4, mark = $5
                   WHERE org = $1 AND id = $2";
    let fence = int(run.fence);
    conn.commit(vec![
        ask!(taken, text(org), text(&at.run), status.clone(), text(worker), fence),
        ask!(follows, text(org), text(&at.thread), status, now.0, mark.clone()),
    ])
    .await?;
    Ok((claim(run.fence), run))
}

async fn create(
    conn: &mut Conn,
    who: &Principal,
    new: &NewRun,
    answers: &BTreeMap<InterruptId, Answer>,
) -> Done<RunRow> {
    let (org, thread) = (&who.org, &new.at.thread);
    let key = new.options.idempotency_key.clone();
    let by_key = whole!("FROM runs r WHERE r.org = $1 AND r.idempotency_key = $2");
    let by_id = whole!("FROM runs r WHERE r.org = $1 AND r.id = $2");
    let found = conn
        .begin(vec![
            threads::lock(org, thread),
            // Before the keys: a thread without a row has no lock, and a run of ours that another
            // makes right now must not be seen here and missed there.
            open_run(org, thread),
            interrupts::asked(org, thread, answers.keys()),
            ask!(by_key, text(org), key),
            ask!(by_id, text(org), text(&new.at.run)),
        ])
        .await?;
    let [_, open, asked, by_key, by_id] = found.as_slice() else {
        return Err(At::new("runs", &new.at.run).corrupt("an answer is missing").into());
    };
    if let Some(row) = earlier(new, by_key.first(), by_id.first())? {
        return Ok(row);
    }
    if let Some(open) = open.first() {
        return Err(rule::busy(&named(open, thread)?).into());
    }
    interrupts::check(thread, answers, asked)?;
    let mut asks = interrupts::answer(org, thread, answers)?;
    asks.extend(inserts(who, new)?);
    conn.commit(asks).await?;
    Ok(RunRow {
        new: new.clone(),
        status: RunStatus::Pending,
        worker: None,
        fence: 0,
        outcome: None,
        ended_at: None,
        cancel_requested: false,
    })
}

/// The run of an earlier request under the same key or run id.
fn earlier(new: &NewRun, by_key: Option<&Row>, by_id: Option<&Row>) -> Result<Option<RunRow>> {
    if let (Some(key), Some(row)) = (&new.options.idempotency_key, by_key) {
        let row = read(row)?;
        let same = rule::same_request(&row.new, new);
        return if same { Ok(Some(row)) } else { Err(rule::key_reused(key)) };
    }
    match by_id.map(read).transpose()? {
        Some(row) if !rule::same_request(&row.new, new) => Err(rule::run_id_reused(&new.at)),
        found => Ok(found),
    }
}

fn inserts(who: &Principal, new: &NewRun) -> Result<[Ask; 2]> {
    let (org, thread) = (text(&who.org), text(&new.at.thread));
    let (created_at, status) = (new.created_at.0, word(&RunStatus::Pending)?);
    let follows = "INSERT INTO threads AS t (org, id, graph, status, seq, created_at, updated_at)
                   VALUES ($1, $2, $3, $4, 0, $5, $5)
                   ON CONFLICT (org, id) DO UPDATE SET graph = excluded.graph,
                       status = excluded.status, seq = 0, updated_at = excluded.updated_at,
                       wakes_at = NULL";
    let made = "INSERT INTO runs (org, id, thread, subject, graph, caller, input, options,
                    idempotency_key, created_at, status, fence, cancel_requested)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, false)";
    Ok([
        ask!(follows, org.clone(), thread.clone(), new.graph.clone(), status.clone(), created_at),
        ask!(
            made,
            org,
            text(&new.at.run),
            thread,
            who.subject.clone(),
            new.graph.clone(),
            json(&new.caller)?,
            json(&new.input)?,
            json(&new.options)?,
            new.options.idempotency_key.clone(),
            created_at,
            status,
        ),
    ])
}

/// Finds the unfinished run of a thread; see [`named`].
pub(crate) fn open_run(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT id FROM runs
               WHERE org = $1 AND thread = $2 AND status IN ('pending', 'running')";
    ask!(sql, text(org), text(thread))
}

/// The run that a row names.
pub(crate) fn named(row: &Row, thread: &ThreadId) -> Result<RunRef> {
    let name = format!("thread `{thread}`");
    Ok(RunRef { thread: thread.clone(), run: At::new("runs", &name).id(row, "id")? })
}

fn name(row: &Row) -> Result<String> {
    Ok(format!("run `{}`", At::new("runs", &"a row").plain::<&str>(row, "id")?))
}

pub(crate) fn made_by(row: &Row) -> Result<Principal> {
    let name = name(row)?;
    let at = At::new("runs", &name);
    Ok(Principal { org: at.id(row, "org")?, subject: at.plain(row, "subject")? })
}

pub(crate) fn read(row: &Row) -> std::result::Result<RunRow, StoreError> {
    let name = name(row)?;
    let at = At::new("runs", &name);
    Ok(RunRow {
        new: NewRun {
            at: RunRef { thread: at.id(row, "thread")?, run: at.id(row, "id")? },
            graph: at.plain(row, "graph")?,
            caller: at.json(row, "caller")?,
            input: at.json(row, "input")?,
            options: at.json(row, "options")?,
            created_at: Timestamp(at.plain(row, "created_at")?),
        },
        status: at.word(row, "status")?,
        worker: at.maybe_id(row, "worker")?,
        fence: at.count(row, "fence")?,
        outcome: at.maybe_json(row, "outcome")?,
        ended_at: at.plain::<Option<i64>>(row, "ended_at")?.map(Timestamp),
        cancel_requested: at.plain(row, "cancel_requested")?,
    })
}
