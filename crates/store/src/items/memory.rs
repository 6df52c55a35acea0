//! Items in memory.

use super::stored::{SWEPT_BY_PUT, StoreItems, StoredItem};
use super::{Indexing, Item, ItemRef, PutOptions, Ttl, check_value};
use super::{ItemQuery, NamespaceQuery, Selection};
use super::{Namespace, Prefix};
use crate::memory::MemoryStore;
use crate::table::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::port::Clock;
use weftwork_types::{OrgId, Timestamp};

/// An item store in memory, for tests and for data that need not outlive the process. Every future
/// is ready at its first poll. Writes delete some expired items.
pub type MemoryItems = StoreItems<MemoryStore>;

impl MemoryItems {
    /// Creates an empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::of(Arc::default(), clock)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    orgs: BTreeMap<OrgId, BTreeMap<Namespace, Space>>,
    /// Items that expire, ordered by expiry time and position.
    expiries: BTreeMap<(Timestamp, u64, OrgId), ItemRef>,
    /// Counter from which positions of namespaces and items are assigned.
    count: u64,
}

/// The items of a namespace; there is at least one.
#[derive(Debug, Default)]
struct Space {
    position: u64,
    rows: BTreeMap<u64, Row>,
    /// Position of each key.
    places: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Row {
    /// Position among all items, assigned by `put`.
    position: u64,
    key: String,
    value: Value,
    indexing: Indexing,
    ttl: Option<Duration>,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
}

/// An item as a row of a [`RowStore`](crate::rows::RowStore).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ItemRow {
    pub(crate) namespace: Namespace,
    pub(crate) key: String,
    /// Position of the namespace.
    space: u64,
    position: u64,
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
            position: 0,
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

    fn stored(&self, namespace: &Namespace) -> StoredItem {
        let item = self.item(namespace, None);
        let indexing = self.indexing.clone();
        StoredItem { item, indexing, ttl: self.ttl }.as_written()
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
    /// Returns all items, each with its organisation.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&OrgId, ItemRow)> {
        self.orgs.iter().flat_map(|(org, spaces)| {
            let rows = spaces.iter().flat_map(|(namespace, space)| {
                space.rows.values().map(move |row| (namespace, space.position, row))
            });
            rows.map(move |(namespace, space, row)| {
                let row = ItemRow {
                    namespace: namespace.clone(),
                    key: row.key.clone(),
                    space,
                    position: row.position,
                    value: row.value.clone(),
                    indexing: row.indexing.clone(),
                    ttl: row.ttl,
                    created_at: row.created_at,
                    updated_at: row.updated_at,
                    expires_at: row.expires_at,
                };
                (org, row)
            })
        })
    }

    /// Adds a row that [`rows`](Self::rows) returned.
    pub(crate) fn restore(&mut self, org: &OrgId, row: ItemRow) {
        let ItemRow { namespace, key, space: place, position, value, indexing, .. } = row;
        let ItemRow { ttl, created_at, updated_at, expires_at, .. } = row;
        if let (Some(expires_at), Ok(at)) =
            (expires_at, ItemRef::new(namespace.clone(), key.as_str()))
        {
            self.expiries.insert((expires_at, position, org.clone()), at);
        }
        self.count = self.count.max(position);
        let space = self.orgs.entry(org.clone()).or_default().entry(namespace).or_default();
        space.position = place;
        space.places.insert(key.clone(), position);
        let row = Row { position, key, value, indexing, ttl, created_at, updated_at, expires_at };
        space.rows.insert(position, row);
    }

