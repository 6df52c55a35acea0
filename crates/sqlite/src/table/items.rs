//! Items: data that is stored beyond threads.

use crate::error::Done;
use crate::row::{self, At};
use crate::store::SqliteStore;
use rusqlite::{Connection, Row, params};
use serde_json::Value;
use std::time::Duration;
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::items::{SWEPT_BY_PUT, Selection, StoredItem, check_value, seal};
use weftwork_store::{
    Item, ItemQuery, ItemRef, ItemTable, Namespace, NamespaceQuery, Prefix, PutOptions, Ttl,
};
use weftwork_types::{BoxFuture, OrgId, Principal, Timestamp};

impl ItemTable for SqliteStore {
    fn item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        let org = who.org.clone();
        let at = at.clone();
        match ttl {
            Ttl::Keep => self.look(move |conn| one(conn, &org, &at, now)),
            Ttl::Refresh => self.write(move |conn| {
                let sql = "UPDATE items SET expires_at = ?4 + min(ttl_ms, ?5)
                           WHERE org = ?1 AND path = ?2 AND key = ?3 AND expires_at > ?4";
                let path = at.namespace().path();
                let key = params![org.as_str(), path, at.key(), now.0, room(now)];
                row::execute(conn, sql, key)?;
                one(conn, &org, &at, now)
            }),
        }
    }

    fn search_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        let org = who.org.clone();
        let within = within.clone();
        let query = query.clone();
        match query.ttl {
            Ttl::Keep => self.read(move |conn| {
                let found = search(conn, &Living { org: &org, within: &within, now }, &query)?;
                Ok(found.into_iter().map(|(_, item)| item).collect())
            }),
            Ttl::Refresh => self.write(move |conn| {
                let found = search(conn, &Living { org: &org, within: &within, now }, &query)?;
                for (number, _) in &found {
                    let sql = "UPDATE items SET expires_at = ?2 + min(ttl_ms, ?3)
                               WHERE number = ?1 AND ttl_ms IS NOT NULL";
                    row::execute(conn, sql, params![number, now.0, room(now)])?;
                }
                Ok(found.into_iter().map(|(_, item)| item).collect())
            }),
        }
    }

    fn item_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        let org = who.org.clone();
        let query = query.clone();
        self.read(move |conn| {
            let (first, end) = query.prefix.prefix().paths();
            let sql = "SELECT DISTINCT path FROM items
                       WHERE org = ?1 AND path >= ?2 AND path < ?3
                           AND (expires_at IS NULL OR expires_at > ?4)";
            let asked = params![org.as_str(), first, end, now.0];
            let mut found = row::all(conn, sql, asked, |row| {
                Ok(columns::read_namespace(&At::new("items", &"the namespace of a row"), row)?)
            })?;
            found.sort_unstable();
            Ok(query.select(found.iter()))
        })
    }

    fn put_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let org = who.org.clone();
        let at = at.clone();
        Box::pin(async move {
            check_value(&at, &value)?;
            let value = row::json(&value)?;
            let indexing = row::json(&options.indexing)?;
            let seal = seal(&org, &at, &value, &indexing);
            let ttl = options.ttl;
            let expires_at = ttl.map(|ttl| now.plus(ttl));
            let times = Times { created_at: now, updated_at: now, expires_at };
            let new = New { at, value, indexing, seal, ttl, times };
            self.write(move |conn| put(conn, &org, &new, now)).await
        })
    }

    fn delete_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>> {
        let org = who.org.clone();
        let at = at.clone();
        self.write(move |conn| {
            let sql = "DELETE FROM items WHERE org = ?1 AND path = ?2 AND key = ?3
                       RETURNING expires_at IS NULL OR expires_at > ?4";
            let key = params![org.as_str(), at.namespace().path(), at.key(), now.0];
            Ok(row::one(conn, sql, key, |row| Ok(row.get(0)?))?.unwrap_or(false))
        })
    }

    fn clear_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        let org = who.org.clone();
        let (first, end) = within.paths();
        self.write(move |conn| {
            let sql = "DELETE FROM items WHERE org = ?1 AND path >= ?2 AND path < ?3
                       RETURNING expires_at IS NULL OR expires_at > ?4";
            let asked = params![org.as_str(), first, end, now.0];
            let lived = row::all(conn, sql, asked, |row| Ok(row.get::<_, bool>(0)?))?;
            row::give_back(conn)?;
            Ok(lived.into_iter().filter(|lived| *lived).count())
        })
    }

    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>> {
        self.write(move |conn| {
            let swept = sweep(conn, limit, now)?;
            row::give_back(conn)?;
            Ok(swept)
        })
    }

    fn stored_items<'a>(
        &'a self,
        who: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>> {
        let org = who.org.clone();
        self.read(move |conn| {
            let sql = "SELECT * FROM items
                       WHERE org = ?1 AND (expires_at IS NULL OR expires_at > ?2)
                       ORDER BY space, number";
            row::all(conn, sql, params![org.as_str(), now.0], read)
        })
    }

    fn put_stored_items<'a>(
        &'a self,
        who: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        let org = who.org.clone();
        self.write(move |conn| {
            sweep(conn, usize::MAX, now)?;
            let mut put = 0;
            for stored in items.iter().filter(|stored| stored.lives(now)) {
                put += usize::from(put_stored(conn, &org, stored, now)?);
            }
            Ok(put)
        })
    }
}

