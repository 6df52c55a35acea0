use crate::error::Done;
use crate::row;
use crate::store::SqliteStore;
use crate::table::bill;
use crate::table::log::{self, of_runs};
use crate::table::threads;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;
use weftwork_store::UsageRow;
use weftwork_store::columns;
use weftwork_store::{ReadUsage, Result, WriteUsage};
use weftwork_types::{BoxFuture, OrgId, Principal, RunId, ThreadId};

impl ReadUsage for SqliteStore {
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let org = who.org.clone();
        let thread = thread.clone();
        self.read(move |conn| {
            threads::expect(conn, &org, &thread)?;
            of_thread(conn, &org, &thread)
        })
    }

    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let org = who.org.clone();
        let run = run.clone();
        self.read(move |conn| {
            let logged =
                of_runs!("caller, graph, usage", "org = ?1 AND id = ?2 AND usage IS NOT NULL");
            let direct = "SELECT * FROM usage WHERE org = ?1 AND run = ?2";
            both(conn, logged, direct, &[org.as_str(), run.as_str()])
        })
    }
}

impl WriteUsage for SqliteStore {
    fn record_usage<'a>(
        &'a self,
        who: &'a Principal,
        usage: UsageRow,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        self.write(move |conn| record(conn, &org, &usage))
    }
}

/// Returns the usage of a thread's runs, ordered by start time.
pub(crate) fn of_thread(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<Vec<UsageRow>> {
    // `CROSS JOIN` prevents SQLite from scanning all usage of the organisation.
    let direct = "SELECT usage.* FROM runs CROSS JOIN usage
                  WHERE runs.org = ?1 AND runs.thread = ?2
                    AND usage.org = runs.org AND usage.run = runs.id";
    both(conn, LOGGED, direct, &[org.as_str(), thread.as_str()])
}

/// Query for the usage in the logs of a thread's runs.
const LOGGED: &str = of_runs!(
    "caller, graph, usage",
    "org = ?1 AND thread = ?2 AND usage IS NOT NULL ORDER BY place"
);

/// Merges the usage of the logs and of the table, each invocation once, ordered by start time.
fn both(conn: &Connection, logged: &str, direct: &str, key: &[&str; 2]) -> Done<Vec<UsageRow>> {
    let logged = row::all(conn, logged, key, log::usage)?;
    let direct = row::all(conn, direct, key, read)?;
    let mut found: BTreeMap<_, UsageRow> = BTreeMap::new();
    for usage in logged.into_iter().flatten().chain(direct) {
        found.entry(usage.fact.invocation_id.clone()).or_insert(usage);
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|usage| usage.fact.started_at);
    Ok(found)
}

/// Copies the usage in the logs of a thread to the table, where it is retained when the logs are
/// deleted, and from where the rest of it is moved to the bill.
pub(crate) fn outlive(conn: &Connection, org: &OrgId, thread: &ThreadId) -> Done<()> {
    let key = params![org.as_str(), thread.as_str()];
    let logged = row::all(conn, LOGGED, key, log::usage)?;
    logged.iter().flatten().try_for_each(|usage| record(conn, org, usage))?;
    bill::dequeue_logs(conn, org, thread)
}

/// Records a usage fact, unless it is already recorded.
pub(crate) fn record(conn: &Connection, org: &OrgId, usage: &UsageRow) -> Done<()> {
    let sql = "INSERT INTO usage (org, invocation, run, started_at, caller, fact)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (org, invocation) DO NOTHING";
    let values = params![
        org.as_str(),
        usage.fact.invocation_id.as_str(),
        usage.run().map(RunId::as_str),
        usage.fact.started_at.0,
        row::json(&usage.caller)?,
        row::json(&usage.fact)?,
    ];
    match row::execute(conn, sql, values)? {
        0 => Ok(()),
        _ => bill::enqueue(conn, org, &usage.fact.invocation_id),
    }
}

pub(crate) fn read(row: &Row<'_>) -> Done<UsageRow> {
    Ok(columns::read_usage(row)?)
}
