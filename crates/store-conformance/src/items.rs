//! Export and import of items. Other properties of items are in
//! [`item_store`](crate::item_store).

use super::fixture::{principal, us};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::items::{Indexing, ItemRef, Namespace, PutOptions, StoredItem, Ttl};
use weftwork_types::Timestamp;

fn item(namespace: &str, key: &str) -> ItemRef {
    let namespace = Namespace::new(namespace.split('.')).expect("labels");
    ItemRef::new(namespace, key).expect("a name")
}

fn for_ms(ttl: u64) -> PutOptions {
    PutOptions { ttl: Some(Duration::from_millis(ttl)), indexing: Indexing::Off }
}

async fn put(store: &dyn Store, at: &ItemRef, value: Value, options: PutOptions, now: i64) {
    store.put_item(&us(), at, value, options, Timestamp(now)).await.expect("puts");
}

/// Stores items of several ages. At 5,000 ms one of them has expired.
async fn filled(store: &dyn Store) -> Vec<StoredItem> {
    let late = item("z", "late");
    let early = item("a.b", "early");
    let kept = item("z", "kept");
    put(store, &late, json!({"n": 1}), for_ms(9_000), 1_000).await;
    put(store, &early, json!({"n": 2}), PutOptions::default(), 1_100).await;
    let paths = Indexing::Paths(vec!["text".to_owned()]);
    let options = PutOptions { ttl: None, indexing: paths };
    put(store, &kept, json!({"text": "ü"}), options, 1_200).await;
    put(store, &item("a.b", "gone"), json!({}), for_ms(100), 1_300).await;
    put(store, &early, json!({"n": 3}), PutOptions::default(), 1_400).await;
    let found = store.item(&us(), &late, Ttl::Refresh, Timestamp(4_000)).await;
    assert!(found.expect("reads").is_some());
    store.stored_items(&us(), Timestamp(5_000)).await.expect("reads")
}

pub(super) async fn items_go_elsewhere_just_as_they_are(store: Arc<dyn Store>) {
    let them = principal("them");
    let now = Timestamp(5_000);
    let all = filled(&*store).await;
    let shown = |of: &StoredItem| {
        let StoredItem { item, ttl, .. } = of;
        (item.key.clone(), item.created_at.0, item.updated_at.0, item.expires_at, *ttl)
    };
    let nine = Some(Duration::from_millis(9_000));
    let expected = [
        ("late".to_owned(), 1_000, 1_000, Some(Timestamp(13_000)), nine),
        ("kept".to_owned(), 1_200, 1_200, None, None),
        ("early".to_owned(), 1_100, 1_400, None, None),
    ];
    assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), expected, "in the order of the store");
    assert_eq!(store.put_stored_items(&them, all.clone(), now).await, Ok(3));
    assert_eq!(store.stored_items(&them, now).await, Ok(all.clone()));
    assert_eq!(store.put_stored_items(&them, all.clone(), now).await, Ok(0), "they are there");
    // A later import contains only the items that have not expired by then.
    let late = store.put_stored_items(&principal("late"), all, Timestamp(13_000)).await;
    assert_eq!(late, Ok(2));
}

pub(super) async fn items_that_are_there_with_another_content_stay(store: Arc<dyn Store>) {
    let them = principal("them");
    let now = Timestamp(5_000);
    let all = filled(&*store).await;
    let other = json!({"text": "other"});
    let kept = item("z", "kept");
    let made = store.put_item(&them, &kept, other, PutOptions::default(), Timestamp(4_500)).await;
    made.expect("puts");
    let before = store.stored_items(&them, now).await.expect("reads");
    let refused = store.put_stored_items(&them, all.clone(), now).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(store.stored_items(&them, now).await, Ok(before.clone()), "nothing was put");
    let mut bad = all;
    bad.truncate(1);
    bad[0].ttl = None;
    let refused = store.put_stored_items(&them, bad.clone(), now).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "it expires: {refused:?}");
    bad[0].item.value = json!([]);
    let refused = store.put_stored_items(&them, bad, now).await;
    assert!(matches!(refused, Err(StoreError::BadValue { .. })), "{refused:?}");
    assert_eq!(store.stored_items(&them, now).await, Ok(before));
}