/// An item to be put.
struct New {
    at: ItemRef,
    value: String,
    indexing: String,
    seal: [u8; 8],
    ttl: Option<Duration>,
    times: Times,
}

/// Times of the first and the last put, and of the expiry.
struct Times {
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
}

/// A selection of the unexpired items of an organisation in some namespaces.
struct Living<'a> {
    org: &'a OrgId,
    within: &'a Prefix,
    now: Timestamp,
}

/// Returns the number of milliseconds between a time and the end of the range.
fn room(now: Timestamp) -> i64 {
    i64::MAX.saturating_sub(now.0)
}

fn one(conn: &Connection, org: &OrgId, at: &ItemRef, now: Timestamp) -> Done<Option<Item>> {
    Ok(stored(conn, org, at, now)?.map(|stored| stored.item))
}

fn stored(
    conn: &Connection,
    org: &OrgId,
    at: &ItemRef,
    now: Timestamp,
) -> Done<Option<StoredItem>> {
    let sql = "SELECT * FROM items WHERE org = ?1 AND path = ?2 AND key = ?3
                   AND (expires_at IS NULL OR expires_at > ?4)";
    let asked = params![org.as_str(), at.namespace().path(), at.key(), now.0];
    row::one(conn, sql, asked, read)
}

/// Returns the items selected by a query, with their row numbers. Values are read one at a time, so
/// that only selected ones are held in memory.
fn search(conn: &Connection, living: &Living<'_>, query: &ItemQuery) -> Done<Vec<(i64, Item)>> {
    let of = |number: i64| row::one(conn, "SELECT * FROM items WHERE number = ?1", [number], read);
    let mut found = Vec::new();
    if query.takes_any() {
        for number in numbers(conn, living, row::int(query.limit), row::int(query.offset))? {
            found.extend(of(number)?.map(|stored| ((number, stored), None)));
        }
    } else {
        let mut selection = Selection::new(query);
        for number in numbers(conn, living, -1, 0)? {
            if selection.is_full() {
                break;
            }
            let Some(stored) = of(number)? else { continue };
            if let Some(fit) = selection.judge(&stored.item.value, &stored.indexing) {
                selection.take(fit, (number, stored));
            }
        }
        found = selection.finish();
    }
    let item = |((number, stored), score): ((i64, StoredItem), _)| {
        (number, stored.found(score, query.ttl, living.now))
    };
    Ok(found.into_iter().map(item).collect())
}

/// Returns the numbers of at most `limit` items after skipping `offset`, in the order of the store.
/// A negative limit means no limit.
fn numbers(conn: &Connection, living: &Living<'_>, limit: i64, offset: i64) -> Done<Vec<i64>> {
    let (first, end) = living.within.paths();
    let sql = "SELECT number FROM items
               WHERE org = ?1 AND path >= ?2 AND path < ?3
                   AND (expires_at IS NULL OR expires_at > ?4)
               ORDER BY space, number LIMIT ?5 OFFSET ?6";
    let asked = params![living.org.as_str(), first, end, living.now.0, limit, offset];
    row::all(conn, sql, asked, |row| Ok(row.get(0)?))
}

