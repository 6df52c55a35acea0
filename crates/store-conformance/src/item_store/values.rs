use super::Bench;
use super::fixture::{at, lives, prefix, principal, us};
use serde_json::{Value, json};
use weftwork_store::StoreError;
use weftwork_store::items::{
    Item, ItemQuery, KEY_BYTES_MAX, Namespace, NamespaceQuery, Prefix, PutOptions, Ttl,
    VALUE_BYTES_MAX,
};
use weftwork_types::Timestamp;
use weftwork_types::canonical::DEPTH_MAX;

pub(super) async fn what_was_put_is_read_back(bench: Bench) {
    assert_eq!(bench.get("u.ann/k").await, None);
    let value = json!({
        "text": "Grüße \u{1f600} \u{0} \" \\ '", "z": 1, "a": [true, null, {}, []], "": {"x": {"y": -0.5}},
        "big": [u64::MAX, i64::MIN, 1e300, 1.0],
    });
    bench.put("u.ann/a key: %_' ü", value.clone()).await;
    let item = bench.get("u.ann/a key: %_' ü").await.expect("is there");
    let order: Vec<_> = item.value.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(order, ["text", "z", "a", "", "big"], "the order of the fields is kept");
    let expected = Item {
        namespace: "u.ann".parse().expect("a namespace"),
        key: "a key: %_' ü".to_owned(),
        value,
        created_at: Timestamp(1_000),
        updated_at: Timestamp(1_000),
        expires_at: None,
        score: None,
    };
    assert_eq!(item, expected);
    assert_eq!(bench.found("u", &ItemQuery::default()).await, [expected]);
    for other in ["u.ann/a key: %_' u", "u.bob/a key: %_' ü", "u/a key: %_' ü", "u.ann.x/k"] {
        assert_eq!(bench.get(other).await, None, "{other}");
    }
}

pub(super) async fn a_put_replaces_the_value_and_keeps_the_first_time(bench: Bench) {
    bench.put("u/k", json!({"a": 1, "b": 2})).await;
    bench.wait(5);
    bench.put("u/k", json!({"a": 3})).await;
    let item = bench.get("u/k").await.expect("is there");
    assert_eq!(item.value, json!({"a": 3}));
    assert_eq!((item.created_at, item.updated_at), (Timestamp(1_000), Timestamp(1_005)));
}

pub(super) async fn a_deleted_item_is_gone(bench: Bench) {
    bench.put("u/k", json!({})).await;
    bench.put("u/other", json!({})).await;
    assert!(bench.delete("u/k").await);
    assert_eq!(bench.get("u/k").await, None);
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/other"]);
    assert!(!bench.delete("u/k").await, "there is nothing left");
    assert!(!bench.delete("never.was/there").await);
    bench.wait(5);
    bench.put("u/k", json!({"again": true})).await;
    assert_eq!(bench.get("u/k").await.map(|item| item.created_at), Some(Timestamp(1_005)));
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/other", "u/k"]);
}

pub(super) async fn values_at_the_limits_are_kept_and_beyond_them_refused(bench: Bench) {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    let long = |bytes: usize| json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
    let labels: Vec<_> = (0..16).map(|n| format!("{}{n:x}", "n".repeat(62))).collect();
    let namespace = Namespace::new(labels).expect("16 labels of 63 bytes and 15 dots");
    let at =
        weftwork_store::items::ItemRef::new(namespace, "k".repeat(KEY_BYTES_MAX)).expect("a key");
    let none = PutOptions::default;
    for value in [deep(DEPTH_MAX), long(VALUE_BYTES_MAX)] {
        bench.store.put(&us(), &at, value.clone(), none()).await.expect("puts");
        let read = bench.store.get(&us(), &at, Ttl::Keep).await.expect("gets");
        assert!(read.is_some_and(|item| item.value == value));
    }
    let refused = [deep(DEPTH_MAX + 1), long(VALUE_BYTES_MAX + 1), json!([1]), Value::Null];
    for value in refused {
        let put = bench.store.put(&us(), &at, value, none()).await;
        assert!(matches!(put, Err(StoreError::BadValue { .. })), "{put:?}");
    }
    let kept = bench.store.get(&us(), &at, Ttl::Keep).await.expect("gets").expect("is there");
    assert_eq!(kept.value, long(VALUE_BYTES_MAX), "what was refused changed nothing");
}

pub(super) async fn clearing_takes_what_begins_alike_and_nothing_else(bench: Bench) {
    let them = principal("them");
    for path in ["u.ann/k", "u.ann.facts/k", "u.ann.facts/l", "u.anna/k", "u/ann", "v/k"] {
        bench.put(path, json!({})).await;
        let put = bench.store.put(&them, &at(path), json!({}), PutOptions::default()).await;
        assert_eq!(put, Ok(()));
    }
    bench.put_with("u.ann/short", json!({}), lives(5)).await;
    bench.wait(5);
    assert_eq!(bench.store.clear(&us(), &prefix("u.ann")).await, Ok(3), "one had expired");
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u.anna/k", "u/ann", "v/k"]);
    assert_eq!(bench.store.sweep(9).await, Ok(0), "what had expired is gone as well");
    assert_eq!(bench.store.clear(&us(), &prefix("u.ann")).await, Ok(0));
    assert_eq!(bench.store.clear(&us(), &Prefix::all()).await, Ok(3));
    assert_eq!(bench.namespaces(&NamespaceQuery::default()).await, Vec::<String>::new());
    let theirs = bench.store.search(&them, &Prefix::all(), &ItemQuery::default()).await;
    assert_eq!(theirs.map(|items| items.len()), Ok(6));
}

pub(super) async fn another_organisation_sees_nothing(bench: Bench) {
    let them = principal("them");
    bench.put("u/k", json!({"text": "word"})).await;
    let store = &bench.store;
    let word = Some("word".to_owned());
    assert_eq!(store.get(&them, &at("u/k"), Ttl::Refresh).await, Ok(None));
    let query = ItemQuery { text: word, ..ItemQuery::default() };
    for query in [query, ItemQuery::default()] {
        assert_eq!(store.search(&them, &Prefix::all(), &query).await, Ok(Vec::new()));
    }
    assert_eq!(store.namespaces(&them, &NamespaceQuery::default()).await, Ok(Vec::new()));
    assert_eq!(store.delete(&them, &at("u/k")).await, Ok(false));
    assert!(bench.get("u/k").await.is_some());
}

pub(super) async fn organisations_may_use_the_same_names(bench: Bench) {
    let them = principal("them");
    bench.put("u/k", json!({"of": "us"})).await;
    let theirs = || json!({"of": "them"});
    let put = bench.store.put(&them, &at("u/k"), theirs(), PutOptions::default()).await;
    assert_eq!(put, Ok(()));
    assert_eq!(bench.get("u/k").await.map(|item| item.value), Some(json!({"of": "us"})));
    assert!(bench.delete("u/k").await);
    let left = bench.store.get(&them, &at("u/k"), Ttl::Keep).await.expect("gets");
    assert_eq!(left.map(|item| item.value), Some(theirs()));
}
