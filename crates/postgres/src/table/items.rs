//! Items: data that is stored beyond threads.

use crate::conn::{Ask, Conn, ask};
use crate::error::Done;
use crate::row::{At, int, json, text};
use crate::store::PostgresStore;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use weftwork_store::Result;
use weftwork_store::columns;
use weftwork_store::items::{SWEPT_BY_PUT, Selection, StoredItem, check_value, seal};
use weftwork_store::{
    Item, ItemQuery, ItemRef, ItemTable, Namespace, NamespaceQuery, Prefix, PutOptions, Ttl,
};
use weftwork_types::{BoxFuture, OrgId, Principal, Timestamp};

/// Number of values that are read at once.
const PAGE: usize = 64;

/// Columns of an item that are read.
macro_rules! columns {
    () => {
        "org, number, path, key, value, indexing, seal, ttl_ms, created_at, updated_at, expires_at"
    };
}

/// Builds a query for unexpired items of an organisation in some namespaces.
macro_rules! living {
    ($columns:expr, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM items WHERE org = $1 AND path >= $2 AND path < $3
                  AND (expires_at IS NULL OR expires_at > $4) ",
            $rest
        )
    };
}

impl ItemTable for PostgresStore {
    fn item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        self.run((who.org.clone(), at.clone(), ttl, now), |conn, (org, at, ttl, now), _| {
            Box::pin(async move {
                let key = (text(org), at.namespace().path(), at.key().to_owned());
                let sql = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM items WHERE org = $1 AND path = $2 AND key = $3
                          AND (expires_at IS NULL OR expires_at > $4)"
                );
                let look = ask!(sql, key.0.clone(), key.1.clone(), key.2.clone(), now.0);
                let rows = match ttl {
                    Ttl::Keep => conn.rows(look).await?,
                    Ttl::Refresh => {
                        let sql = "UPDATE items SET expires_at = $4 + least(ttl_ms, $5)
                                   WHERE org = $1 AND path = $2 AND key = $3 AND expires_at > $4";
                        let lives = ask!(sql, key.0, key.1, key.2, now.0, room(*now));
                        conn.write(vec![lives, look]).await?.pop().unwrap_or_default()
                    }
                };
                rows.first().map(|row| Ok(read(row)?.item)).transpose()
            })
        })
    }

    fn search_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        let search =
            Search { org: who.org.clone(), paths: within.paths(), query: query.clone(), now };
        self.run(search, |conn, search, _| Box::pin(search.run(conn)))
    }

    fn item_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        self.run((who.org.clone(), query.clone(), now), |conn, (org, query, now), _| {
            Box::pin(async move {
                let (first, end) = query.prefix.prefix().paths();
                let sql = living!("DISTINCT path", "");
                let rows = conn.rows(ask!(sql, text(org), first, end, now.0)).await?;
                let at = At::new("items", &"the namespace of a row");
                let found: Result<Vec<_>> =
                    rows.iter().map(|row| columns::read_namespace(&at, row)).collect();
                let mut found = found?;
                found.sort_unstable();
                Ok(query.select(found.iter()))
            })
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
            let new = New { at, value: json(&value)?, options };
            let put = self.run((org, new, now), |conn, (org, new, now), _| {
                Box::pin(async move {
                    conn.write(vec![new.put(org, *now)?]).await?;
                    Ok(())
                })
            });
            put.await
        })
    }

    fn delete_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>> {
        self.run((who.org.clone(), at.clone(), now), |conn, (org, at, now), _| {
            Box::pin(async move {
                let sql = "DELETE FROM items WHERE org = $1 AND path = $2 AND key = $3
                           RETURNING expires_at IS NULL OR expires_at > $4 AS lived";
                let path = at.namespace().path();
                let key = at.key().to_owned();
                let rows = conn.write(vec![ask!(sql, text(org), path, key, now.0)]).await?;
                let lived = rows.first().and_then(|rows| rows.first());
                let lived = lived.map(|row| At::new("items", &at.key()).plain(row, "lived"));
                Ok(lived.transpose()?.unwrap_or(false))
            })
        })
    }

    fn clear_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        self.run((who.org.clone(), within.paths(), now), |conn, (org, paths, now), _| {
            Box::pin(async move {
                let sql = "WITH gone AS (
                               DELETE FROM items WHERE org = $1 AND path >= $2 AND path < $3
                               RETURNING expires_at IS NULL OR expires_at > $4 AS lived)
                           SELECT count(*) FILTER (WHERE lived) AS lived FROM gone";
                let (first, end) = paths.clone();
                let rows = conn.write(vec![ask!(sql, text(org), first, end, now.0)]).await?;
                let lived = rows.first().and_then(|rows| rows.first());
                let at = At::new("items", &"those that were removed");
                Ok(lived.map(|row| at.count(row, "lived")).transpose()?.unwrap_or(0))
            })
        })
    }

    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>> {
        self.run((int(limit), now.0), |conn, (limit, now), _| {
            Box::pin(async move {
                // Rows that another transaction has locked are skipped.
                let sql = "DELETE FROM items WHERE number IN (
                               SELECT number FROM items WHERE expires_at <= $1
                               ORDER BY expires_at, number LIMIT $2 FOR UPDATE SKIP LOCKED)
                           RETURNING number";
                let rows = conn.write(vec![ask!(sql, *now, *limit)]).await?;
                Ok(rows.first().map_or(0, Vec::len))
            })
        })
    }

    fn stored_items<'a>(
        &'a self,
        who: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>> {
        self.run((who.org.clone(), now), |conn, (org, now), _| {
            Box::pin(async move {
                let sql = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM items WHERE org = $1 AND (expires_at IS NULL OR expires_at > $2)
                      ORDER BY space, number"
                );
                let rows = conn.rows(ask!(sql, text(org), now.0)).await?;
                Ok(rows.iter().map(read).collect::<Result<_>>()?)
            })
        })
    }

    fn put_stored_items<'a>(
        &'a self,
        who: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        self.run((who.org.clone(), items, now), |conn, (org, items, now), _| {
            Box::pin(async move {
                let living = items.iter().filter(|stored| stored.lives(*now));
                let named = living.map(|stored| Ok((stored.checked()?, stored)));
                let named: Vec<(ItemRef, &StoredItem)> = named.collect::<Result<_>>()?;
                let (paths, keys): (Vec<_>, Vec<_>) = named
                    .iter()
                    .map(|(at, _)| (at.namespace().path(), at.key().to_owned()))
                    .unzip();
                // The lock excludes other writers.
                let alone = ask!("LOCK TABLE items IN SHARE ROW EXCLUSIVE MODE");
                let sweep = ask!("DELETE FROM items WHERE expires_at <= $1", now.0);
                let same = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM items WHERE org = $1
                          AND (path, key) IN (SELECT * FROM unnest($2::text[], $3::text[]))"
                );
                let same = ask!(same, text(org), paths, keys);
                let begun = conn.begin(vec![alone, sweep, same]).await?;
                let there = begun.last().into_iter().flatten().map(|row| {
                    let stored = read(row)?;
                    Ok((ItemRef::new(stored.item.namespace.clone(), &*stored.item.key)?, stored))
                });
                let mut known: BTreeMap<ItemRef, StoredItem> = there.collect::<Result<_>>()?;
                let mut asks = Vec::new();
                for (at, stored) in named {
                    if stored.is_new_beside(known.get(&at))? {
                        asks.push(put_stored(org, &at, stored)?);
                        known.insert(at, stored.clone());
                    }
                }
                let put = asks.len();
                conn.commit(asks).await?;
                Ok(put)
            })
        })
    }
}

