//! Three-way merges.

use super::records::{deliverable, edit, markdown, new, principal, store};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write as _;
use weftwork_platform::records::{
    ContentFormat, Form, Merge, MergeConflict, Record, RecordError, Records, merge_contents,
};
use weftwork_types::Timestamp;

fn lines(base: &str, a: &str, b: &str) -> Result<String, Vec<MergeConflict>> {
    let text =
        |words: &str| words.split_whitespace().fold(String::new(), |text, word| text + word + "\n");
    let merged = merge_contents(ContentFormat::Markdown, Some(&text(base)), &text(a), &text(b));
    merged.map(|merged| merged.replace('\n', " ").trim_end().to_owned())
}

#[test]
fn texts_are_merged_by_lines() {
    for (base, a, b, expected) in [
        ("1 2 3 4 5", "1 2 3 4 5", "1 2 3 4 5", "1 2 3 4 5"),
        ("1 2 3 4 5", "A 2 3 4 5", "1 2 3 4 B", "A 2 3 4 B"),
        ("1 2 3 4 5", "1 2 3 4 5 6", "0 1 2 3 4 5", "0 1 2 3 4 5 6"),
        ("1 2 3 4 5", "1 2 4 5", "1 2 3 4 5 6", "1 2 4 5 6"),
        ("1 2 3 4 5", "1 X 3 4 5", "1 X 3 4 5", "1 X 3 4 5"),
        ("1 2 3 4 5", "1 X 3 4 5", "1 X 3 Y 5", "1 X 3 Y 5"),
        ("1 2 3 4 5", "", "1 2 3 4 5", ""),
        ("1 2 3", "1 a b 2 3", "1 2 c d 3", "1 a b 2 c d 3"),
        ("", "1 2", "1 2", "1 2"),
        ("", "", "1 2", "1 2"),
    ] {
        assert_eq!(lines(base, a, b).as_deref(), Ok(expected), "{base} | {a} | {b}");
        assert_eq!(lines(base, b, a).as_deref(), Ok(expected), "{base} | {b} | {a}");
    }
    let merged = merge_contents(ContentFormat::Html, Some("a\nb"), "a\nb\nc", "A\nb");
    assert!(merged.is_err(), "the last line without a break is another line");
    let merged = merge_contents(ContentFormat::Html, Some("x\ny\nb"), "x\ny\nb\nc", "A\ny\nb");
    assert_eq!(merged.as_deref(), Ok("A\ny\nb\nc"));
}

#[test]
fn conflicts_of_texts_and_values_are_shown() {
    let mut report = String::new();
    let mut show = |name: &str, merged: Result<String, Vec<MergeConflict>>| {
        writeln!(report, "{name}").expect("writes");
        for conflict in merged.expect_err(name) {
            let values = [&conflict.base, &conflict.a, &conflict.b].map(|text| text.as_deref());
            writeln!(report, "  {}: {values:?}", conflict.location).expect("writes");
        }
    };
    show("one line", lines("1 2 3", "1 A 3", "1 B 3"));
    show("adjacent lines", lines("1 2 3 4", "1 A 3 4", "1 2 B 4"));
    show("added at one place", lines("1 2", "1 A 2", "1 B 2"));
    show("deleted and changed", lines("1 2 3", "1 3", "1 B 3"));
    show("two places", lines("1 2 3 4 5", "A 2 3 4 A", "B 2 3 4 B"));
    show("no base", merge_contents(ContentFormat::Markdown, None, "a\n", "b\n"));
    let json = |base: Option<Value>, a: Value, b: Value| {
        let base = base.map(|base| base.to_string());
        let texts = [a, b].map(|value| value.to_string());
        merge_contents(ContentFormat::Json, base.as_deref(), &texts[0], &texts[1])
    };
    show(
        "scalar",
        json(Some(json!({"a": {"b/c": 1}})), json!({"a": {"b/c": 2}}), json!({"a": {"b/c": 3}})),
    );
    show("array", json(Some(json!([1])), json!([1, 2]), json!([0, 1])));
    show(
        "deleted member",
        json(Some(json!({"a": [1], "b": 1})), json!({"b": 1}), json!({"a": [2], "b": 1})),
    );
    show("added member", json(Some(json!({})), json!({"a": 1}), json!({"a": 2})));
    show("kinds", json(Some(json!({"a": 1})), json!({"a": {"b": 1}}), json!({"a": null})));
    show("no base of values", json(None, json!({"a": 1}), json!({"a": 2})));
    insta::assert_snapshot!(report);
}

