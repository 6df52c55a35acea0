//! Redaction of results: an allowlist of members, never a list of secrets.

use crate::schema::WHOLE;
use serde_json::Value;
use weftwork_types::tool::ToolOutcome;

/// Returns the members of a result that may be shown.
///
/// An object is reduced to the listed members, and so is each item of a list. Other values become
/// `null`. If the list contains [`WHOLE`], everything is shown.
fn redact(value: &Value, shown: &[String]) -> Value {
    if shown.iter().any(|name| name == WHOLE) {
        return value.clone();
    }
    match value {
        Value::Object(members) => Value::Object(
            shown
                .iter()
                .filter_map(|name| Some((name.clone(), members.get(name)?.clone())))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(|item| redact(item, shown)).collect(),
        _ => Value::Null,
    }
}

/// Returns the members of a result that may be shown.
pub(crate) fn shown(value: &Value, shown: &[String]) -> Value {
    redact(value, shown)
}

/// Returns the outcome of a call that succeeded, with its shown form unless that is the whole value.
pub(crate) fn outcome(value: Value, shown: &[String]) -> ToolOutcome {
    let redacted = redact(&value, shown);
    let shown = (redacted != value).then_some(redacted);
    ToolOutcome::Ok { value, shown }
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
        ] {
            assert_eq!(redact(&value, &shown), expected);
        }
    }

    #[test]
    fn a_value_that_is_shown_as_it_is_has_no_other_form() {
        let order = json!({"id": "A", "card": "4111"});
        for (value, shown, other) in [
            (order.clone(), names(&["id"]), Some(json!({"id": "A"}))),
            (order.clone(), names(&["id", "card"]), None),
            (order, names(&[WHOLE]), None),
            (json!("4111"), names(&["id"]), Some(Value::Null)),
            (Value::Null, names(&["id"]), None),
        ] {
            let ended = outcome(value.clone(), &shown);
            assert_eq!(ended, ToolOutcome::Ok { value, shown: other });
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
