use crate::error::{Done, StoreLocation};
use crate::lock::{Locks, Process};
use crate::row;
use crate::store::SqliteStore;
use rusqlite::{Connection, params};
use weftwork_store::{Result, Workers};
use weftwork_store::{StoreError, WorkerRow};
use weftwork_types::{BoxFuture, Timestamp, WorkerId};

impl Workers for SqliteStore {
    fn keep_alive(&self, worker: WorkerRow) -> BoxFuture<'_, Result<()>> {
        let locks = self.locks();
        if let Err(error) = self.identity().compare() {
            return Box::pin(async { Err(error) });
        }
        self.write(move |conn| {
            // The lock is acquired first, so that the row never exists without it.
            locks.hold(&worker.id)?;
            let sql = "INSERT INTO workers (id, renewed_at, expires_at) VALUES (?1, ?2, ?3)
                       ON CONFLICT (id) DO UPDATE
                           SET renewed_at = excluded.renewed_at, expires_at = excluded.expires_at";
            let renewed = worker.renewed_at.0;
            let expires = worker.expires_at.0;
            row::execute(conn, sql, params![worker.id.as_str(), renewed, expires])?;
            Ok(())
        })
    }

    fn retire<'a>(&'a self, worker: &'a WorkerId) -> BoxFuture<'a, Result<()>> {
        let locks = self.locks();
        let worker = worker.clone();
        self.write(move |conn| delete(conn, &locks, &worker))
    }
}

pub(crate) fn delete(conn: &Connection, locks: &Locks, worker: &WorkerId) -> Done<()> {
    row::execute(conn, "DELETE FROM workers WHERE id = ?1", [worker.as_str()])?;
    // If the transaction is lost, the row remains without a lock, and the lease decides.
    locks.forget(worker)?;
    Ok(())
}

/// Deletes the rows of workers whose processes are dead.
pub(crate) fn bury(conn: &Connection, locks: &Locks, location: &StoreLocation) -> Result<()> {
    for worker in locks.gone()? {
        match delete(conn, locks, &worker).map_err(|fail| location.fail(fail)) {
            // This is only a cleanup: the workers are recognised as dead without it.
            Err(StoreError::Full { .. } | StoreError::Locked { .. }) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// Returns `true` if a worker is registered and lives: by its process if that is known, else by its
/// lease.
pub(crate) fn is_alive(
    conn: &Connection,
    locks: &Locks,
    worker: &WorkerId,
    now: Timestamp,
) -> Done<bool> {
    let sql = "SELECT renewed_at, expires_at FROM workers WHERE id = ?1";
    let registered = row::one(conn, sql, [worker.as_str()], |row| {
        let renewed_at = Timestamp(row.get(0)?);
        Ok(WorkerRow { id: worker.clone(), renewed_at, expires_at: Timestamp(row.get(1)?) })
    })?;
    let Some(registered) = registered else { return Ok(false) };
    Ok(match locks.process(worker) {
        Process::Lives => true,
        Process::Gone => false,
        Process::Unknown => registered.is_valid(now),
    })
}
