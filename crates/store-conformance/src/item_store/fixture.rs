//! Helpers for the conformance cases.

use super::Bench;
use serde_json::Value;
use std::time::Duration;
use weftwork_store::items::{
    Filter, Item, ItemQuery, ItemRef, Namespace, NamespaceQuery, Prefix, PutOptions, Ttl,
};
use weftwork_types::{OrgId, Principal};

pub(super) fn principal(org: &str) -> Principal {
    Principal::new(OrgId::new(org).expect("an id"), format!("someone at {org}"))
}

pub(super) fn us() -> Principal {
    principal("us")
}

/// Parses a namespace with dots between its labels.
pub(super) fn ns(dotted: &str) -> Namespace {
    dotted.parse().expect("a namespace")
}

pub(super) fn prefix(dotted: &str) -> Prefix {
    if dotted.is_empty() { Prefix::all() } else { Prefix::from(&ns(dotted)) }
}

/// Parses the name of an item: `u.ann/k1` is the key `k1` in the namespace `u`, `ann`.
pub(super) fn at(path: &str) -> ItemRef {
    let (namespace, key) = path.split_once('/').expect("a namespace and a key");
    ItemRef::new(ns(namespace), key).expect("a key")
}

pub(super) fn path(item: &Item) -> String {
    format!("{}/{}", item.namespace, item.key)
}

pub(super) fn lives(ms: u64) -> PutOptions {
    PutOptions { ttl: Some(Duration::from_millis(ms)), ..PutOptions::default() }
}

pub(super) fn filter(json: &Value) -> ItemQuery {
    ItemQuery { filter: Filter::parse(json).expect("a filter"), ..ItemQuery::default() }
}

pub(super) fn text(text: &str) -> ItemQuery {
    ItemQuery { text: Some(text.to_owned()), ..ItemQuery::default() }
}

impl Bench {
    pub(super) async fn put(&self, path: &str, value: Value) {
        self.put_with(path, value, PutOptions::default()).await;
    }

    pub(super) async fn put_with(&self, path: &str, value: Value, options: PutOptions) {
        self.store.put(&us(), &at(path), value, options).await.expect("puts");
    }

    pub(super) async fn get(&self, path: &str) -> Option<Item> {
        self.store.get(&us(), &at(path), Ttl::Keep).await.expect("gets")
    }

    pub(super) async fn delete(&self, path: &str) -> bool {
        self.store.delete(&us(), &at(path)).await.expect("deletes")
    }

    pub(super) async fn found(&self, within: &str, query: &ItemQuery) -> Vec<Item> {
        self.store.search(&us(), &prefix(within), query).await.expect("searches")
    }

    /// Returns the paths of the items found.
    pub(super) async fn paths(&self, within: &str, query: &ItemQuery) -> Vec<String> {
        self.found(within, query).await.iter().map(path).collect()
    }

    pub(super) async fn namespaces(&self, query: &NamespaceQuery) -> Vec<String> {
        let found = self.store.namespaces(&us(), query).await.expect("lists");
        found.iter().map(ToString::to_string).collect()
    }

    pub(super) fn wait(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}
