use super::Bench;
use super::fixture::{at, lives, principal, text, us};
use serde_json::json;
use weftwork_store::items::{ItemQuery, NamespaceQuery, Ttl};
use weftwork_types::Timestamp;

async fn read(bench: &Bench, path: &str) -> Option<Timestamp> {
    let item = bench.store.get(&us(), &at(path), Ttl::Refresh).await.expect("gets")?;
    item.expires_at
}

pub(super) async fn an_expired_item_is_nowhere(bench: Bench) {
    bench.put_with("short/k", json!({"text": "word"}), lives(100)).await;
    bench.put("long/k", json!({"text": "word"})).await;
    bench.wait(99);
    let item = bench.get("short/k").await.expect("is still there");
    assert_eq!(item.expires_at, Some(Timestamp(1_100)));
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["short/k", "long/k"]);
    bench.wait(1);
    assert_eq!(bench.get("short/k").await, None);
    assert_eq!(read(&bench, "short/k").await, None, "nothing brings it back");
    for query in [ItemQuery::default(), text("word")] {
        assert_eq!(bench.paths("", &query).await, ["long/k"]);
    }
    assert_eq!(bench.namespaces(&NamespaceQuery::default()).await, ["long"]);
    assert!(!bench.delete("short/k").await);
}

pub(super) async fn a_put_sets_the_time_to_live_anew(bench: Bench) {
    for path in ["u/longer", "u/for_ever", "u/shorter"] {
        bench.put_with(path, json!({}), lives(100)).await;
    }
    bench.wait(50);
    bench.put_with("u/longer", json!({}), lives(100)).await;
    bench.put("u/for_ever", json!({})).await;
    bench.put_with("u/shorter", json!({}), lives(10)).await;
    bench.wait(60);
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/longer", "u/for_ever"]);
    assert_eq!(bench.get("u/longer").await.and_then(|i| i.expires_at), Some(Timestamp(1_150)));
    assert_eq!(bench.get("u/for_ever").await.and_then(|item| item.expires_at), None);
    bench.wait(1_000_000);
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/for_ever"]);
}

pub(super) async fn reading_makes_an_item_live_on_when_asked_to(bench: Bench) {
    bench.put_with("u/kept", json!({}), lives(100)).await;
    bench.put_with("u/left", json!({}), lives(100)).await;
    bench.put("u/for_ever", json!({})).await;
    for n in 1..=3 {
        bench.wait(60);
        assert_eq!(read(&bench, "u/kept").await, Some(Timestamp(1_100 + 60 * n)));
        bench.get("u/left").await;
    }
    assert_eq!(bench.get("u/left").await, None);
    assert_eq!(read(&bench, "u/for_ever").await, None, "what lives for ever goes on to");
    let item = bench.get("u/kept").await.expect("is there");
    assert_eq!(item.updated_at, Timestamp(1_000), "reading is no update");
    bench.wait(100);
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/for_ever"]);
}

pub(super) async fn a_search_makes_only_what_it_returns_live_on(bench: Bench) {
    for path in ["u/0", "u/1", "u/2"] {
        bench.put_with(path, json!({}), lives(100)).await;
    }
    bench.wait(60);
    let second = ItemQuery { offset: 1, limit: 1, ..ItemQuery::default() };
    let found = bench.found("u", &ItemQuery { ttl: Ttl::Refresh, ..second }).await;
    let expiries: Vec<_> = found.iter().map(|item| item.expires_at).collect();
    assert_eq!(expiries, [Some(Timestamp(1_160))]);
    bench.found("u", &ItemQuery::default()).await;
    bench.wait(60);
    assert_eq!(bench.paths("u", &ItemQuery::default()).await, ["u/1"]);
}

pub(super) async fn a_sweep_frees_what_expired_and_nothing_else(bench: Bench) {
    let them = principal("them");
    bench.put("u/stays", json!({})).await;
    bench.put_with("u/later", json!({}), lives(1_000)).await;
    bench.put_with("u/a", json!({}), lives(10)).await;
    bench.put_with("v/b", json!({}), lives(20)).await;
    let put = bench.store.put(&them, &at("u/a"), json!({}), lives(30)).await;
    assert_eq!(put, Ok(()));
    assert_eq!(bench.store.sweep(9).await, Ok(0));
    bench.wait(30);
    assert_eq!(bench.store.sweep(2).await, Ok(2), "at most as many as told");
    assert_eq!(bench.store.sweep(9).await, Ok(1));
    assert_eq!(bench.store.sweep(9).await, Ok(0));
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/stays", "u/later"]);
}

pub(super) async fn an_item_put_after_it_expired_is_new(bench: Bench) {
    bench.put_with("u/k", json!({}), lives(10)).await;
    bench.put("u/other", json!({})).await;
    bench.wait(10);
    bench.put("u/k", json!({})).await;
    assert_eq!(bench.get("u/k").await.map(|item| item.created_at), Some(Timestamp(1_010)));
    assert_eq!(bench.paths("", &ItemQuery::default()).await, ["u/other", "u/k"]);
}
