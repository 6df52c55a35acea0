//! Deletion of old data.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, int, text};
use crate::store::PostgresStore;
use crate::table::threads;
use weftwork_store::Result;
use weftwork_store::{Retention, ThreadRow, Untouched, Waiting};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

/// Builds a query for threads that have not changed for a time.
macro_rules! untouched {
    ($rest:literal) => {
        concat!(
            "SELECT id, graph, status, head, created_at, updated_at, wakes_at, metadata FROM threads
             WHERE org = $1 AND updated_at < $2 AND status NOT IN ('pending', 'running')
                 AND (metadata IS NULL
                     OR comparable(metadata) -> 'weft:instance' IS DISTINCT FROM 'true'
                     OR comparable(metadata) -> 'weft:terminated' = 'true')
                 AND ($3 OR status <> 'interrupted' AND NOT EXISTS (
                     SELECT 1 FROM interrupts i
                     WHERE i.org = threads.org AND i.thread = threads.id
                         AND i.answer IS NULL AND NOT i.closed))
                 AND NOT EXISTS (SELECT 1 FROM runs r
                     WHERE r.org = threads.org AND r.thread = threads.id
                         AND r.status IN ('queued', 'pending', 'running'))
             ORDER BY updated_at, id LIMIT $4",
            $rest
        )
    };
}

impl Retention for PostgresStore {
    fn untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        self.run((who.org.clone(), which), |conn, (org, which), _| {
            Box::pin(async move {
                let rows = conn.rows(asked(untouched!(""), org, *which)).await?;
                rows.iter().map(|row| Ok(threads::read(row)?)).collect()
            })
        })
    }

    fn delete_untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>> {
        self.run((who.org.clone(), which), |conn, (org, which), _| {
            Box::pin(delete_all(conn, org, *which))
        })
    }

    fn drop_events<'a>(
        &'a self,
        who: &'a Principal,
        ended_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>> {
        let args = (who.org.clone(), ended_before.0, int(limit));
        self.run(args, |conn, (org, before, limit), _| {
            Box::pin(drop_events(conn, org, *before, *limit))
        })
    }
}

fn asked(sql: &'static str, org: &OrgId, which: Untouched) -> Ask {
    let waiting = which.waiting == Waiting::Included;
    ask!(sql, text(org), which.before.0, waiting, int(which.limit))
}

/// Deletes threads. If the connection breaks after the deletion took effect, the retry finds no
/// threads, and the deleted ones are not reported.
async fn delete_all(conn: &mut Conn, org: &OrgId, which: Untouched) -> Done<Vec<ThreadId>> {
    // A locked thread is in use.
    let ask = asked(untouched!(" FOR UPDATE SKIP LOCKED"), org, which);
    let found = conn.begin(vec![ask]).await?;
    let mut ids = Vec::new();
    for row in found.iter().flatten() {
        ids.push(threads::read(row)?.id);
    }
    conn.commit(ids.iter().flat_map(|id| threads::removes(org, id)).collect()).await?;
    Ok(ids)
}

/// Deletes events. As with [`delete_all`], a deletion that took effect without a confirmation is not
/// counted.
async fn drop_events(conn: &mut Conn, org: &OrgId, before: i64, limit: i64) -> Done<u64> {
    let old = "SELECT id FROM runs r
               WHERE org = $1 AND ended_at < $2
                   AND (status <> 'failed' OR EXISTS (
                       SELECT 1 FROM runs l
                       WHERE l.org = r.org AND l.thread = r.thread AND l.number > r.number))
                   AND (SELECT min(first_seq) < max(last_seq) FROM events e
                        WHERE e.org = r.org AND e.run = r.id)
               ORDER BY ended_at, id LIMIT $3";
    let found = conn.begin(vec![ask!(old, text(org), before, limit)]).await?;
    let mut runs = Vec::new();
    for row in found.iter().flatten() {
        runs.push(At::new("runs", org).plain::<&str>(row, "id")?.to_owned());
    }
    let drops = "DELETE FROM events e USING (
                     SELECT run, max(last_seq) AS last FROM events
                     WHERE org = $1 AND run = ANY ($2) GROUP BY run) l
                 WHERE e.org = $1 AND e.run = l.run AND e.last_seq < l.last";
    // The last event of the last commit is retained.
    let cuts = "UPDATE events SET first_seq = last_seq,
                    events = '[' || (events::json -> -1)::text || ']'
                WHERE org = $1 AND run = ANY ($2) AND first_seq < last_seq";
    let count = runs.len() as u64;
    conn.commit(vec![ask!(drops, text(org), runs.clone()), ask!(cuts, text(org), runs)]).await?;
    Ok(count)
}
