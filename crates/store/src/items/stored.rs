//! Stored items, and the combination of an item table with a clock.

use super::{Indexing, Item, ItemRef, PutOptions, Ttl, check_value};
use super::{ItemQuery, NamespaceQuery};
use super::{Namespace, Prefix};
use super::{ReadItems, WriteItems};
use crate::table::Result;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::canonical::hash_bytes;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, OrgId, Principal, Timestamp};

/// Number of expired items that a put deletes. It is more than a put can add, so that expired items
/// do not accumulate without sweeps.
pub const SWEPT_BY_PUT: usize = 2;

/// An item with the fields that a store records with it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredItem {
    /// The item, without a score.
    pub item: Item,
    /// Parts of the value that a text search covers.
    pub indexing: Indexing,
    /// Time to live, which starts when the item is put or refreshed; unlimited if `None`.
    pub ttl: Option<Duration>,
}

impl StoredItem {
    /// Validates the item and returns its name.
    ///
    /// Returns [`StoreError::BadKey`](crate::StoreError::BadKey),
    /// [`StoreError::BadValue`](crate::StoreError::BadValue), or
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) if only one of time to live and expiry
    /// time is set.
    pub fn checked(&self) -> Result<ItemRef> {
        let at = ItemRef::new(self.item.namespace.clone(), self.item.key.as_str())?;
        check_value(&at, &self.item.value)?;
        if self.ttl.is_some() == self.item.expires_at.is_some() {
            return Ok(at);
        }
        Err(crate::StoreError::Conflict {
            location: crate::invariants::place_of_item(&self.item),
            expected: "both a time to live and an expiry time, or neither".to_owned(),
            found: "only one of the two".to_owned(),
        })
    }

    /// Returns `true` if the item has not expired.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.item.expires_at.is_none_or(|at| at > now)
    }

    /// Rounds the time to live down to the stored precision of one millisecond, and limits it to
    /// 2^63 - 1 ms.
    #[must_use]
    pub fn as_written(self) -> Self {
        Self { ttl: self.ttl_ms().map(Duration::from_millis), ..self }
    }

    /// Returns the time to live in milliseconds, as stored.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        let most = i64::MAX.unsigned_abs();
        self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(most).min(most))
    }

    /// Returns `true` if an imported item is new, given the existing item of the same name. Returns
    /// `false` if the existing item is equal. Expiry times are not compared, because reading an
    /// item may have extended its life.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`](crate::StoreError::Conflict) if the existing item differs.
    pub fn is_new_beside(&self, there: Option<&Self>) -> Result<bool> {
        let Some(there) = there else { return Ok(true) };
        let times = |of: &Self| (of.item.created_at, of.item.updated_at, of.ttl_ms());
        let content = |of: &Self| (of.item.value == self.item.value, of.indexing == self.indexing);
        let same = times(there) == times(self) && content(there) == (true, true);
        if same { Ok(false) } else { Err(crate::invariants::item_exists(&self.item)) }
    }

    /// Returns the item as the result of a read: with its score, and with its time to live
    /// restarted if requested.
    #[must_use]
    pub fn found(self, score: Option<f64>, ttl: Ttl, now: Timestamp) -> Item {
        let refreshed = self.ttl.filter(|_| ttl == Ttl::Refresh).map(|ttl| now.plus(ttl));
        let expires_at = refreshed.or(self.item.expires_at);
        Item { score, expires_at, ..self.item }
    }
}

/// Computes the seal of an item, which a driver stores in its row and verifies on each read: a
/// checksum over the organisation, the name of the item, and the JSON of its value and indexing. It
/// detects changed bytes, and rows that were moved to another name.
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

/// The table of items: [`ReadItems`] and [`WriteItems`] with the time as an argument of each call.
pub trait ItemTable: Send + Sync {
    /// Returns an item; `None` if it does not exist.
    ///
    /// # Errors
    /// Only system errors, and [`StoreError::Corrupt`](crate::StoreError::Corrupt).
    fn item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>>;

    /// Returns the selected items of the namespaces that start with `within`; see
    /// [`ReadItems::search`].
    ///
    /// # Errors
    /// Same as [`item`](Self::item).
    fn search_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>>;

    /// Returns the namespaces that contain items, sorted by their labels.
    ///
    /// # Errors
    /// Same as [`item`](Self::item).
    fn item_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>>;

    /// Puts an item, or replaces the existing one, and deletes up to [`SWEPT_BY_PUT`] other expired
    /// items.
    ///
    /// # Errors
    /// Returns [`StoreError::BadValue`](crate::StoreError::BadValue), see
    /// [`check_value`](super::check_value); nothing was changed.
    fn put_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes an item and returns `true` if it existed. If the deletion took effect although the
    /// connection broke, a retry may find no item.
    ///
    /// # Errors
    /// Only system errors.
    fn delete_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>>;

    /// Deletes all items of the namespaces that start with `within`, including expired ones, and
    /// returns the number of those that had not expired. As with
    /// [`delete_item`](Self::delete_item), a retry may find none.
    ///
    /// # Errors
    /// Only system errors.
    fn clear_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>>;

    /// Deletes at most `limit` expired items of any organisation, ordered by expiry time and then
    /// by the time of their first put, and returns their number. For maintenance only.
    ///
    /// # Errors
    /// Only system errors.
    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>>;

    /// Returns all items of the organisation that have not expired, in the order of the store, as
    /// of one moment. The result is held in memory as a whole.
    ///
    /// # Errors
    /// Same as [`item`](Self::item).
    fn stored_items<'a>(
        &'a self,
        who: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>>;

    /// Imports items of another store unchanged, in their order and in one transaction, and returns
    /// the number of items put. Items that exist with equal content are skipped, and items that
    /// have expired are omitted. Expired items of this store are deleted.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`](crate::StoreError::Conflict) for an item that exists with
    /// different content, the errors of [`StoredItem::checked`], and
    /// [`StoreError::Corrupt`](crate::StoreError::Corrupt) for damaged existing items; nothing was
    /// changed.
    fn put_stored_items<'a>(
        &'a self,
        who: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>>;
}

/// The items of a store, with a clock.
#[derive(Debug)]
pub struct StoreItems<S: ?Sized> {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<S>,
}

impl<S: ItemTable + ?Sized> StoreItems<S> {
    /// Creates the item store of a store and a clock.
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
