use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::{commit, threads};
use rusqlite::{Connection, Row, params};
use weftwork_store::table::{JournalRead, JournalWrite, Result};
use weftwork_store::{Claim, NewCall, OpenedCall, rule};
use weftwork_types::port::{CallKey, CallRecord, CallResult};
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
}

impl JournalWrite for SqliteStore {
    fn open_call<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        call: NewCall,
    ) -> BoxFuture<'a, Result<OpenedCall>> {
        let (org, claim) = (who.org.clone(), claim.clone());
        self.write(move |conn| {
            commit::check(conn, &org, &claim)?;
            let thread = &claim.at.thread;
            let Some(mut known) = find(conn, &org, thread, call.key)? else {
                insert(conn, &org, thread, &rule::first_call(call.clone()))?;
                return Ok(OpenedCall::New);
            };
            let opened = rule::reopen_call(&mut known);
            count(conn, &org, thread, &known)?;
            Ok(opened)
        })
    }

    fn settle_call<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        key: CallKey,
        result: CallResult,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let (org, claim) = (who.org.clone(), claim.clone());
        self.write(move |conn| {
            commit::check(conn, &org, &claim)?;
            let thread = &claim.at.thread;
            let known = find(conn, &org, thread, key)?;
            let mut record = known.ok_or_else(|| rule::missing("call", key.0))?;
            if rule::settle_call(&mut record, result.clone(), at) {
                settle(conn, &org, thread, &record)?;
            }
            Ok(())
        })
    }
}

fn find(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    key: CallKey,
) -> Done<Option<CallRecord>> {
    let sql = "SELECT * FROM calls WHERE org = ?1 AND thread = ?2 AND key = ?3";
    let key = params![org.as_str(), thread.as_str(), key.0.0];
    row::one(conn, sql, key, |row| read(row, thread))
}

fn insert(conn: &Connection, org: &OrgId, thread: &ThreadId, call: &CallRecord) -> Done<()> {
    let sql = "INSERT INTO calls (org, thread, key, kind, name, node, step, effect, state, made,
                   possibly_paid, reused, opened_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
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
        call.made,
        call.possibly_paid,
        call.reused,
        call.opened_at.0,
    ];
    row::execute(conn, sql, values)?;
    Ok(())
}

/// Puts a whole record in.
pub(crate) fn put(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    call: &CallRecord,
) -> Done<()> {
    insert(conn, org, thread, call)?;
    settle(conn, org, thread, call)
}

fn count(conn: &Connection, org: &OrgId, thread: &ThreadId, call: &CallRecord) -> Done<()> {
    let sql = "UPDATE calls SET made = ?4, possibly_paid = ?5, reused = ?6
               WHERE org = ?1 AND thread = ?2 AND key = ?3";
    let (made, paid, reused) = (call.made, call.possibly_paid, call.reused);
    let values = params![org.as_str(), thread.as_str(), call.key.0.0, made, paid, reused];
    row::execute(conn, sql, values)?;
    Ok(())
}

fn settle(conn: &Connection, org: &OrgId, thread: &ThreadId, call: &CallRecord) -> Done<()> {
    let sql = "UPDATE calls SET state = ?4, result = ?5, settled_at = ?6
               WHERE org = ?1 AND thread = ?2 AND key = ?3";
    let values = params![
        org.as_str(),
        thread.as_str(),
        call.key.0.0,
        row::word(&call.state)?,
        call.result.as_ref().map(row::json).transpose()?,
        call.settled_at.map(|at| at.0),
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
