use super::item::{Indexing, Item, ItemRef, PutOptions, Ttl, check_value};
use super::namespace::{Namespace, Prefix};
use super::query::{ItemQuery, NamespaceQuery};
use super::{ReadItems, WriteItems};
use crate::table::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, OrgId, Principal, Timestamp};

/// How many expired items a put frees. More than it can add, so that what nobody sweeps does not
/// pile up either.
const SWEPT_BY_PUT: usize = 2;

/// Items in memory: for tests, and for what need not outlive the process. Every future is ready at
/// its first poll. Writing frees some of what has expired.
#[derive(Debug)]
pub struct MemoryItems {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

impl MemoryItems {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // What may panic is done before the first change, so a panic leaves no half of one.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadItems for MemoryItems {
    fn get<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        Box::pin(async move {
            let (mut tables, now) = (self.tables(), self.clock.now());
            if ttl == Ttl::Refresh {
                tables.refresh(&who.org, at, now);
            }
            let row = tables.row(&who.org, at).filter(|row| row.lives(now));
            Ok(row.map(|row| row.item(at.namespace(), None)))
        })
    }

    fn search<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        Box::pin(async move {
            let (mut tables, now) = (self.tables(), self.clock.now());
            let mut items: Vec<Item> = {
                let living = tables.within(&who.org, within, now);
                let rows = living.map(|(ns, row)| (&row.value, &row.indexing, (ns, row)));
                let found = query.select(rows).into_iter();
                found.map(|((ns, row), score)| row.item(ns, score)).collect()
            };
            if query.ttl == Ttl::Refresh {
                for item in &mut items {
                    let at = ItemRef::new(item.namespace.clone(), item.key.as_str())?;
                    item.expires_at = tables.refresh(&who.org, &at, now);
                }
            }
            Ok(items)
        })
    }

    fn namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        Box::pin(async move {
            let (tables, now) = (self.tables(), self.clock.now());
            let spaces = tables.orgs.get(&who.org).into_iter().flatten();
            let living = spaces.filter(|(_, space)| space.rows.values().any(|row| row.lives(now)));
            Ok(query.select(living.map(|(namespace, _)| namespace)))
        })
    }
}

impl WriteItems for MemoryItems {
    fn put<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_value(at, &value)?;
            let (mut tables, now) = (self.tables(), self.clock.now());
            tables.sweep(SWEPT_BY_PUT, now);
            tables.put(&who.org, at, Row::new(at, value, options, now));
            Ok(())
        })
    }

    fn delete<'a>(&'a self, who: &'a Principal, at: &'a ItemRef) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let (mut tables, now) = (self.tables(), self.clock.now());
            Ok(tables.remove(&who.org, at).is_some_and(|row| row.lives(now)))
        })
    }

    fn sweep(&self, limit: usize) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move { Ok(self.tables().sweep(limit, self.clock.now())) })
    }
}

#[derive(Debug, Default)]
struct Tables {
    orgs: BTreeMap<OrgId, BTreeMap<Namespace, Space>>,
    /// When items expire, and which.
    expiries: BTreeSet<(Timestamp, OrgId, ItemRef)>,
    /// Counts namespaces and items, to know which came first.
    count: u64,
}

