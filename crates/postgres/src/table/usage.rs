use crate::conn::{Ask, ask};
use crate::error::Done;
use crate::row::{json, text};
use crate::store::PostgresStore;
use crate::table::threads;
use tokio_postgres::Row;
use weftwork_store::UsageRow;
use weftwork_store::columns;
use weftwork_store::{ReadUsage, Result, WriteUsage};
use weftwork_types::{BoxFuture, OrgId, Principal, RunId, ThreadId};

impl ReadUsage for PostgresStore {
    fn usage_of_thread<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, of_thread(org, thread)).await?;
                rows.iter().map(read).collect()
            })
        })
    }

    fn usage_of_run<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.run((who.org.clone(), run.clone()), |conn, (org, run), _| {
            Box::pin(async move {
                let sql = "SELECT invocation, caller, fact FROM usage
                           WHERE org = $1 AND run = $2 ORDER BY started_at, invocation";
                let rows = conn.rows(ask!(sql, text(org), text(run))).await?;
                rows.iter().map(read).collect()
            })
        })
    }
}

impl WriteUsage for PostgresStore {
    fn record_usage<'a>(
        &'a self,
        who: &'a Principal,
        usage: UsageRow,
    ) -> BoxFuture<'a, Result<()>> {
        self.run((who.org.clone(), usage), |conn, (org, usage), _| {
            Box::pin(async move {
                conn.write(vec![record(org, usage)?]).await?;
                Ok(())
            })
        })
    }
}

/// Queries the usage of a thread's runs, ordered by start time; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT u.invocation, u.caller, u.fact FROM runs r
               JOIN usage u ON u.org = r.org AND u.run = r.id
               WHERE r.org = $1 AND r.thread = $2
               ORDER BY u.started_at, u.invocation";
    ask!(sql, text(org), text(thread))
}

/// Records a usage fact, unless it is already recorded.
pub(crate) fn record(org: &OrgId, usage: &UsageRow) -> Result<Ask> {
    let sql = "INSERT INTO usage (org, invocation, run, started_at, caller, fact)
               VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (org, invocation) DO NOTHING";
    let invocation = text(&usage.fact.invocation_id);
    let run = usage.run().map(text);
    let caller = json(&usage.caller)?;
    let fact = json(&usage.fact)?;
    Ok(ask!(sql, text(org), invocation, run, usage.fact.started_at.0, caller, fact))
}

pub(crate) fn read(row: &Row) -> Done<UsageRow> {
    Ok(columns::read_usage(row)?)
}