/// Imports an item of another store with its times, given that the table is locked and expired
/// items are deleted.
fn put_stored(org: &OrgId, at: &ItemRef, stored: &StoredItem) -> Result<Ask> {
    let StoredItem { item, indexing, ttl } = stored;
    let value = json(&item.value)?;
    let indexing = json(indexing)?;
    let seal = seal(org, at, &value, &indexing).to_vec();
    Ok(ask!(
        "INSERT INTO items (org, path, key, number, space, value, indexing, seal, ttl_ms,
             created_at, updated_at, expires_at)
         SELECT $1, $2, $3, number, coalesce((
                 SELECT i.space FROM items i WHERE i.org = $1 AND i.path = $2 LIMIT 1), number),
             $4, $5, $6, $7, $8, $9, $10
         FROM (SELECT nextval(pg_get_serial_sequence('items', 'number')) AS number) fresh",
        text(org),
        at.namespace().path(),
        at.key().to_owned(),
        value,
        indexing,
        seal,
        ttl.map(|ttl| int(ttl.as_millis())),
        item.created_at.0,
        item.updated_at.0,
        item.expires_at.map(|at| at.0),
    ))
}

/// An item to be put.
#[derive(Debug)]
struct New {
    at: ItemRef,
    value: String,
    options: PutOptions,
}

