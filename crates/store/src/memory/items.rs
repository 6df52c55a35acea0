use super::scope::{Need, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::items::{
    Item, ItemQuery, ItemRef, ItemTable, Namespace, NamespaceQuery, Prefix, PutOptions, StoredItem,
    Ttl,
};
use crate::table::Result;
use serde_json::Value;
use weftwork_types::{BoxFuture, Principal, Timestamp};

impl<B: Backend> ItemTable for TableStore<B> {
    fn item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        ttl: Ttl,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::item(&who.org, at)));
        let get = move |tables: &mut Tables| Ok(tables.items.get(&who.org, at, ttl, now));
        match ttl {
            Ttl::Refresh => self.backend.write(scope, get),
            Ttl::Keep => self.backend.read(scope, get),
        }
    }

    fn search_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        query: &'a ItemQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        let search = move |tables: &mut Tables| tables.items.search(&who.org, within, query, now);
        match query.ttl {
            Ttl::Refresh => self.backend.write(scope, search),
            Ttl::Keep => self.backend.read(scope, search),
        }
    }

    fn item_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        query: &'a NamespaceQuery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend.read(scope, move |tables| Ok(tables.items.namespaces(&who.org, query, now)))
    }

    fn put_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        value: Value,
        options: PutOptions,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend
            .write(scope, move |tables| tables.items.put_new(&who.org, at, value, options, now))
    }

    fn delete_item<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a ItemRef,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend.write(scope, move |tables| Ok(tables.items.delete(&who.org, at, now)))
    }

    fn clear_items<'a>(
        &'a self,
        who: &'a Principal,
        within: &'a Prefix,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend.write(scope, move |tables| tables.items.clear(&who.org, within, now))
    }

    fn sweep_items(&self, limit: usize, now: Timestamp) -> BoxFuture<'_, Result<usize>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::AllItems));
        self.backend.write(scope, move |tables| Ok(tables.items.sweep(limit, now)))
    }

    fn stored_items<'a>(
        &'a self,
        who: &'a Principal,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<StoredItem>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend.read(scope, move |tables| Ok(tables.items.stored(&who.org, now)))
    }

    fn put_stored_items<'a>(
        &'a self,
        who: &'a Principal,
        items: Vec<StoredItem>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<usize>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::items(&who.org)));
        self.backend.write(scope, move |tables| tables.items.put_stored(&who.org, items, now))
    }
}
