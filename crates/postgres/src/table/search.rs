//! Search for threads.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, int, json, text};
use weftwork_store::columns::{self, ReadableThread};
use weftwork_store::thread::{Direction, ThreadKey};
use weftwork_store::{FoundThread, ThreadPage, ThreadQuery};
use weftwork_types::OrgId;

/// Builds the query of a search, in an order. The status is that of
/// [`ThreadStatus::of`](weftwork_store::ThreadStatus::of).
macro_rules! search {
    ($after:literal, $order:literal, $metadata:literal) => {
        concat!(
            "SELECT id, graph, status, head, created_at, updated_at, wakes_at, metadata,
                 thread_status
             FROM (SELECT t.*, CASE
                       WHEN EXISTS (SELECT 1 FROM runs r
                                    WHERE r.org = t.org AND r.thread = t.id
                                        AND r.status IN ('queued', 'pending', 'running')
                                        AND (r.status <> 'queued'
                                            OR NOT EXISTS (SELECT 1 FROM interrupts i
                                                WHERE i.org = t.org AND i.thread = t.id
                                                    AND i.answer IS NULL AND NOT i.closed)
                                            OR comparable(r.options) -> 'mailbox' IS NULL
                                                AND comparable(r.options) -> 'not_before' IS NULL
                                                AND NOT EXISTS (SELECT 1 FROM runs e
                                                    WHERE e.org = t.org AND e.thread = t.id
                                                        AND e.number < r.number AND e.status
                                                            IN ('queued', 'pending', 'running'))))
                           THEN 'busy'
                       WHEN t.status = 'failed' THEN 'error'
                       WHEN t.status = 'interrupted'
                           OR EXISTS (SELECT 1 FROM interrupts i
                                      WHERE i.org = t.org AND i.thread = t.id
                                          AND i.answer IS NULL AND NOT i.closed)
                           THEN 'interrupted'
                       ELSE 'idle' END AS thread_status
                   FROM threads t WHERE t.org = $1 AND ",
            $after,
            " AND ",
            $metadata,
            ") found
             WHERE ($4::text[] IS NULL OR id = ANY ($4))
                 AND ($5::text IS NULL OR thread_status = $5)
             ORDER BY ",
            $order,
            " LIMIT $6"
        )
    };
}

/// Builds the queries of a search in an order: of any metadata, and of some.
macro_rules! searches {
    ($after:literal, $order:literal) => {
        [
            search!($after, $order, "$7::text IS NULL"),
            search!(
                $after,
                $order,
                "t.metadata IS NOT NULL AND comparable(t.metadata) @> comparable($7)"
            ),
        ]
    };
}

fn queries(by: ThreadKey, direction: Direction) -> [&'static str; 2] {
    use Direction::{Ascending, Descending};
    match (by, direction) {
        (ThreadKey::CreatedAt, Ascending) => {
            searches!("(t.created_at, t.id) > ($2::bigint, $3::text)", "created_at, id")
        }
        (ThreadKey::CreatedAt, Descending) => {
            searches!("(t.created_at, t.id) < ($2::bigint, $3::text)", "created_at DESC, id DESC")
        }
        (ThreadKey::UpdatedAt, Ascending) => {
            searches!("(t.updated_at, t.id) > ($2::bigint, $3::text)", "updated_at, id")
        }
        (ThreadKey::UpdatedAt, Descending) => {
            searches!("(t.updated_at, t.id) < ($2::bigint, $3::text)", "updated_at DESC, id DESC")
        }
        (ThreadKey::Id, Ascending) => {
            searches!("$2::bigint IS NOT NULL AND t.id > $3::text", "id")
        }
        (ThreadKey::Id, Descending) => {
            searches!("$2::bigint IS NOT NULL AND t.id < $3::text", "id DESC")
        }
    }
}

/// Finds the threads of a search.
pub(crate) async fn search(conn: &mut Conn, org: &OrgId, query: &ThreadQuery) -> Done<ThreadPage> {
    let rows = conn.rows(asked(org, query)?).await?;
    let found = rows.iter().map(|row| {
        let ReadableThread { row: thread, damage } = columns::read_readable_thread(row)?;
        let status = At::new("threads", &thread.id).word(row, "thread_status")?;
        Ok(FoundThread { row: thread, status, damage: damage.map(|error| error.fault()) })
    });
    Ok(query.page(found.collect::<Done<_>>()?))
}

fn asked(org: &OrgId, query: &ThreadQuery) -> Done<Ask> {
    let order = query.order();
    let [any, fitting] = queries(order.by, order.direction);
    let metadata = (!query.metadata.is_empty()).then(|| json(&query.metadata)).transpose()?;
    let sql = if metadata.is_some() { fitting } else { any };
    let (time, id) = query.bound();
    let ids: Option<Vec<String>> = query.ids.as_ref().map(|ids| ids.iter().map(text).collect());
    let status = query.status.map(|status| status.word().to_owned());
    let limit = int(query.reads());
    Ok(ask!(sql, text(org), time.0, id.to_owned(), ids, status, limit, metadata))
}
