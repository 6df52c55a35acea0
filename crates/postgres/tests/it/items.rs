//! Tests of items: the conformance suite in Postgres, and concurrent use.

use crate::support::{Schema, block_on};
use serde_json::json;
use std::sync::Arc;
use weftwork_postgres::PostgresStore;
use weftwork_store::{
    Filter, Indexing, Item, ItemQuery, ItemRef, ItemStore, ItemTable, Prefix, PutOptions,
    StoreItems, StoredItem, Ttl,
};
use weftwork_store_conformance::item_store::run_case;
use weftwork_types::{Principal, Timestamp};

fn conforms(case: &str) {
    let schema = Schema::new(case);
    let store = Arc::new(schema.open());
    block_on(run_case(case, |clock| {
        let items: Arc<dyn ItemStore> = Arc::new(StoreItems::of(Arc::clone(&store), clock));
        async { items }
    }));
}

weftwork_store_conformance::item_conformance_tests!(conforms);

fn at(path: &str, key: &str) -> ItemRef {
    ItemRef::new(path.parse().expect("a namespace"), key).expect("a key")
}

/// An item imported from another store.
fn came(path: &str, number: i64) -> StoredItem {
    let item = Item {
        namespace: path.parse().expect("a namespace"),
        key: format!("came {number}"),
        value: json!({ "from": "elsewhere" }),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        expires_at: None,
        score: None,
    };
    StoredItem { item, indexing: Indexing::All, ttl: None }
}

/// Puts, imports, reads, refreshes and deletes the same items as the other threads, while all of
/// them are about to expire.
fn rush(store: &PostgresStore, number: i64) {
    let who = Principal::local();
    let options =
        || PutOptions { ttl: Some(std::time::Duration::from_millis(3)), ..PutOptions::default() };
    for turn in 0..30 {
        let now = Timestamp(turn);
        let item =
            at(["a", "a.b"][usize::from(turn % 2 == 0)], &format!("k{}", (turn + number) % 4));
        let put = store.put_item(&who, &item, json!({ "n": number }), options(), now);
        block_on(put).expect("puts");
        let query = ItemQuery {
            filter: Filter::parse(&json!({ "n": { "$gte": 0 } })).expect("a filter"),
            ttl: Ttl::Refresh,
            ..ItemQuery::default()
        };
        let within = Prefix::all();
        block_on(store.search_items(&who, &within, &query, now)).expect("searches");
        if turn % 3 == 0 {
            // Repeated imports, whose items are retained.
            let came = [came("a", number), came("a.b", turn % 2)].to_vec();
            block_on(store.put_stored_items(&who, came, now)).expect("imports");
        }
        if turn % 5 == 0 {
            block_on(store.delete_item(&who, &item, now)).expect("deletes");
        }
    }
}

#[test]
fn many_at_once_neither_block_each_other_nor_begin_a_namespace_twice() {
    let schema = Schema::new("items_rush");
    let stores = [schema.open(), schema.open()];
    std::thread::scope(|scope| {
        for number in 0..6_i64 {
            let store = &stores[usize::from(number % 2 == 0)];
            scope.spawn(move || rush(store, number));
        }
    });
    // Final writes of all threads, so that namespaces are created again concurrently.
    let now = Timestamp(1_000);
    let who = Principal::local();
    std::thread::scope(|scope| {
        for number in 0..6_i64 {
            let store = &stores[usize::from(number % 2 == 0)];
            let who = &who;
            scope.spawn(move || {
                for path in ["a", "a.b", "b"] {
                    let item = at(path, &format!("last {number}"));
                    let put = store.put_item(who, &item, json!({}), PutOptions::default(), now);
                    block_on(put).expect("puts");
                }
            });
        }
    });
    let query = ItemQuery { limit: usize::MAX, ..ItemQuery::default() };
    let within = Prefix::all();
    let found = block_on(stores[0].search_items(&who, &within, &query, now)).expect("searches");
    let mut order: Vec<_> = found.iter().map(|item| item.namespace.to_string()).collect();
    // The final writes and the imported items.
    assert_eq!(order.len(), 18 + 8);
    order.dedup();
    assert_eq!(order.len(), 3, "each namespace stands together: {order:?}");
}