/// The items of a namespace; at least one.
#[derive(Debug, Default)]
struct Space {
    place: u64,
    rows: BTreeMap<u64, Row>,
    /// The place of each key.
    places: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Row {
    key: String,
    value: Value,
    indexing: Indexing,
    ttl: Option<Duration>,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl Row {
    fn new(at: &ItemRef, value: Value, options: PutOptions, now: Timestamp) -> Self {
        Self {
            key: at.key().to_owned(),
            value,
            indexing: options.indexing,
            ttl: options.ttl,
            created_at: now,
            updated_at: now,
            expires_at: options.ttl.map(|ttl| now.plus(ttl)),
        }
    }

    fn lives(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    fn item(&self, namespace: &Namespace, score: Option<f64>) -> Item {
        Item {
            namespace: namespace.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            expires_at: self.expires_at,
            score,
        }
    }
}

impl Tables {
    fn row(&self, org: &OrgId, at: &ItemRef) -> Option<&Row> {
        let space = self.orgs.get(org)?.get(at.namespace())?;
        space.rows.get(space.places.get(at.key())?)
    }

    fn row_mut(&mut self, org: &OrgId, at: &ItemRef) -> Option<&mut Row> {
        let space = self.orgs.get_mut(org)?.get_mut(at.namespace())?;
        space.rows.get_mut(space.places.get(at.key())?)
    }

    /// The living items of the namespaces that begin with these labels, in the order of the store.
    fn within<'a>(
        &'a self,
        org: &OrgId,
        prefix: &Prefix,
        now: Timestamp,
    ) -> impl Iterator<Item = (&'a Namespace, &'a Row)> {
        let from = (Bound::Included(prefix.labels()), Bound::Unbounded);
        let mut spaces: Vec<_> = self
            .orgs
            .get(org)
            .into_iter()
            .flat_map(|spaces| spaces.range::<[String], _>(from))
            .take_while(|(namespace, _)| namespace.labels().starts_with(prefix.labels()))
            .collect();
        spaces.sort_by_key(|(_, space)| space.place);
        let rows =
            spaces.into_iter().flat_map(|(ns, space)| space.rows.values().map(move |r| (ns, r)));
        rows.filter(move |(_, row)| row.lives(now))
    }

    fn put(&mut self, org: &OrgId, at: &ItemRef, mut row: Row) {
        let known = self.row(org, at).filter(|known| known.lives(row.updated_at));
        let known = known.map(|known| (known.created_at, known.expires_at));
        match known {
            Some((created_at, expires_at)) => {
                row.created_at = created_at;
                self.forget_expiry(expires_at, org, at);
            }
            // What has expired is gone, and its place with it.
            None => drop(self.remove(org, at)),
        }
        if let Some(expires_at) = row.expires_at {
            self.expiries.insert((expires_at, org.clone(), at.clone()));
        }
        if let Some(known) = self.row_mut(org, at) {
            *known = row;
            return;
        }
        self.count += 2;
        let spaces = self.orgs.entry(org.clone()).or_default();
        let space = spaces.entry(at.namespace().clone()).or_default();
        // As if what has expired were swept already.
        if !space.rows.values().any(|known| known.lives(row.updated_at)) {
            space.place = self.count - 1;
        }
        space.places.insert(row.key.clone(), self.count);
        space.rows.insert(self.count, row);
    }

    /// Removes an item, whether or not it has expired.
    fn remove(&mut self, org: &OrgId, at: &ItemRef) -> Option<Row> {
        let spaces = self.orgs.get_mut(org)?;
        let space = spaces.get_mut(at.namespace())?;
        let row = space.rows.remove(&space.places.remove(at.key())?)?;
        if space.rows.is_empty() {
            spaces.remove(at.namespace());
        }
        if spaces.is_empty() {
            self.orgs.remove(org);
        }
        self.forget_expiry(row.expires_at, org, at);
        Some(row)
    }

    fn forget_expiry(&mut self, expires_at: Option<Timestamp>, org: &OrgId, at: &ItemRef) {
        if let Some(expires_at) = expires_at {
            self.expiries.remove(&(expires_at, org.clone(), at.clone()));
        }
    }

    /// Begins the time to live of a living item anew; says when the item expires now.
    fn refresh(&mut self, org: &OrgId, at: &ItemRef, now: Timestamp) -> Option<Timestamp> {
        let row = self.row_mut(org, at).filter(|row| row.lives(now))?;
        let (before, after) = (row.expires_at?, now.plus(row.ttl?));
        row.expires_at = Some(after);
        self.forget_expiry(Some(before), org, at);
        self.expiries.insert((after, org.clone(), at.clone()));
        Some(after)
    }

    fn sweep(&mut self, limit: usize, now: Timestamp) -> usize {
        let due = self.expiries.iter().take_while(|(at, ..)| *at <= now).take(limit);
        let due: Vec<_> = due.cloned().collect();
        for (_, org, at) in &due {
            self.remove(org, at);
        }
        due.len()
    }
}
