//! Redaction of results: an allowlist of members, never a list of secrets.

use crate::schema::WHOLE;
use serde_json::Value;

/// Returns the members of a result that may be shown.
///
/// An object is reduced to the listed members, and so is each item of a list. Other values become
/// `null`. If the list contains [`WHOLE`], everything is shown. An entry may be a path, such as
/// `hits[].url`: then the same is done with the rest of the path in the member before the dot.
fn redact(value: &Value, shown: &[String]) -> Value {
    if is_whole(shown) {
        return value.clone();
    }
    match value {
        Value::Object(members) => {
            let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
            for entry in shown {
                let (name, rest) = match split(entry) {
                    Some((name, rest)) if !members.contains_key(entry) => (name, rest),
                    _ => (entry.as_str(), WHOLE),
                };
                match parts.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, paths)) => paths.push(rest.to_owned()),
                    None => parts.push((name, vec![rest.to_owned()])),
                }
            }
            let parts = parts.into_iter().filter_map(|(name, paths)| {
                Some((name.to_owned(), redact(members.get(name)?, &paths)))
            });
            Value::Object(parts.collect())
        }
        Value::Array(items) => items.iter().map(|item| redact(item, shown)).collect(),
        _ => Value::Null,
    }
}

/// Returns `true` if the whole of a result may be shown.
pub(crate) fn is_whole(shown: &[String]) -> bool {
    shown.iter().any(|name| name == WHOLE)
}

/// Splits a path into the name of a member and the path within it. Lists need no brackets, because
/// their items are reduced one by one.
fn split(path: &str) -> Option<(&str, &str)> {
    let (name, rest) = path.split_once('.')?;
    let name = name.trim_end_matches("[]");
    (!name.is_empty() && !rest.is_empty()).then_some((name, rest))
}

/// Returns the first member of a path.
pub(crate) fn first_member(path: &str) -> &str {
    split(path).map_or(path, |(name, _)| name)
}

/// Returns the members of a result that may be shown.
pub(crate) fn shown(value: &Value, shown: &[String]) -> Value {
    redact(value, shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_listed_members_are_shown() {
        let order = json!({"id": "A", "card": "4111"});
        for (value, shown, expected) in [
            (order.clone(), names(&["id"]), json!({"id": "A"})),
            (json!([order.clone(), 7, null]), names(&["id"]), json!([{"id": "A"}, null, null])),
            (order.clone(), names(&[]), json!({})),
            (json!("4111"), names(&["id"]), Value::Null),
            (json!("4111"), names(&[WHOLE]), json!("4111")),
            (order.clone(), names(&[WHOLE, "id"]), order),
            (
                json!({"hits": [{"url": "u", "key": 1}, 2], "of": {"a": {"b": 1, "c": 2}, "d": 3}}),
                names(&["hits[].url", "of.a.b", "of.d", "no.such"]),
                json!({"hits": [{"url": "u"}, null], "of": {"a": {"b": 1}, "d": 3}}),
            ),
            (json!({"a.b": 1, "a": {"b": 2}}), names(&["a.b"]), json!({"a.b": 1})),
        ] {
            assert_eq!(redact(&value, &shown), expected);
        }
    }

    #[test]
    fn a_value_that_is_shown_as_it_is_has_no_other_form() {
        let order = json!({"id": "A", "card": "4111"});
        for (value, members, other) in [
            (order.clone(), names(&["id"]), Some(json!({"id": "A"}))),
            (order.clone(), names(&["id", "card"]), None),
            (order, names(&[WHOLE]), None),
            (json!("4111"), names(&["id"]), Some(Value::Null)),
            (Value::Null, names(&["id"]), None),
        ] {
            let form = shown(&value, &members);
            assert_eq!((form != value).then_some(form), other, "{value}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!("SECRET")), Just(json!(1)), Just(Value::Null)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_not_listed_leaves_no_trace(value in any_value()) {
            let shown = redact(&value, &names(&["z"]));
            prop_assert!(!shown.to_string().contains("SECRET"), "{shown}");
        }
    }
}
