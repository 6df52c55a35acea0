use crate::conn::ask;
use crate::row::text;
use crate::store::{PostgresStore, Time};
use weftwork_store::WorkerRow;
use weftwork_store::{Result, Workers};
use weftwork_types::{BoxFuture, WorkerId};

/// Maximum lease, in milliseconds, so that sums of times do not overflow; more than 8,000 years.
const LEASE_MS_MAX: i64 = 1 << 48;

impl Workers for PostgresStore {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        // The length of the lease is computed by the clock of this process.
        let renewed_at = match self.time() {
            Time::Caller => Some(worker.renewed_at.0),
            Time::Database(_) => None,
        };
        let length = match self.time() {
            Time::Caller => worker.expires_at.0.saturating_sub(worker.renewed_at.0),
            Time::Database(clock) => {
                worker.expires_at.0.saturating_sub(clock.now().0).min(LEASE_MS_MAX)
            }
        };
        self.run((worker.id, renewed_at, length), |conn, (id, renewed_at, length), _| {
            Box::pin(async move {
                let sql = "INSERT INTO workers (id, renewed_at, expires_at)
                           SELECT $1, t.now, t.now + $3
                           FROM (SELECT coalesce($2, database_time()) AS now) t
                           ON CONFLICT (id) DO UPDATE
                           SET renewed_at = excluded.renewed_at, expires_at = excluded.expires_at";
                conn.write(vec![ask!(sql, text(id), *renewed_at, *length)]).await?;
                Ok(())
            })
        })
    }

    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>> {
        self.run(worker.clone(), |conn, worker, _| {
            Box::pin(async move {
                conn.write(vec![ask!("DELETE FROM workers WHERE id = $1", text(worker))]).await?;
                Ok(())
            })
        })
    }
}