    pub(crate) fn get(
        &mut self,
        org: &OrgId,
        at: &ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> Option<Item> {
        if ttl == Ttl::Refresh {
            self.refresh(org, at, now);
        }
        let row = self.row(org, at).filter(|row| row.lives(now));
        row.map(|row| row.item(at.namespace(), None))
    }

    pub(crate) fn search(
        &mut self,
        org: &OrgId,
        within: &Prefix,
        query: &ItemQuery,
        now: Timestamp,
    ) -> Result<Vec<Item>> {
        let mut selection = Selection::new(query);
        for (ns, row) in self.within(org, within, now) {
            selection.offer(&row.value, &row.indexing, (ns, row));
        }
        let found = selection.finish().into_iter();
        let mut items: Vec<_> = found.map(|((ns, row), score)| row.item(ns, score)).collect();
        if query.ttl == Ttl::Refresh {
            for item in &mut items {
                let at = ItemRef::new(item.namespace.clone(), item.key.as_str())?;
                item.expires_at = self.refresh(org, &at, now);
            }
        }
        Ok(items)
    }

    pub(crate) fn namespaces(
        &self,
        org: &OrgId,
        query: &NamespaceQuery,
        now: Timestamp,
    ) -> Vec<Namespace> {
        let spaces = self.orgs.get(org).into_iter().flatten();
        let living = spaces.filter(|(_, space)| space.rows.values().any(|row| row.lives(now)));
        query.select(living.map(|(namespace, _)| namespace))
    }

    pub(crate) fn put_new(
        &mut self,
        org: &OrgId,
        at: &ItemRef,
        value: Value,
        options: PutOptions,
        now: Timestamp,
    ) -> Result<()> {
        check_value(at, &value)?;
        self.sweep(SWEPT_BY_PUT, now);
        self.put(org, at, Row::new(at, value, options, now), now);
        Ok(())
    }

    pub(crate) fn stored(&self, org: &OrgId, now: Timestamp) -> Vec<StoredItem> {
        self.within(org, &Prefix::all(), now).map(|(ns, row)| row.stored(ns)).collect()
    }

    pub(crate) fn put_stored(
        &mut self,
        org: &OrgId,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> Result<usize> {
        let mut new = Vec::with_capacity(items.len());
        let mut known = BTreeMap::new();
        for stored in items.into_iter().filter(|stored| stored.lives(now)) {
            let at = stored.checked()?;
            let there = self.row(org, &at).filter(|row| row.lives(now));
            let there = there.map(|row| row.stored(at.namespace()));
            if stored.is_new_beside(there.as_ref().or_else(|| known.get(&at)))? {
                known.insert(at.clone(), stored.clone());
                new.push((at, stored));
            }
        }
        self.sweep(usize::MAX, now);
        let put = new.len();
        for (at, StoredItem { item, indexing, ttl }) in new {
            let Item { key, value, created_at, updated_at, expires_at, .. } = item;
            let position = 0;
            let row =
                Row { position, key, value, indexing, ttl, created_at, updated_at, expires_at };
            self.put(org, &at, row, now);
        }
        Ok(put)
    }

    pub(crate) fn delete(&mut self, org: &OrgId, at: &ItemRef, now: Timestamp) -> bool {
        self.remove(org, at).is_some_and(|row| row.lives(now))
    }

    pub(crate) fn clear(&mut self, org: &OrgId, within: &Prefix, now: Timestamp) -> Result<usize> {
        let all = self
            .rows_within(org, within)
            .map(|(namespace, row)| ItemRef::new(namespace.clone(), row.key.as_str()));
        let all: Vec<_> = all.collect::<Result<_>>()?;
        Ok(all.iter().filter(|at| self.delete(org, at, now)).count())
    }

    fn row(&self, org: &OrgId, at: &ItemRef) -> Option<&Row> {
        let space = self.orgs.get(org)?.get(at.namespace())?;
        space.rows.get(space.places.get(at.key())?)
    }

    fn row_mut(&mut self, org: &OrgId, at: &ItemRef) -> Option<&mut Row> {
        let space = self.orgs.get_mut(org)?.get_mut(at.namespace())?;
        space.rows.get_mut(space.places.get(at.key())?)
    }

    /// Returns the unexpired items of the namespaces that start with `prefix`, in the order of the
    /// store.
    fn within<'a>(
        &'a self,
        org: &OrgId,
        prefix: &Prefix,
        now: Timestamp,
    ) -> impl Iterator<Item = (&'a Namespace, &'a Row)> {
        self.rows_within(org, prefix).filter(move |(_, row)| row.lives(now))
    }

    /// Returns the items of the namespaces that start with `prefix`, including expired ones.
    fn rows_within<'a>(
        &'a self,
        org: &OrgId,
        prefix: &Prefix,
    ) -> impl Iterator<Item = (&'a Namespace, &'a Row)> + use<'a> {
        let from = (Bound::Included(prefix.labels()), Bound::Unbounded);
        let mut spaces: Vec<_> = self
            .orgs
            .get(org)
            .into_iter()
            .flat_map(|spaces| spaces.range::<[String], _>(from))
            .take_while(|(namespace, _)| namespace.labels().starts_with(prefix.labels()))
            .collect();
        spaces.sort_by_key(|(_, space)| space.position);
        spaces.into_iter().flat_map(|(ns, space)| space.rows.values().map(move |row| (ns, row)))
    }

    fn put(&mut self, org: &OrgId, at: &ItemRef, mut row: Row, now: Timestamp) {
        let known = self.row(org, at).filter(|known| known.lives(now));
        let known = known.map(|known| (known.position, known.created_at, known.expires_at));
        match known {
            Some((position, created_at, expires_at)) => {
                (row.position, row.created_at) = (position, created_at);
                self.forget_expiry(org, expires_at, position);
            }
            None => {
                // An expired item has lost its position.
                drop(self.remove(org, at));
                self.count += 2;
                row.position = self.count;
            }
        }
        if let Some(expires_at) = row.expires_at {
            self.expiries.insert((expires_at, row.position, org.clone()), at.clone());
        }
        let spaces = self.orgs.entry(org.clone()).or_default();
        let space = spaces.entry(at.namespace().clone()).or_default();
        // The same result as if expired items were already swept.
        if !space.rows.values().any(|known| known.lives(now)) {
            space.position = row.position - 1;
        }
        space.places.insert(row.key.clone(), row.position);
        space.rows.insert(row.position, row);
    }

    /// Removes an item, expired or not.
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
        self.forget_expiry(org, row.expires_at, row.position);
        Some(row)
    }

    fn forget_expiry(&mut self, org: &OrgId, expires_at: Option<Timestamp>, position: u64) {
        if let Some(expires_at) = expires_at {
            self.expiries.remove(&(expires_at, position, org.clone()));
        }
    }

    /// Restarts the time to live of an unexpired item and returns its new expiry time.
    fn refresh(&mut self, org: &OrgId, at: &ItemRef, now: Timestamp) -> Option<Timestamp> {
        let row = self.row_mut(org, at).filter(|row| row.lives(now))?;
        let before = row.expires_at?;
        let after = now.plus(row.ttl?);
        let position = row.position;
        row.expires_at = Some(after);
        self.forget_expiry(org, Some(before), position);
        self.expiries.insert((after, position, org.clone()), at.clone());
        Some(after)
    }

    pub(crate) fn sweep(&mut self, limit: usize, now: Timestamp) -> usize {
        let due = self.expiries.iter().take_while(|((at, ..), _)| *at <= now).take(limit);
        let due: Vec<_> = due.map(|((.., org), at)| (org.clone(), at.clone())).collect();
        for (org, at) in &due {
            self.remove(org, at);
        }
        due.len()
    }
}
