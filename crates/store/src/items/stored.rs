//! Items as stores keep them, and the time beside them.

use super::item::{Indexing, Item, ItemRef, PutOptions, Ttl, check_value};
use super::namespace::{Namespace, Prefix};
use super::query::{ItemQuery, NamespaceQuery};
use super::{ReadItems, WriteItems};
use crate::table::Result;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, OrgId, Principal, Timestamp};

/// How many expired items a put frees. More than it can add, so that what nobody sweeps does not
/// pile up either.
pub const SWEPT_BY_PUT: usize = 2;

/// An item with what a store keeps beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredItem {
    /// The item, without a score.
    pub item: Item,
    /// Which parts of its value a search by text looks at.
    pub indexing: Indexing,
    /// How long it lives once it is put or refreshed; for ever when absent.
    pub ttl: Option<Duration>,
}

impl StoredItem {
    /// Its name, when it may be put as it is.
    ///
    /// # Errors
    /// [`StoreError::BadKey`](crate::StoreError::BadKey),
    /// [`StoreError::BadValue`](crate::StoreError::BadValue), and
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) for one that expires and has no time
    /// to live, or the other way round.
    pub fn checked(&self) -> Result<ItemRef> {
        let at = ItemRef::new(self.item.namespace.clone(), self.item.key.as_str())?;
        check_value(&at, &self.item.value)?;
        if self.ttl.is_some() == self.item.expires_at.is_some() {
            return Ok(at);
        }
        Err(crate::StoreError::Conflict {
            place: crate::rule::place_of_item(&self.item),
            expected: "a time to live and when it expires, or neither".to_owned(),
            found: "one of them".to_owned(),
        })
    }

    /// Whether it lives.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.item.expires_at.is_none_or(|at| at > now)
    }

    /// The same with its time to live in whole milliseconds, of which there are 2^63 - 1 at most:
    /// as drivers write it down.
    #[must_use]
    pub fn as_written(self) -> Self {
        Self { ttl: self.ttl_ms().map(Duration::from_millis), ..self }
    }

    /// How long it lives, in milliseconds as drivers write them down.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        let most = i64::MAX.unsigned_abs();
        self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(most).min(most))
    }

    /// Whether it is to be put where this is there, when it comes from another store: not when it
    /// is there just so. Reading an item may have let it live on; it is the same still.
    ///
    /// # Errors
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) when what is there is another.
    pub fn is_new_beside(&self, there: Option<&Self>) -> Result<bool> {
        let Some(there) = there else { return Ok(true) };
        let times = |of: &Self| (of.item.created_at, of.item.updated_at, of.ttl_ms());
        let content = |of: &Self| (of.item.value == self.item.value, of.indexing == self.indexing);
        let same = times(there) == times(self) && content(there) == (true, true);
        if same { Ok(false) } else { Err(crate::rule::item_exists(&self.item)) }
    }

    /// The item as it is found now: with its score, and living on when it is asked to.
    #[must_use]
    pub fn found(self, score: Option<f64>, ttl: Ttl, now: Timestamp) -> Item {
        let refreshed = self.ttl.filter(|_| ttl == Ttl::Refresh).map(|ttl| now.plus(ttl));
        let expires_at = refreshed.or(self.item.expires_at);
        Item { score, expires_at, ..self.item }
    }
}

/// What a driver keeps with the row of an item, and compares when it reads the row: a checksum over
/// the organisation, the name of the item, and the JSON of its value and of how it is indexed. It
/// finds out bytes that changed, and rows that were put under another name.
#[must_use]
pub fn seal(org: &OrgId, at: &ItemRef, value: &str, indexing: &str) -> [u8; 8] {
    let path = at.namespace().path();
    let mut all = Vec::with_capacity(value.len() + 256);
    for part in [org.as_str(), &path, at.key(), value, indexing] {
        all.extend_from_slice(&(part.len() as u64).to_be_bytes());
        all.extend_from_slice(part.as_bytes());
    }
    let hash = hash_bytes(&all).0;
    std::array::from_fn(|i| hash[i])
}

/// The table of items of a store: as [`ReadItems`] and [`WriteItems`], with the time of each call.
pub trait ItemTable: Send + Sync {
    /// One item; `None` when there is none.
    ///
    /// # Errors
    /// Only those of the system, and [`StoreError::Corrupt`](crate::StoreError::Corrupt).
    fn item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>>;

    /// The items of the namespaces that begin with `within`, as [`ReadItems::search`] has it.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    fn search_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>>;

    /// The namespaces that hold items, sorted by their labels.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    fn item_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>>;

    /// Puts an item, or replaces the one that is there; frees up to [`SWEPT_BY_PUT`] others that
    /// have expired.
    ///
    /// # Errors
    /// [`StoreError::BadValue`](crate::StoreError::BadValue), see
    /// [`check_value`](super::check_value); nothing was changed then.
    fn put_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<()>>;

    /// Removes an item; says whether there was one. A removal that took effect although its
    /// connection broke, and is tried again, may find nothing.
    ///
    /// # Errors
    /// Only those of the system.
    fn delete_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>>;

    /// Removes all items of the namespaces that begin with `within`, with those that have expired;
    /// says how many lived. As with [`delete_item`](Self::delete_item), another try may find none.
    ///
    /// # Errors
    /// Only those of the system.
    fn clear_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>>;

    /// Frees the room of expired items of every organisation, those that expired first (of
    /// two, the one that was put first), at most `limit`; says of how many. For housekeeping only.
    ///
    /// # Errors
    /// Only those of the system.
    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>>;

    /// All items of the organisation that live, in the order of the store, as they are at one
    /// moment. All of them are held at once.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    fn stored_items<'a>(
        &'a self,
        who: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>>;

    /// Puts items of another store just as they were there, in their order and in one transaction;
    /// says how many. Those that are there just so are passed over, and those that have expired
    /// are left out. Items that expired here are freed.
    ///
    /// # Errors
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) for an item that is there with
    /// another content, those of [`StoredItem::checked`], and
    /// [`StoreError::Corrupt`](crate::StoreError::Corrupt) for what is there; nothing was changed
    /// then.
    fn put_stored_items<'a>(
        &'a self,
        who: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>>;
}

/// The items of a store, by a clock.
#[derive(Debug)]
pub struct StoreItems<S: ?Sized> {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<S>,
}

impl<S: ItemTable + ?Sized> StoreItems<S> {
    /// Those of a store.
    #[must_use]
    pub fn of(store: Arc<S>, clock: Arc<dyn Clock>) -> Self {
        Self { clock, store }
    }
}

impl<S: ItemTable + ?Sized> ReadItems for StoreItems<S> {
    fn get<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        Box::pin(async move { self.store.item(who, at, ttl, self.clock.now()).await })
    }

    fn search<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        Box::pin(async move { self.store.search_items(who, within, query, self.clock.now()).await })
    }

    fn namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        Box::pin(async move { self.store.item_namespaces(who, query, self.clock.now()).await })
    }
}

impl<S: ItemTable + ?Sized> WriteItems for StoreItems<S> {
    fn put<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(
            async move { self.store.put_item(who, at, value, options, self.clock.now()).await },
        )
    }

    fn delete<'a>(&'a self, who: &'a Principal, at: &'a ItemRef) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.store.delete_item(who, at, self.clock.now()).await })
    }

    fn clear<'a>(&'a self, who: &'a Principal, within: &'a Prefix) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move { self.store.clear_items(who, within, self.clock.now()).await })
    }

    fn sweep(&self, limit: usize) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move { self.store.sweep_items(limit, self.clock.now()).await })
    }
}
