use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::threads;
use rusqlite::{Connection, Row, params};
use weftwork_store::table::{JournalRead, Result};
use weftwork_types::port::{CallKey, CallRecord, CallState};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

impl JournalRead for SqliteStore {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        let (org, thread) = (who.org.clone(), thread.clone());
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            let sql = "SELECT * FROM calls WHERE org = ?1 AND thread = ?2 ORDER BY rowid";
            row::all(conn, sql, params![org.as_str(), thread.as_str()], |row| read(row, &thread))
        })
    }

    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        let (org, thread) = (who.org.clone(), thread.clone());
        self.look(move |conn| {
            let sql = "SELECT * FROM calls WHERE org = ?1 AND thread = ?2 AND key = ?3";
            let key = params![org.as_str(), thread.as_str(), key.0.0];
            row::one(conn, sql, key, |row| read(row, &thread))
        })
    }
}

/// Puts a call on record, or brings one that is there up to date, as
/// [`record_call`](weftwork_store::rule::record_call) does.
pub(crate) fn record(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    call: &CallRecord,
) -> Done<()> {
    let sql = "INSERT INTO calls (org, thread, key, kind, name, node, step, effect, state, result,
                   made, possibly_paid, reused, opened_at, settled_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
               ON CONFLICT (org, thread, key) DO UPDATE SET
                   state = iif(state = ?16, excluded.state, state),
                   result = iif(state = ?16, excluded.result, result),
                   settled_at = iif(state = ?16, excluded.settled_at, settled_at),
                   made = max(made, excluded.made),
                   possibly_paid = max(possibly_paid, excluded.possibly_paid),
                   reused = max(reused, excluded.reused)";
    let values = params![
        org.as_str(),
        thread.as_str(),
        call.key.0.0,
        row::word(&call.kind)?,
        call.name,
        call.node,
        call.step,
        row::word(&call.effect)?,
        row::word(&call.state)?,
        call.result.as_ref().map(row::json).transpose()?,
        call.made,
        call.possibly_paid,
        call.reused,
        call.opened_at.0,
        call.settled_at.map(|at| at.0),
        row::word(&CallState::Intent)?,
    ];
    row::execute(conn, sql, values)?;
    Ok(())
}

pub(crate) fn read(row: &Row<'_>, thread: &ThreadId) -> Done<CallRecord> {
    let name = format!("thread `{thread}`");
    let key = At::new("calls", &name).hash(row, "key")?;
    let name = format!("thread `{thread}`, call `{key}`");
    let at = At::new("calls", &name);
    Ok(CallRecord {
        key: CallKey(key),
        kind: at.word(row, "kind")?,
        name: at.plain(row, "name")?,
        node: at.plain(row, "node")?,
        step: at.plain(row, "step")?,
        effect: at.word(row, "effect")?,
        state: at.word(row, "state")?,
        result: at.maybe_json(row, "result")?,
        made: at.plain(row, "made")?,
        possibly_paid: at.plain(row, "possibly_paid")?,
        reused: at.plain(row, "reused")?,
        opened_at: Timestamp(at.plain(row, "opened_at")?),
        settled_at: at.plain::<Option<i64>>(row, "settled_at")?.map(Timestamp),
    })
}