impl New {
    fn put(&self, org: &OrgId, now: Timestamp) -> Result<Ask> {
        let New { at, value, options: PutOptions { ttl, indexing } } = self;
        let indexing = json(indexing)?;
        let seal = seal(org, at, value, &indexing).to_vec();
        Ok(ask!(
            "SELECT put_item($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            text(org),
            at.namespace().path(),
            at.key().to_owned(),
            value.clone(),
            indexing,
            seal,
            ttl.map(|ttl| int(ttl.as_millis())),
            now.0,
            ttl.map(|ttl| now.plus(ttl).0),
            int(SWEPT_BY_PUT),
        ))
    }
}

/// A search and its range of paths.
#[derive(Debug)]
struct Search {
    org: OrgId,
    paths: (String, String),
    query: ItemQuery,
    now: Timestamp,
}

/// An item with the number of its row and its score.
type Found = ((i64, StoredItem), Option<f64>);

impl Search {
    async fn run(&self, conn: &mut Conn) -> Done<Vec<Item>> {
        let refreshes = self.query.ttl == Ttl::Refresh;
        let found =
            if self.query.takes_any() { self.page(conn).await? } else { self.select(conn).await? };
        if refreshes && !found.is_empty() {
            let numbers: Vec<i64> = found.iter().map(|((number, _), _)| *number).collect();
            let sql = "UPDATE items SET expires_at = $2 + least(ttl_ms, $3)
                       WHERE number = ANY ($1) AND expires_at > $2";
            let lives = vec![ask!(sql, numbers, self.now.0, room(self.now))];
            if conn.is_open() {
                conn.commit(lives).await?;
            } else {
                conn.write(lives).await?;
            }
        }
        let Self { query, now, .. } = self;
        let item = |((_, stored), score): Found| stored.found(score, query.ttl, *now);
        Ok(found.into_iter().map(item).collect())
    }

    /// Reads a page without filtering, because the query selects every item.
    async fn page(&self, conn: &mut Conn) -> Done<Vec<Found>> {
        let sql = living!(columns!(), "ORDER BY space, number LIMIT $5 OFFSET $6");
        let org = text(&self.org);
        let (first, end) = self.paths.clone();
        let limit = int(self.query.limit);
        let offset = int(self.query.offset);
        let rows = conn.rows(ask!(sql, org, first, end, self.now.0, limit, offset)).await?;
        rows.iter().map(|row| Ok((numbered(row)?, None))).collect()
    }

    /// Filters the items of one snapshot, reading a limited number at a time.
    async fn select(&self, conn: &mut Conn) -> Done<Vec<Found>> {
        let sql = living!("number", "ORDER BY space, number");
        let org = text(&self.org);
        let (first, end) = self.paths.clone();
        let ask = ask!(sql, org, first, end, self.now.0);
        let begun = conn.begin_at_once(vec![ask]).await?;
        let at = At::new("items", &"the number of a row");
        let numbers = begun.iter().flatten().map(|row| at.plain(row, "number"));
        let numbers: Vec<i64> = numbers.collect::<Result<_>>()?;
        let mut selection = Selection::new(&self.query);
        for some in numbers.chunks(PAGE) {
            if selection.is_full() {
                break;
            }
            let sql = concat!(
                "SELECT ",
                columns!(),
                " FROM items WHERE number = ANY ($1) ORDER BY space, number"
            );
            for row in conn.rows(ask!(sql, some.to_vec())).await? {
                let (number, stored) = numbered(&row)?;
                if let Some(fit) = selection.judge(&stored.item.value, &stored.indexing) {
                    selection.take(fit, (number, stored));
                }
            }
        }
        Ok(selection.finish())
    }
}

/// Returns the number of milliseconds between a time and the end of the range.
fn room(now: Timestamp) -> i64 {
    i64::MAX.saturating_sub(now.0)
}

fn numbered(row: &Row) -> Result<(i64, StoredItem)> {
    Ok((At::new("items", &"the number of a row").plain(row, "number")?, read(row)?))
}

fn read(row: &Row) -> Result<StoredItem> {
    columns::read_item(row)
}
