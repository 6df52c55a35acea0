//! The order of the unfinished runs of a thread.

use crate::conn::{Ask, ask};
use crate::row::{At, text};
use crate::table::runs::{read, whole};
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::{ActivityCounts, NewRun, RunRow, StoreError, mailbox};
use weftwork_types::{OrgId, Principal, RunId, ThreadId, Timestamp};

/// Ends a query for unfinished runs `r` of one thread at the run whose turn it is
/// ([`mailbox::turn`]), at the time `$1`.
macro_rules! turn {
    () => {
        " AND r.status IN ('queued', 'pending', 'running')
          AND (r.status <> 'queued' OR r.cancel_requested
              OR comparable(r.options) -> 'mailbox' IS NULL
              OR NOT EXISTS (SELECT 1 FROM threads i WHERE i.org = r.org AND i.id = r.thread
                  AND comparable(i.metadata) -> 'weft:terminated' = 'true')
              AND ((comparable(r.options) ->> 'deadline')::bigint <= $1
                  OR NOT EXISTS (SELECT 1 FROM interrupts q
                      WHERE q.org = r.org AND q.thread = r.thread
                          AND q.answer IS NULL AND NOT q.closed)))
          ORDER BY r.status = 'queued',
              comparable(r.options) -> 'mailbox' IS NOT NULL
                  AND coalesce((comparable(r.options) ->> 'not_before')::bigint > $1, false),
              -coalesce((comparable(r.options) #>> '{mailbox,priority}')::bigint, 0), r.number
          LIMIT 1"
    };
}

pub(crate) use turn;

/// Queries the run of a thread whose turn it is; see [`read_next`].
pub(crate) fn next_run(org: &OrgId, thread: &ThreadId, now: Timestamp) -> Ask {
    let sql = concat!(whole!("FROM runs r WHERE r.org = $2 AND r.thread = $3"), turn!());
    ask!(sql, now.0, text(org), text(thread))
}

/// Reads a run with the principal that created it.
pub(crate) fn read_next(row: &Row) -> Result<(Principal, RunRow)> {
    Ok((columns::read_creator(row)?, read(row)?))
}

/// Counts the activities of an instance; see [`read_counts`].
pub(crate) fn counts(org: &OrgId, thread: &ThreadId) -> Ask {
    // Of the runs of one activity, the last one has its status.
    let sql = "SELECT status, count(*) AS runs, EXISTS (SELECT 1 FROM interrupts
                   WHERE org = $1 AND thread = $2 AND answer IS NULL AND NOT closed) AS asks
               FROM (SELECT DISTINCT ON (coalesce(comparable(options) #>> '{activity,run}', id)) status
                     FROM runs WHERE org = $1 AND thread = $2
                         AND comparable(options) -> 'mailbox' IS NOT NULL
                     ORDER BY coalesce(comparable(options) #>> '{activity,run}', id), number DESC) last
               GROUP BY status";
    ask!(sql, text(org), text(thread))
}

/// Reads the numbers of activities by status.
pub(crate) fn read_counts(rows: &[Row], thread: &ThreadId) -> Result<ActivityCounts> {
    let name = format!("thread `{thread}`");
    let at = At::new("runs", &name);
    let mut counts = ActivityCounts::default();
    for row in rows {
        counts.add(at.word(row, "status")?, at.count(row, "runs")?);
        counts.asking = u64::from(at.plain::<bool>(row, "asks")?);
    }
    Ok(counts)
}

/// Queries the run that asked an open question of a thread; see [`not_its_turn`].
pub(crate) fn asking(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT run FROM interrupts
               WHERE org = $1 AND thread = $2 AND answer IS NULL AND NOT closed LIMIT 1";
    ask!(sql, text(org), text(thread))
}

/// Returns the error for a claim of an activity while its mailbox lets none begin.
pub(crate) fn not_its_turn(thread: &ThreadId, asking: Option<&Row>) -> Result<StoreError> {
    let at = At::new("interrupts", thread);
    let asking = asking.map(|row| at.id::<RunId>(row, "run")).transpose()?;
    Ok(mailbox::not_its_turn(thread, asking.as_ref()))
}

/// Queries the oldest unfinished run that delays a new one; see [`mailbox::delays`].
pub(crate) fn delaying(org: &OrgId, new: &NewRun) -> Ask {
    let sql = whole!(
        "FROM runs r WHERE r.org = $1 AND r.thread = $2
             AND r.status IN ('queued', 'pending', 'running')
             AND ($3 OR r.status <> 'queued'
                 OR NOT $4 AND comparable(r.options) -> 'mailbox' IS NULL)
         ORDER BY r.number LIMIT 1"
    );
    ask!(sql, text(org), text(&new.at.thread), new.is_sent(), new.continues())
}

/// Queries what decides if an instance takes a run; see [`check`].
pub(crate) fn state(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = "SELECT metadata, (SELECT count(*) FROM runs r WHERE r.org = $1 AND r.thread = $2
                   AND r.status IN ('queued', 'pending', 'running')) AS unfinished
               FROM threads WHERE org = $1 AND id = $2";
    ask!(sql, text(org), text(thread))
}

/// Checks the instance of a new run; see [`mailbox::check_mailbox`].
pub(crate) fn check(new: &NewRun, state: Option<&Row>) -> Result<()> {
    let at = At::new("threads", &new.at.thread);
    let metadata = state.map(|row| at.maybe_json(row, "metadata")).transpose()?;
    let metadata = metadata.map(Option::unwrap_or_default);
    let unfinished = state.map(|row| at.count(row, "unfinished")).transpose()?.unwrap_or(0);
    let unfinished = usize::try_from(unfinished).unwrap_or(usize::MAX);
    mailbox::check_mailbox(new, metadata.as_ref(), unfinished)
}
