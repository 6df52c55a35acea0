use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use crate::table::log::{self, of_runs};
use crate::table::threads;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use weftwork_store::invariants;
use weftwork_store::{JournalRead, Result};
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::{Durability, RunOptions};
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId};

impl JournalRead for SqliteStore {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            of_thread(conn, &org, &thread)
        })
    }

    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.look(move |conn| {
            let sql = of_runs!(
                "calls",
                "org = ?1 AND thread = ?2 AND instr(calls, ?3) > 0 ORDER BY place"
            );
            let wanted = params![org.as_str(), thread.as_str(), key.0.to_string()];
            let rows = row::all(conn, sql, wanted, log::calls)?.into_iter().flatten();
            Ok(rows.filter(|call| call.key == key).reduce(|mut known, now| {
                invariants::record_call(&mut known, now);
                known
            }))
        })
    }

    fn call_since<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
        since: CheckpointId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.look(move |conn| call_since(conn, &org, &thread, key, since))
    }
}

/// Reads the log of a thread backwards to the commit that left a checkpoint as the head.
fn call_since(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    key: CallKey,
    since: CheckpointId,
) -> Done<Option<CallRecord>> {
    let sql = of_runs!(
        "head, options, CASE WHEN instr(calls, ?3) > 0 THEN calls END AS calls",
        "org = ?1 AND thread = ?2 ORDER BY number DESC, place DESC"
    );
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![org.as_str(), thread.as_str(), key.0.to_string()])?;
    let mut found = Vec::new();
    let mut left = None;
    while let Some(row) = rows.next()? {
        let at = At::new("log", thread);
        let run = log::run(at.plain(row, "place")?);
        let head = at.maybe_bits(row, "head")?.map(CheckpointId);
        match left {
            // The run stored its checkpoints at its end, so its calls precede them.
            Some((of, Durability::Exit)) if of != run => break,
            Some((_, Durability::Sync | Durability::Async))
                if head.is_some_and(|head| head != since) =>
            {
                break;
            }
            None if head == Some(since) => {
                left = Some((run, at.json::<RunOptions>(row, "options")?.durability));
            }
            _ => {}
        }
        let calls = log::calls(row)?.into_iter().rev();
        found.extend(calls.filter(|call| call.key == key));
    }
    Ok(found.into_iter().rev().reduce(|mut known, now| {
        invariants::record_call(&mut known, now);
        known
    }))
}

/// Returns the calls of a thread, in the order in which they were first recorded.
pub(crate) fn of_thread(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
) -> Done<Vec<CallRecord>> {
    let sql = of_runs!("calls", "org = ?1 AND thread = ?2 AND calls IS NOT NULL ORDER BY place");
    let rows = row::all(conn, sql, params![org.as_str(), thread.as_str()], log::calls)?;
    let mut calls: Vec<CallRecord> = Vec::new();
    let mut places = BTreeMap::new();
    for call in rows.into_iter().flatten() {
        match places.entry(call.key) {
            Entry::Vacant(new) => {
                new.insert(calls.len());
                calls.push(call);
            }
            Entry::Occupied(known) => {
                if let Some(known) = calls.get_mut(*known.get()) {
                    invariants::record_call(known, call);
                }
            }
        }
    }
    Ok(calls)
}
