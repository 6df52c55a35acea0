//! Items: JSON objects under a namespace and a key, stored beyond any thread.
//!
//! These are the records and the port; implementations live with the stores.

mod filter;
mod namespace;
mod query;
mod record;
mod text;

pub use filter::Filter;
pub use namespace::{
    NAMESPACE_BYTES_MAX, NAMESPACE_LABELS_MAX, Namespace, NamespaceProblem, Pattern, Prefix,
    RESERVED_ROOTS,
};
pub use query::{Fit, ItemQuery, NamespaceQuery, Selection};
pub use record::{
    Indexing, Item, ItemRef, KEY_BYTES_MAX, PutOptions, Ttl, VALUE_BYTES_MAX, check_value,
};
pub use text::{TERMS_MAX, Terms};

use crate::store_error::Result;
use crate::{BoxFuture, Principal};
use serde_json::Value;

/// Reads items.
pub trait ReadItems: Send + Sync {
    /// Returns an item; `None` if it does not exist.
    ///
    /// # Errors
    /// Only system errors.
    fn get<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
    ) -> BoxFuture<'a, Result<Option<Item>>>;

    /// Returns the items selected by the query, from all namespaces that start with `within`.
    /// Without a text they are in the order of the store, with a text the best match is first.
    ///
    /// # Errors
    /// Only system errors.
    fn search<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
    ) -> BoxFuture<'a, Result<Vec<Item>>>;

    /// Returns the namespaces that contain items, sorted by their labels.
    ///
    /// # Errors
    /// Only system errors.
    fn namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>>;
}

/// Writes items.
pub trait WriteItems: Send + Sync {
    /// Puts an item, or replaces the value, time to live and indexing of the existing one.
    ///
    /// # Errors
    /// Returns [`StoreError::BadValue`](crate::StoreError::BadValue) for a value that is not an
    /// object, or is too deep or too long; nothing was changed.
    fn put<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes an item and returns `true` if it existed.
    ///
    /// # Errors
    /// Only system errors.
    fn delete<'a>(&'a self, who: &'a Principal, at: &'a ItemRef) -> BoxFuture<'a, Result<bool>>;

    /// Deletes all items of the namespaces that start with `within`, in one transaction, and
    /// returns their number.
    ///
    /// # Errors
    /// Only system errors.
    fn clear<'a>(&'a self, who: &'a Principal, within: &'a Prefix) -> BoxFuture<'a, Result<usize>>;

    /// Deletes at most `limit` expired items of any organisation, ordered by expiry time and then
    /// by the time of their first put, and returns their number. For maintenance only.
    ///
    /// Only system errors.
    /// Only those of the system.
    fn sweep(&self, limit: usize) -> BoxFuture<'_, Result<usize>>;
}

/// A store of items.
pub trait ItemStore: ReadItems + WriteItems + std::fmt::Debug {}

impl<T: ReadItems + WriteItems + std::fmt::Debug> ItemStore for T {}
