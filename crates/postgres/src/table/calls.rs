use crate::conn::{Ask, ask};
use crate::row::{At, int, json, text, word};
use crate::store::PostgresStore;
use crate::table::threads;
use tokio_postgres::Row;
use weftwork_store::{JournalRead, Result};
use weftwork_types::port::{CallKey, CallRecord, CallState};
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

/// Builds a query for complete rows.
macro_rules! whole {
    ($rest:literal) => {
        concat!(
            "SELECT key, kind, name, node, step, effect, state, result, made, possibly_paid,
                    reused, opened_at, settled_at FROM calls ",
            $rest
        )
    };
}

impl JournalRead for PostgresStore {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, of_thread(org, thread)).await?;
                rows.iter().map(|row| Ok(read(row, thread)?)).collect()
            })
        })
    }

    fn call<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        key: CallKey,
    ) -> BoxFuture<'a, Result<Option<CallRecord>>> {
        self.run((who.org.clone(), thread.clone(), key), |conn, (org, thread, key), _| {
            Box::pin(async move {
                let sql = whole!("WHERE org = $1 AND thread = $2 AND key = $3");
                let key = key.0.0.to_vec();
                let rows = conn.rows(ask!(sql, text(org), text(thread), key)).await?;
                Ok(rows.first().map(|row| read(row, thread)).transpose()?)
            })
        })
    }
}

/// Queries the calls of a thread, in the order in which they were first recorded; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!("WHERE org = $1 AND thread = $2 ORDER BY number");
    ask!(sql, text(org), text(thread))
}

/// Records a call, or merges it with the existing record, as
/// [`record_call`](weftwork_store::invariants::record_call) does.
pub(crate) fn record(org: &OrgId, thread: &ThreadId, call: &CallRecord) -> Result<Ask> {
    let sql = "INSERT INTO calls AS c (org, thread, key, kind, name, node, step, effect, state,
                   result, made, possibly_paid, reused, opened_at, settled_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
               ON CONFLICT (org, thread, key) DO UPDATE SET
                   state = CASE WHEN c.state = $16 THEN excluded.state ELSE c.state END,
                   result = CASE WHEN c.state = $16 THEN excluded.result ELSE c.result END,
                   settled_at =
                       CASE WHEN c.state = $16 THEN excluded.settled_at ELSE c.settled_at END,
                   made = greatest(c.made, excluded.made),
                   possibly_paid = greatest(c.possibly_paid, excluded.possibly_paid),
                   reused = greatest(c.reused, excluded.reused)";
    Ok(ask!(
        sql,
        text(org),
        text(thread),
        call.key.0.0.to_vec(),
        word(&call.kind)?,
        call.name.clone(),
        call.node.clone(),
        call.step,
        word(&call.effect)?,
        word(&call.state)?,
        call.result.as_ref().map(json).transpose()?,
        int(call.made),
        int(call.possibly_paid),
        int(call.reused),
        call.opened_at.0,
        call.settled_at.map(|at| at.0),
        word(&CallState::Intent)?,
    ))
}

pub(crate) fn read(row: &Row, thread: &ThreadId) -> Result<CallRecord> {
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
        made: at.count(row, "made")?,
        possibly_paid: at.count(row, "possibly_paid")?,
        reused: at.count(row, "reused")?,
        opened_at: Timestamp(at.plain(row, "opened_at")?),
        settled_at: at.plain::<Option<i64>>(row, "settled_at")?.map(Timestamp),
    })
}
