//! Deletion of old data.

use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use crate::table::threads;
use rusqlite::{Connection, params};
use weftwork_store::Result;
use weftwork_store::{Retention, ThreadRow, Untouched, Waiting};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

impl Retention for SqliteStore {
    fn untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        let org = who.org.clone();
        self.read(move |conn| untouched(conn, &org, which))
    }

    fn delete_untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>> {
        let org = who.org.clone();
        self.write(move |conn| {
            let found = untouched(conn, &org, which)?;
            let ids: Vec<_> = found.into_iter().map(|row| row.id).collect();
            ids.iter().try_for_each(|id| threads::remove(conn, &org, id))?;
            row::give_back(conn)?;
            Ok(ids)
        })
    }

    fn drop_events<'a>(
        &'a self,
        who: &'a Principal,
        ended_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>> {
        let org = who.org.clone();
        self.write(move |conn| drop_events(conn, &org, ended_before, limit))
    }
}

fn untouched(conn: &Connection, org: &OrgId, which: Untouched) -> Done<Vec<ThreadRow>> {
    let sql = "SELECT * FROM threads
               WHERE org = ?1 AND updated_at < ?2 AND status NOT IN ('pending', 'running')
                   AND (NOT coalesce(json_extract(metadata, '$.\"weft:instance\"'), 0)
                       OR coalesce(json_extract(metadata, '$.\"weft:terminated\"'), 0))
                   AND (?3 OR status <> 'interrupted' AND NOT EXISTS (
                       SELECT 1 FROM interrupts i INDEXED BY interrupts_open
                       WHERE i.org = threads.org AND i.thread = threads.id
                           AND i.answer IS NULL AND i.closed = 0))
                   AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_unfinished
                       WHERE r.org = threads.org AND r.thread = threads.id
                           AND r.status IN ('queued', 'pending', 'running'))
               ORDER BY updated_at, id LIMIT ?4";
    let waiting = which.waiting == Waiting::Included;
    let asked = params![org.as_str(), which.before.0, waiting, row::int(which.limit)];
    row::all(conn, sql, asked, threads::read)
}

fn drop_events(conn: &Connection, org: &OrgId, before: Timestamp, limit: usize) -> Done<u64> {
    let sql = "SELECT number, last_seq FROM runs r JOIN log ON place = (
                   SELECT place FROM log
                   WHERE place BETWEEN number << 32 AND (number << 32) + 0xffffffff
                   ORDER BY place DESC LIMIT 1)
               WHERE org = ?1 AND ended_at < ?2 AND events_from < last_seq
                   AND (status <> 'failed' OR EXISTS (
                       SELECT 1 FROM runs l
                       WHERE l.org = r.org AND l.thread = r.thread AND l.number > r.number))
               ORDER BY ended_at, id LIMIT ?3";
    let asked = params![org.as_str(), before.0, row::int(limit)];
    let old = row::all(conn, sql, asked, |row| {
        Ok((row.get::<_, i64>("number")?, row.get::<_, i64>("last_seq")?))
    })?;
    for (run, last) in &old {
        for sql in [
            "UPDATE log SET events = NULL, first_seq = last_seq + 1
             WHERE place BETWEEN ?1 << 32 AND (?1 << 32) + 0xffffffff AND last_seq < ?2",
            "DELETE FROM log
             WHERE place BETWEEN ?1 << 32 AND (?1 << 32) + 0xffffffff AND last_seq < ?2
                 AND calls IS NULL AND usage IS NULL",
            // The last event of the last commit is retained.
            "UPDATE log SET first_seq = last_seq,
                 events = '[' || json_extract(events, '$[#-1]') || ']'
             WHERE place BETWEEN ?1 << 32 AND (?1 << 32) + 0xffffffff
                 AND last_seq = ?2 AND first_seq < last_seq",
            "UPDATE runs SET events_from = ?2 WHERE number = ?1",
        ] {
            row::execute(conn, sql, params![run, last])?;
        }
    }
    row::give_back(conn)?;
    Ok(old.len() as u64)
}
