use super::Bench;
use super::fixture::{filter, path, text};
use serde_json::json;
use weftwork_store::items::{Indexing, ItemQuery, PutOptions};

fn page(offset: usize, limit: usize) -> ItemQuery {
    ItemQuery { offset, limit, ..ItemQuery::default() }
}

pub(super) async fn items_come_by_namespace_and_by_first_put(bench: Bench) {
    for path in ["u.zoe/k2", "u.ann/k9", "u.zoe/k1", "a/k", "u.ann/k1"] {
        bench.put(path, json!({})).await;
    }
    bench.put("u.zoe/k2", json!({"replaced": true})).await;
    let all = ["u.zoe/k2", "u.zoe/k1", "u.ann/k9", "u.ann/k1", "a/k"];
    assert_eq!(bench.paths("", &ItemQuery::default()).await, all);
    bench.delete("u.zoe/k2").await;
    bench.put("u.zoe/k2", json!({})).await;
    let moved = ["u.zoe/k1", "u.zoe/k2", "u.ann/k9", "u.ann/k1"];
    assert_eq!(bench.paths("u", &ItemQuery::default()).await, moved);
    bench.delete("u.zoe/k1").await;
    bench.delete("u.zoe/k2").await;
    bench.put("u.zoe/k3", json!({})).await;
    let last = ["u.ann/k9", "u.ann/k1", "u.zoe/k3"];
    assert_eq!(bench.paths("u", &ItemQuery::default()).await, last);
}

pub(super) async fn a_prefix_is_made_of_whole_labels(bench: Bench) {
    for path in ["u/k", "us/k", "u.a/k", "u.a.b/k", "u.ab/k", "U/k", "v.u/k", "u%/k", "u_/k"] {
        bench.put(path, json!({})).await;
    }
    let query = page(0, 99);
    assert_eq!(bench.paths("u", &query).await, ["u/k", "u.a/k", "u.a.b/k", "u.ab/k"]);
    assert_eq!(bench.paths("u.a", &query).await, ["u.a/k", "u.a.b/k"]);
    assert_eq!(bench.paths("u%", &query).await, ["u%/k"]);
    assert_eq!(bench.paths("u_", &query).await, ["u_/k"]);
    assert!(bench.paths("u.a.b.c", &query).await.is_empty());
    assert_eq!(bench.paths("", &query).await.len(), 9);
}

pub(super) async fn a_page_is_cut_out_after_the_filter(bench: Bench) {
    for n in 0..25 {
        bench.put(&format!("u/k{n}"), json!({"n": n, "odd": n % 2 == 1})).await;
    }
    assert_eq!(bench.paths("u", &ItemQuery::default()).await.len(), 10, "ten unless told");
    assert_eq!(bench.paths("u", &page(3, 2)).await, ["u/k3", "u/k4"]);
    assert_eq!(bench.paths("u", &page(24, 9)).await, ["u/k24"]);
    assert!(bench.paths("u", &page(25, 9)).await.is_empty());
    assert!(bench.paths("u", &page(0, 0)).await.is_empty());
    assert_eq!(bench.paths("u", &page(usize::MAX, usize::MAX)).await.len(), 0);
    let odd = ItemQuery { offset: 1, limit: 2, ..filter(&json!({"odd": true})) };
    assert_eq!(bench.paths("u", &odd).await, ["u/k3", "u/k5"]);
    let nothing = ItemQuery { text: Some(" ?! ".to_owned()), ..page(3, 2) };
    assert_eq!(bench.paths("u", &nothing).await, ["u/k3", "u/k4"], "a text without words is none");
}

pub(super) async fn a_filter_looks_into_values(bench: Bench) {
    bench.put("u/a", json!({"n": 1, "c": "red", "in": {"x": 1, "y": [1, 2]}})).await;
    bench.put("u/b", json!({"n": 2.5, "c": "blue", "in": {"x": 2}})).await;
    bench.put("u/c", json!({"n": "3", "c": null})).await;
    let cases = [
        (json!({}), "abc"),
        (json!({"c": "red"}), "a"),
        (json!({"c": null}), "c"),
        (json!({"in": null}), "c"),
        (json!({"n": {"$gte": 1, "$lt": 2.5}}), "a"),
        (json!({"n": {"$gt": 1}}), "b"),
        (json!({"n": {"$ne": 1.0}}), "bc"),
        (json!({"c": {"$gte": "blue"}, "n": {"$lte": 2.5}}), "ab"),
        (json!({"in": {"x": {"$gt": 0}}}), "ab"),
        (json!({"in": {"x": 1, "y": [1, {"$gt": 1}]}}), "a"),
        (json!({"in": {"$eq": {"x": 2}}}), "b"),
    ];
    for (json, expected) in cases {
        let found: String =
            bench.found("u", &filter(&json)).await.into_iter().map(|item| item.key).collect();
        assert_eq!(found, expected, "{json}");
    }
}

pub(super) async fn a_text_finds_words_and_ranks_by_how_many(bench: Bench) {
    bench.put("u/none", json!({"text": "nothing of it"})).await;
    bench.put("u/part", json!({"likes": ["GREENTEA"]})).await;
    bench.put("u/one", json!({"text": "Green, as grass"})).await;
    bench.put("u/both", json!({"deep": {"text": ["a cup of green", "TEA!"]}, "n": 42})).await;
    bench.put("w/both", json!({"text": "green tea"})).await;
    let found = bench.found("u", &text("Green  TEA green")).await;
    let ranked: Vec<_> = found.iter().map(|item| (path(item), item.score)).collect();
    let expected = [("u/both", 1.0), ("u/part", 0.5), ("u/one", 0.5)];
    assert_eq!(ranked, expected.map(|(path, score)| (path.to_owned(), Some(score))));
    let second = ItemQuery { offset: 1, limit: 1, ..text("green tea") };
    assert_eq!(bench.paths("u", &second).await, ["u/part"]);
    assert_eq!(bench.paths("u", &text("42")).await, ["u/both"]);
    assert!(bench.paths("u", &text("deep")).await.is_empty(), "names of fields are not looked at");
    let both = ItemQuery { text: Some("green".to_owned()), ..filter(&json!({"n": 42})) };
    assert_eq!(bench.paths("u", &both).await, ["u/both"]);
}

pub(super) async fn only_what_is_indexed_is_found_by_a_text(bench: Bench) {
    let value = || json!({"a": {"b": "apple"}, "list": [{"b": "pear"}, {"c": "plum"}], "d": "fig"});
    let put = |path: &'static str, indexing| {
        bench.put_with(path, value(), PutOptions { indexing, ..PutOptions::default() })
    };
    let paths = |paths: &[&str]| Indexing::Paths(paths.iter().map(ToString::to_string).collect());
    put("u/all", Indexing::All).await;
    put("u/off", Indexing::Off).await;
    put("u/some", paths(&["a.b", "list[*].b", "missing.x"])).await;
    put("u/whole", paths(&["$"])).await;
    for (word, expected) in [
        ("apple", &["u/all", "u/some", "u/whole"][..]),
        ("pear", &["u/all", "u/some", "u/whole"]),
        ("plum", &["u/all", "u/whole"]),
        ("fig", &["u/all", "u/whole"]),
    ] {
        assert_eq!(bench.paths("u", &text(word)).await, expected, "{word}");
    }
    assert_eq!(bench.paths("u", &ItemQuery::default()).await.len(), 4);
    put("u/off", Indexing::All).await;
    assert_eq!(bench.paths("u", &text("fig")).await, ["u/all", "u/off", "u/whole"]);
}