/// Inserts an item, or updates the existing one.
const PUT: &str = "INSERT INTO items (number, org, path, key, space, value, indexing, ttl_ms,
         created_at, updated_at, expires_at, seal)
     SELECT next, ?1, ?2, ?3, coalesce((
             SELECT space FROM items WHERE org = ?1 AND path = ?2
                 AND (expires_at IS NULL OR expires_at > ?4) LIMIT 1), next),
         ?5, ?6, ?7, ?10, ?11, ?8, ?9
     FROM (SELECT coalesce((SELECT max(number) FROM items), 0) + 1 AS next) WHERE true
     ON CONFLICT (org, path, key) DO UPDATE SET value = excluded.value,
         indexing = excluded.indexing, seal = excluded.seal, ttl_ms = excluded.ttl_ms,
         updated_at = excluded.updated_at, expires_at = excluded.expires_at";

fn put(conn: &Connection, org: &OrgId, new: &New, now: Timestamp) -> Done<()> {
    sweep(conn, SWEPT_BY_PUT, now)?;
    insert(conn, org, new, now)
}

/// Imports an item of another store. Returns `false` if it already exists.
fn put_stored(conn: &Connection, org: &OrgId, item: &StoredItem, now: Timestamp) -> Done<bool> {
    let at = item.checked()?;
    if !item.is_new_beside(stored(conn, org, &at, now)?.as_ref())? {
        return Ok(false);
    }
    let value = row::json(&item.item.value)?;
    let indexing = row::json(&item.indexing)?;
    let seal = seal(org, &at, &value, &indexing);
    let Item { created_at, updated_at, expires_at, .. } = item.item;
    let times = Times { created_at, updated_at, expires_at };
    insert(conn, org, &New { at, value, indexing, seal, ttl: item.ttl, times }, now)?;
    Ok(true)
}

fn insert(conn: &Connection, org: &OrgId, new: &New, now: Timestamp) -> Done<()> {
    let New { at, value, indexing, seal, ttl, times } = new;
    let org = org.as_str();
    let path = at.namespace().path();
    // An expired item has lost its position.
    let sql = "DELETE FROM items WHERE org = ?1 AND path = ?2 AND key = ?3 AND expires_at <= ?4";
    row::execute(conn, sql, params![org, path, at.key(), now.0])?;
    let ttl_ms = ttl.map(|ttl| row::int(ttl.as_millis()));
    let expires_at = times.expires_at.map(|at| at.0);
    let created_at = times.created_at.0;
    let updated_at = times.updated_at.0;
    let values = params![
        org,
        path,
        at.key(),
        now.0,
        value,
        indexing,
        ttl_ms,
        expires_at,
        seal,
        created_at,
        updated_at
    ];
    row::execute(conn, PUT, values)?;
    Ok(())
}

fn sweep(conn: &Connection, limit: usize, now: Timestamp) -> Done<usize> {
    let sql = "DELETE FROM items WHERE number IN (
                   SELECT number FROM items WHERE expires_at <= ?1
                   ORDER BY expires_at, number LIMIT ?2)";
    row::execute(conn, sql, params![now.0, row::int(limit)])
}

pub(crate) fn read(row: &Row<'_>) -> Done<StoredItem> {
    Ok(columns::read_item(row)?)
}

#[cfg(test)]
mod tests {
    use super::PUT;
    use rusqlite::Connection;

    #[test]
    fn a_put_takes_as_long_however_many_items_there_are() -> rusqlite::Result<()> {
        let conn = Connection::open_in_memory()?;
        conn.execute_batch(include_str!("../schema.sql"))?;
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {PUT}"))?;
        let lines = plan.query_map([0; 11], |row| row.get::<_, String>("detail"))?;
        let lines = lines.collect::<rusqlite::Result<Vec<_>>>()?;
        assert!(lines.iter().any(|line| line.starts_with("SEARCH items")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("SCAN items")), "{lines:?}");
        Ok(())
    }
}