#[test]
fn values_are_merged_by_members() {
    for (base, a, b, expected) in [
        (json!({}), json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
        (json!({"a": 1, "b": 2}), json!({"a": 1}), json!({"a": 3, "b": 2}), json!({"a": 3})),
        (
            json!({"a": {"x": 1, "y": [1]}, "z": null}),
            json!({"a": {"x": 2, "y": [1]}, "z": null}),
            json!({"a": {"x": 1, "y": [1, 2]}}),
            json!({"a": {"x": 2, "y": [1, 2]}}),
        ),
        (
            json!({"a": 1}),
            json!({"a": {"x": 1}}),
            json!({"a": {"y": 2}}),
            json!({"a": {"x": 1, "y": 2}}),
        ),
    ] {
        for (a, b) in [(&a, &b), (&b, &a)] {
            let merged = merge_contents(
                ContentFormat::Json,
                Some(&base.to_string()),
                &a.to_string(),
                &b.to_string(),
            );
            let merged: Value = serde_json::from_str(&merged.expect("merges")).expect("is JSON");
            assert_eq!(merged, expected);
        }
    }
    // A text whose value is that of the base gives the other text as it is.
    let merged =
        merge_contents(ContentFormat::Json, Some("{\"a\":1}"), "{ \"a\": 1 }", "{\"a\":  2}");
    assert_eq!(merged.as_deref(), Ok("{\"a\":  2}"));
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof!["[a-d]", Just(String::new())];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn contents() -> impl Strategy<Value = (ContentFormat, [String; 3])> {
    let values = [value(), value(), value()];
    prop_oneof![
        [text(), text(), text()].prop_map(|texts| (ContentFormat::Markdown, texts)),
        values.prop_map(|values| (ContentFormat::Json, values.map(|value| value.to_string()))),
    ]
}

proptest! {
    #[test]
    fn merges_keep_what_one_side_left_and_do_not_depend_on_the_order(found in contents()) {
        let (format, [base, a, b]) = found;
        let merge = |base: &str, a: &str, b: &str| merge_contents(format, Some(base), a, b);
        prop_assert_eq!(merge(&base, &a, &a), Ok(a.clone()));
        prop_assert_eq!(merge(&base, &a, &base), Ok(a.clone()));
        prop_assert_eq!(merge(&base, &base, &b), Ok(b.clone()));
        match (merge(&base, &a, &b), merge(&base, &b, &a)) {
            (Ok(one), Ok(other)) if format == ContentFormat::Json => {
                let one: Value = serde_json::from_str(&one).expect("is JSON");
                prop_assert_eq!(Ok(one), serde_json::from_str(&other).map_err(|error| error.to_string()));
            }
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (Err(one), Err(other)) => {
                let mut places: Vec<_> = one.into_iter().map(|conflict| conflict.location.to_string()).collect();
                let mut others: Vec<_> = other.into_iter().map(|conflict| conflict.location.to_string()).collect();
                places.sort();
                others.sort();
                prop_assert_eq!(places, others);
            }
            (one, other) => prop_assert!(false, "{:?} {:?}", one, other),
        }
    }
}

#[test]
fn texts_that_differ_in_many_lines_are_merged_in_bounded_time() {
    let text = |seed: u64| {
        let mut state = seed;
        (0..200_000).fold(String::new(), |mut text, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            text.push(char::from(b'a' + (state >> 60) as u8));
            text.push('\n');
            text
        })
    };
    let conflicts = merge_contents(ContentFormat::Markdown, Some(&text(1)), &text(3), &text(5));
    assert_eq!(conflicts.expect_err("all is different").len(), 1);
}

async fn fork(records: &Records<'_>, id: &str, texts: [&str; 3]) -> Record {
    let at = deliverable(id);
    records.create(&at, &new(texts[0]), &markdown()).await.expect("creates");
    records.edit(&at, &edit(Some(1), texts[1]), &markdown()).await.expect("edits");
    records.set_current(&at, 1).await.expect("sets");
    records.edit(&at, &edit(Some(1), texts[2]), &markdown()).await.expect("edits")
}

#[tokio::test]
async fn versions_are_merged_since_the_newest_one_that_both_continue() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let form = markdown();
    let record = fork(&records, "d1", ["1\n2\n3\n", "A\n2\n3\n", "1\n2\nB\n"]).await;
    let at = record.at.clone();
    let merge = |a, b| Merge { a, b, resolution: None };
    let merged = records.merge_versions(&at, &merge(2, 3), &form).await.expect("merges");
    let version = merged.current_version().expect("is there");
    assert_eq!((version.number, version.parent, version.merge_of), (4, Some(2), Some(3)));
    let content = records.content(&merged, None).await.expect("reads").content;
    assert_eq!(content, "A\n2\nB\n");
    // A version that was merged before brings nothing new, also if versions between are deleted.
    records.edit(&at, &edit(Some(4), "A\n2\nC\n"), &form).await.expect("edits");
    records.delete_version(&at, 4).await.expect("deletes");
    let merged = records.merge_versions(&at, &merge(5, 3), &form).await.expect("merges");
    let content = records.content(&merged, None).await.expect("reads").content;
    assert_eq!(content, "A\n2\nC\n");
}

#[tokio::test]
async fn a_merge_with_conflicts_writes_nothing_until_it_is_resolved() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let form = markdown();
    let record = fork(&records, "d1", ["1\n2\n3\n", "1\nA\n3\n", "1\nB\n3\n"]).await;
    let at = record.at.clone();
    let mut merge = Merge { a: 2, b: 3, resolution: None };
    let refused = records.merge_versions(&at, &merge, &form).await;
    let Err(error @ RecordError::Conflicts(_)) = &refused else { panic!("{refused:?}") };
    assert_eq!(error.code().0, "W1021");
    assert!(error.to_string().contains("both change line 2; merge them again"), "{error}");
    let Err(RecordError::Conflicts(conflicts)) = refused else { panic!("as before") };
    assert_eq!((conflicts.base, conflicts.conflicts.len()), (Some(1), 1));
    assert_eq!(records.read(&at).await, Ok(record));
    merge.resolution = Some("1\nboth\n3\n".to_owned());
    let merged = records.merge_versions(&at, &merge, &form).await.expect("merges");
    let version = merged.current_version().expect("is there");
    assert_eq!((version.parent, version.merge_of), (Some(2), Some(3)));
    // What cannot be merged.
    let one = Merge { a: 2, b: 2, resolution: None };
    let refused = records.merge_versions(&at, &one, &form).await.expect_err("one version");
    assert_eq!(refused.code().0, "W1022");
    let html = Form::of_format(ContentFormat::Html);
    records.edit(&at, &edit(None, "<p>1</p>\n"), &html).await.expect("edits");
    let other = Merge { a: 2, b: 5, resolution: None };
    let refused = records.merge_versions(&at, &other, &form).await.expect_err("two formats");
    assert!(refused.to_string().contains("Markdown and HTML"), "{refused}");
}
