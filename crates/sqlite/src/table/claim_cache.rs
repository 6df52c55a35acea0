//! The run state that a commit needs: the validity of its claim, and the end of its log.
//!
//! Querying it takes a third of the time of a small commit. Each commit therefore caches the state
//! in which it leaves its run. The cache is valid as long as nothing else was written to the file,
//! by this connection or by any other connection of any process.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::compact::Payer;
use crate::table::log::End;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_store::Claim;
use weftwork_store::invariants::{self, Holder};
use weftwork_types::run::RunStatus;
use weftwork_types::{OrgId, RunId, WorkerId};

/// The state of a run that a write needs.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) end: End,
    pub(crate) payer: Payer,
    /// `true` if the thread has open questions.
    pub(crate) asks: bool,
    pub(crate) cancel_requested: bool,
}

/// The name of a run in errors, which is only formatted if there is one: every commit reads this row.
struct RunName<'a>(&'a str);

impl std::fmt::Display for RunName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "run `{}`", self.0)
    }
}

/// Loads the state of a run and checks that the claim is the newest.
pub(crate) fn check(conn: &Connection, org: &OrgId, claim: &Claim) -> Done<Held> {
    let sql = "SELECT number, status, worker, fence, cancel_requested, caller, graph,
                   place, last_seq,
                   EXISTS (SELECT 1 FROM interrupts asked
                           WHERE asked.org = runs.org AND asked.thread = runs.thread
                               AND answer IS NULL AND closed = 0) AS asks
               FROM runs LEFT JOIN log ON place = (
                   SELECT place FROM log
                   WHERE place BETWEEN number << 32 AND (number << 32) + 0xffffffff
                   ORDER BY place DESC LIMIT 1)
               WHERE org = ?1 AND id = ?2 AND thread = ?3";
    let run = claim.at.run.as_str();
    let thread = claim.at.thread.as_str();
    let name = RunName(run);
    let held = row::one(conn, sql, params![org.as_str(), run, thread], |row| {
        let at = At::new("runs", &name);
        let holder: Option<String> = at.plain(row, "worker")?;
        let worker: Option<WorkerId> = holder.map(|_| at.id(row, "worker")).transpose()?;
        let status: RunStatus = at.word(row, "status")?;
        let fence = at.plain(row, "fence")?;
        invariants::check_claim(claim, Holder { status, worker: worker.as_ref(), fence })?;
        let position: Option<i64> = at.plain(row, "place")?;
        let seq = position.map(|_| at.plain(row, "last_seq")).transpose()?;
        Ok(Held {
            end: End::of(at.plain(row, "number")?, position.zip(seq)),
            payer: Payer::read(&at, row)?,
            asks: at.plain(row, "asks")?,
            cancel_requested: at.plain(row, "cancel_requested")?,
        })
    })?;
    Ok(held.ok_or_else(|| invariants::missing("run", run))?)
}

/// A cache of the states of unfinished runs after their last commits.
#[derive(Debug, Default)]
pub(crate) struct ClaimCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of rows that this connection had written after the last commit; `None` while a commit
    /// is in progress.
    ours: Option<u64>,
    /// Data version, which changes with each commit of another connection.
    others: i64,
    runs: BTreeMap<RunId, Entry>,
}

#[derive(Debug)]
struct Entry {
    org: OrgId,
    claim: Claim,
    held: Held,
    /// `true` once the transaction of the commit was committed, which happens after `put`.
    stands: bool,
}

impl ClaimCache {
    /// Takes the cached state of a run, if it is still valid; its claim is then the newest.
    pub(crate) fn take(&self, conn: &Connection, org: &OrgId, claim: &Claim) -> Done<Option<Held>> {
        // Both values are read within the transaction.
        let others = row::one(conn, "PRAGMA data_version", [], |row| Ok(row.get(0)?))?;
        let ours = conn.total_changes();
        let others = others.unwrap_or_default();
        let mut state = self.state();
        if (state.ours.take(), state.others) != (Some(ours), others) {
            state.runs.clear();
        }
        state.others = others;
        let entry = state.runs.remove(&claim.at.run);
        let same = |entry: &Entry| entry.stands && entry.org == *org && entry.claim == *claim;
        Ok(entry.filter(same).map(|entry| entry.held))
    }

    /// Caches the state of a run after the last write of its commit, unless the run has ended.
    pub(crate) fn put(&self, conn: &Connection, org: &OrgId, claim: &Claim, held: Option<Held>) {
        let mut state = self.state();
        state.ours = Some(conn.total_changes());
        let Some(held) = held else { return };
        let org = org.clone();
        let claim = claim.clone();
        state.runs.insert(claim.at.run.clone(), Entry { org, claim, held, stands: false });
    }

    /// Confirms that the commit that left the log of its run at this place was committed.
    pub(crate) fn stands(&self, run: &RunId, position: i64) {
        if let Some(entry) = self.state().runs.get_mut(run) {
            entry.stands |= entry.held.end.position == position;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
