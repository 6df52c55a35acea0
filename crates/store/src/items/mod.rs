//! Items: what is remembered beyond a thread.
//!
//! An item is a JSON object under a [`Namespace`] and a key. Graphs put what they learn there and
//! find it again from any thread, by key, by filter or by words. Each call takes a
//! [`Principal`]; items of another organisation are as good as not there.
//!
//! Limits: a namespace has at most [`NAMESPACE_LABELS_MAX`] labels and [`NAMESPACE_BYTES_MAX`]
//! bytes, a key [`KEY_BYTES_MAX`] bytes, a value [`VALUE_BYTES_MAX`] bytes as JSON and
//! [`DEPTH_MAX`](weftwork_types::canonical::DEPTH_MAX) levels.
//!
//! # Order
//! Items are found namespace by namespace, in the order in which the namespaces got their first
//! item, and within one in the order in which the items were first put. Replacing the value of an
//! item leaves it in its place. A namespace without items is forgotten, and so is its place.
//!
//! # Time
//! A store of items asks a [`Clock`](weftwork_types::port::Clock) for the time. From the moment at
//! which an item expires no call finds it any more; [`WriteItems::sweep`] frees its room, and each
//! put frees some. Drivers keep no clock: the time is an argument of each call of [`ItemTable`], and
//! [`StoreItems`] puts a clock beside it.
//!
//! # Cancel safety
//! As for the [tables](crate::table): nothing happens before a future is first polled, and a
//! dropped write may still take effect.

pub mod conformance;
mod filter;
mod item;
mod memory;
mod namespace;
mod query;
mod stored;
mod text;

pub use filter::Filter;
pub use item::{
    Indexing, Item, ItemRef, KEY_BYTES_MAX, PutOptions, Ttl, VALUE_BYTES_MAX, check_value,
};
pub use memory::MemoryItems;
pub(crate) use memory::Tables;
pub use namespace::{
    NAMESPACE_BYTES_MAX, NAMESPACE_LABELS_MAX, Namespace, NamespaceProblem, Pattern, Prefix,
    RESERVED_ROOTS,
};
pub use query::{Fit, ItemQuery, NamespaceQuery, Selection};
pub use stored::{ItemTable, SWEPT_BY_PUT, StoreItems, StoredItem, seal};
pub use text::{TERMS_MAX, Terms};

use crate::table::Result;
use serde_json::Value;
use weftwork_types::{BoxFuture, Principal};

/// Reads items.
pub trait ReadItems: Send + Sync {
    /// One item; `None` when there is none.
    ///
    /// # Errors
    /// Only those of the system.
    fn get<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
    ) -> BoxFuture<'a, Result<Option<Item>>>;

    /// The items of the namespaces that begin with `within`, as the query asks for them. Without a
    /// text in the order of the store, with one the best match first.
    ///
    /// # Errors
    /// Only those of the system.
    fn search<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
    ) -> BoxFuture<'a, Result<Vec<Item>>>;

    /// The namespaces that hold items, sorted by their labels.
    ///
    /// # Errors
    /// Only those of the system.
    fn namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>>;
}

/// Writes items.
pub trait WriteItems: Send + Sync {
    /// Puts an item, or replaces the value, time to live and indexing of the one that is there.
    ///
    /// # Errors
    /// [`StoreError::BadValue`](crate::StoreError::BadValue) for a value that is no object, or too
    /// deep or too long; nothing was changed then.
    fn put<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<()>>;

    /// Removes an item; says whether there was one.
    ///
    /// # Errors
    /// Only those of the system.
    fn delete<'a>(&'a self, who: &'a Principal, at: &'a ItemRef) -> BoxFuture<'a, Result<bool>>;

    /// Removes all items of the namespaces that begin with `within`, in one transaction; says how
    /// many there were.
    ///
    /// # Errors
    /// Only those of the system.
    fn clear<'a>(&'a self, who: &'a Principal, within: &'a Prefix) -> BoxFuture<'a, Result<usize>>;

    /// Frees the room of expired items of every organisation, those that expired first (of
    /// two, the one that was put first), at most `limit`; says of how many. For housekeeping only.
    ///
    /// # Errors
    /// Only those of the system.
    fn sweep(&self, limit: usize) -> BoxFuture<'_, Result<usize>>;
}

/// A store of items.
pub trait ItemStore: ReadItems + WriteItems + std::fmt::Debug {}

impl<T: ReadItems + WriteItems + std::fmt::Debug> ItemStore for T {}
