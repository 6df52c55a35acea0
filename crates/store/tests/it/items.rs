//! Tests of names, filters and terms of items.

use serde_json::{Value, json};
use weftwork_store::items::{
    KEY_BYTES_MAX, NAMESPACE_BYTES_MAX, NAMESPACE_LABELS_MAX, NamespaceProblem, Selection,
    TERMS_MAX, Terms,
};
use weftwork_store::{
    Filter, Indexing, ItemQuery, ItemRef, Namespace, Pattern, Prefix, StoreError,
};
use weftwork_types::canonical::DEPTH_MAX;

fn problem(labels: &[&str]) -> Option<NamespaceProblem> {
    match Namespace::new(labels.iter().copied()) {
        Ok(_) => None,
        Err(StoreError::BadNamespace { problem, .. }) => Some(problem),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn namespaces_refuse_labels_that_mean_something_else() {
    use NamespaceProblem as P;
    assert_eq!(problem(&["u", "Ann Ä/%:~"]), None);
    assert_eq!(problem(&["u", "langgraph", "weftwork"]), None);
    assert_eq!(problem(&[]), Some(P::Empty));
    assert_eq!(problem(&["u", ""]), Some(P::EmptyLabel { number: 2 }));
    assert_eq!(problem(&["a.b"]), Some(P::Character { number: 1, found: '.' }));
    assert_eq!(problem(&["u", "x", "\0"]), Some(P::Character { number: 3, found: '\0' }));
    assert_eq!(problem(&["u", "*"]), Some(P::Wildcard { number: 2 }));
    for root in ["weftwork", "langgraph"] {
        assert_eq!(problem(&[root, "x"]), Some(P::Reserved { label: root.to_owned() }));
    }
}

#[test]
fn namespaces_and_keys_have_limits() {
    use NamespaceProblem as P;
    let deep = |labels| problem(&vec!["l"; labels]);
    assert_eq!(deep(NAMESPACE_LABELS_MAX), None);
    assert_eq!(deep(NAMESPACE_LABELS_MAX + 1), Some(P::TooDeep { found: 17 }));
    let long = |bytes: usize| problem(&["u", &"x".repeat(bytes - 2)]);
    assert_eq!(long(NAMESPACE_BYTES_MAX), None);
    assert_eq!(long(NAMESPACE_BYTES_MAX + 1), Some(P::TooLong { found: 1025 }));
    let namespace = Namespace::new(["u"]).expect("a namespace");
    let key = |key: &str| ItemRef::new(namespace.clone(), key).is_ok();
    assert!(key("any . key / * ü") && key(&"k".repeat(KEY_BYTES_MAX)));
    assert!(!key("") && !key("a\0b") && !key(&"k".repeat(KEY_BYTES_MAX + 1)));
}

#[test]
fn a_prefix_has_no_wildcards_and_may_be_empty() {
    assert_eq!(Prefix::new(Vec::<String>::new()), Ok(Prefix::all()));
    assert_eq!(
        Prefix::new(["langgraph"]).map(|p| p.labels().to_vec()),
        Ok(vec!["langgraph".into()])
    );
    for bad in ["*", "a.b", ""] {
        assert!(Prefix::new(["u", bad]).is_err(), "{bad:?}");
    }
    assert!(Pattern::new(["*", "u"]).is_ok());
    assert!(Pattern::new(["*", ""]).is_err());
    assert!(Pattern::new(vec!["*"; NAMESPACE_LABELS_MAX + 1]).is_err());
}

#[test]
fn a_namespace_is_a_list_in_json_and_dotted_in_words() {
    let namespace: Namespace = "u.ann.facts".parse().expect("a namespace");
    let json = serde_json::to_value(&namespace).expect("writes");
    assert_eq!(json, json!(["u", "ann", "facts"]));
    assert_eq!(serde_json::from_value::<Namespace>(json).ok().as_ref(), Some(&namespace));
    assert_eq!(namespace.to_string(), "u.ann.facts");
    assert!(serde_json::from_value::<Namespace>(json!(["langgraph"])).is_err());
    assert!("u..x".parse::<Namespace>().is_err());
}

#[test]
fn paths_of_namespaces_that_begin_alike_stand_together() {
    let within = Prefix::new(["u", "a"]).expect("a prefix");
    let (first, end) = within.paths();
    let all = ["u", "u.a", "u.a.b", "u.a.!", "u.a.\u{10ffff}", "u.a-", "u.a/", "u.a0", "u.A", "v"];
    for dotted in all {
        let namespace: Namespace = dotted.parse().expect("a namespace");
        let path = namespace.path();
        assert_eq!(Namespace::of_path(&path).as_ref(), Ok(&namespace));
        let begins = namespace.labels().starts_with(within.labels());
        assert_eq!((&first..&end).contains(&&path), begins, "{path}");
        let (first, end) = Prefix::all().paths();
        assert!((first..end).contains(&path), "{path}");
    }
    for bad in ["", ".", "..", "u", ".u", "u.", ".u..", ".langgraph."] {
        assert!(Namespace::of_path(bad).is_err(), "{bad}");
    }
    let pattern = Pattern::new(["u", "a", "*", "x"]).expect("a pattern");
    assert_eq!(pattern.prefix(), within);
}

#[test]
fn a_selection_keeps_no_more_than_it_is_asked_for() {
    let query = |text: Option<&str>, limit, offset| ItemQuery {
        text: text.map(str::to_owned),
        limit,
        offset,
        ..ItemQuery::default()
    };
    let select = |query: &ItemQuery| {
        let mut selection = Selection::new(query);
        let texts = ["a", "a b", "xa", "b a", "c"];
        for text in texts {
            selection.offer(&json!({"text": text}), &Indexing::All, text);
        }
        selection.finish().into_iter().map(|(text, _)| text).collect::<Vec<_>>()
    };
    assert_eq!(select(&query(None, 2, 1)), ["a b", "xa"]);
    assert_eq!(select(&query(Some("?"), 2, 4)), ["c"], "there is no word to search for");
    assert_eq!(select(&query(Some("a b"), 2, 0)), ["a b", "b a"]);
    assert_eq!(select(&query(Some("a b"), 2, 1)), ["b a", "a"]);
    assert_eq!(select(&query(Some("a b"), 9, 3)), ["xa"]);
    assert_eq!(select(&query(Some("a b"), 0, 0)), Vec::<&str>::new());
    assert_eq!(select(&query(None, usize::MAX, usize::MAX)), Vec::<&str>::new());
}

#[test]
fn filters_say_what_they_do_not_understand() {
    let refused = |json: Value| match Filter::parse(&json) {
        Err(StoreError::BadFilter { location, expected, found }) => (location, expected, found),
        other => panic!("{json}: {other:?}"),
    };
    let operators = "one of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`";
    for (json, expected) in [
        (json!([1]), ("filter", "an object of conditions", "a list")),
        (json!({"$eq": 1}), ("filter", "the name of a field", "$eq")),
        (json!({"a": {"b": {"$in": [1]}}}), ("filter at `a.b`", operators, "$in")),
        (json!({"a": {"$gt": 1, "b": 2}}), ("filter at `a`", operators, "b")),
        (json!({"a": {"$lt": null}}), ("filter at `a.$lt`", "a number or a text", "null")),
    ] {
        let (location, what, found) = refused(json);
        assert_eq!((location.as_str(), what.as_str(), found.as_str()), expected);
    }
    let deep = (0..=DEPTH_MAX).fold(json!(1), |inner, _| json!({"a": inner}));
    assert_eq!(refused(deep).1, "at most 100 levels");
}

#[test]
fn filters_compare_by_value_and_kind() {
    let holds =
        |filter: Value, value: Value| Filter::parse(&filter).expect("a filter").matches(&value);
    let yes = [
        (json!({"a": 1}), json!({"a": 1.0})),
        (json!({"a": {"$eq": {"x": [1], "y": 2}}}), json!({"a": {"y": 2.0, "x": [1.0]}})),
        (json!({"a": {"$gt": 9_007_199_254_740_992_i64}}), json!({"a": 9_007_199_254_740_993_i64})),
        (json!({"a": {"$gte": u64::MAX}}), json!({"a": u64::MAX})),
        (json!({"a": {"$lt": "b"}}), json!({"a": "a"})),
        (json!({"a": {}}), json!({"a": {"x": 1}})),
        (json!({"a": []}), json!({"a": []})),
        (json!({"a": {"$ne": 1}}), json!({})),
    ];
    let no = [
        (json!({"a": 1}), json!({"a": true})),
        (json!({"a": 1}), json!({"a": "1"})),
        (json!({"a": {"$lt": 5}}), json!({"a": "1"})),
        (json!({"a": {"$lt": 5}}), json!({})),
        (json!({"a": {"$eq": {"x": 1}}}), json!({"a": {"x": 1, "y": 2}})),
        (json!({"a": [1]}), json!({"a": [1, 2]})),
        (json!({"a": {}}), json!({"a": 1})),
        (json!({"a": 1, "b": 2}), json!({"a": 1})),
    ];
    yes.into_iter().for_each(|(f, v)| assert!(holds(f.clone(), v.clone()), "{f} {v}"));
    no.into_iter().for_each(|(f, v)| assert!(!holds(f.clone(), v.clone()), "{f} {v}"));
}

#[test]
fn terms_are_words_whatever_their_case() {
    let score = |text: &str, value: &Value| Terms::of(text)?.score(value, &Indexing::All);
    let value = json!({"name": "Österreich", "other": ["東京は雨です", true]});
    assert_eq!(score("ÖSTERREICH", &value), Some(1.0));
    assert_eq!(score("reich", &value), Some(0.5));
    assert_eq!(score("東京", &value), Some(0.5));
    assert_eq!(score("österreich, bulgaria", &value), Some(0.5));
    assert_eq!(score("true", &value), None);
    assert_eq!(Terms::of("  -- !"), None);
    let many: String = (0..100).map(|n| format!("w{n} ")).collect();
    let first: String = (0..TERMS_MAX).map(|n| format!("w{n} ")).collect();
    assert_eq!(Terms::of(&many), Terms::of(&first));
}
