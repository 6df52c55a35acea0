use crate::conn::ask;
use crate::row::text;
use crate::store::{PostgresStore, Time};
use weftwork_store::WorkerRow;
use weftwork_store::table::{Result, Workers};
use weftwork_types::{BoxFuture, WorkerId};

/// Maximum lease, in milliseconds, so that sums of times do not overflow; more than 8,000 years.
const LEASE_MS_MAX: i64 = 1 << 48;

impl Workers for PostgresStore {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        // The length of the lease is computed by the clock of this process.
        let (expires_at, lease) = match self.time() {
            Time::Caller => (Some(worker.expires_at.0), None),
            Time::Database(clock) => {
                let lease = worker.expires_at.0.saturating_sub(clock.now().0);
                (None, Some(lease.min(LEASE_MS_MAX)))
            }
        };
        self.run((worker, expires_at, lease), |conn, (worker, expires_at, lease), _| {
            Box::pin(async move {
                let sql = "INSERT INTO workers (id, started_at, expires_at)
                           VALUES ($1, $2, coalesce($3, $4 + database_time()))
                           ON CONFLICT (id) DO UPDATE
                           SET started_at = excluded.started_at, expires_at = excluded.expires_at";
                let (id, started) = (text(&worker.id), worker.started_at.0);
                conn.write(vec![ask!(sql, id, started, *expires_at, *lease)]).await?;
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
