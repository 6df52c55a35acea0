use super::Bench;
use serde_json::json;
use std::num::NonZeroUsize;
use weftwork_store::items::{NamespaceQuery, Pattern};

async fn filled(bench: &Bench) {
    for path in ["u.zoe.facts/1", "u.ann.facts/1", "w/1", "u.ann/1", "u.ann.facts/2", "U/1"] {
        bench.put(path, json!({})).await;
    }
}

fn pattern(labels: &[&str]) -> Pattern {
    Pattern::new(labels.iter().copied()).expect("a pattern")
}

pub(super) async fn namespaces_are_sorted_and_those_without_items_left_out(bench: Bench) {
    filled(&bench).await;
    bench.get("never.put/k").await;
    let all = ["U", "u.ann", "u.ann.facts", "u.zoe.facts", "w"];
    assert_eq!(bench.namespaces(&NamespaceQuery::default()).await, all);
    let page = NamespaceQuery { offset: 1, limit: 2, ..NamespaceQuery::default() };
    assert_eq!(bench.namespaces(&page).await, all[1..3]);
    bench.delete("u.ann.facts/1").await;
    bench.delete("w/1").await;
    let left = ["U", "u.ann", "u.ann.facts", "u.zoe.facts"];
    assert_eq!(bench.namespaces(&NamespaceQuery::default()).await, left);
}

pub(super) async fn namespaces_are_picked_by_how_they_begin_and_end(bench: Bench) {
    filled(&bench).await;
    let cases: [(&[&str], &[&str], &[&str]); 8] = [
        (&["u"], &[], &["u.ann", "u.ann.facts", "u.zoe.facts"]),
        (&["u", "ann"], &[], &["u.ann", "u.ann.facts"]),
        (&["u", "*", "facts"], &[], &["u.ann.facts", "u.zoe.facts"]),
        (&[], &["facts"], &["u.ann.facts", "u.zoe.facts"]),
        (&[], &["ann", "*"], &["u.ann.facts"]),
        (&["*", "*"], &["ann"], &["u.ann"]),
        (&["u", "ann", "facts", "x"], &[], &[]),
        (&["*"], &["*", "*", "*", "*"], &[]),
    ];
    for (prefix, suffix, expected) in cases {
        let prefix = pattern(prefix);
        let suffix = pattern(suffix);
        let query = NamespaceQuery { prefix, suffix, ..NamespaceQuery::default() };
        assert_eq!(bench.namespaces(&query).await, expected, "{query:?}");
    }
}

pub(super) async fn namespaces_are_cut_off_and_listed_once(bench: Bench) {
    filled(&bench).await;
    let cut =
        |depth| NamespaceQuery { depth_max: NonZeroUsize::new(depth), ..NamespaceQuery::default() };
    assert_eq!(bench.namespaces(&cut(1)).await, ["U", "u", "w"]);
    assert_eq!(bench.namespaces(&cut(2)).await, ["U", "u.ann", "u.zoe", "w"]);
    assert_eq!(bench.namespaces(&cut(9)).await.len(), 5);
    let facts = NamespaceQuery { suffix: pattern(&["facts"]), ..cut(1) };
    assert_eq!(bench.namespaces(&facts).await, ["u"], "how they end is asked before the cut");
    let page = NamespaceQuery { offset: 1, limit: 1, ..cut(1) };
    assert_eq!(bench.namespaces(&page).await, ["u"], "pages are made after it");
}
