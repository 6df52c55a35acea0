//! Secret arguments of tools, and their shown form.
//!
//! A schema of arguments marks a part as secret with `"x-secret": true`. The tool and the policy
//! read the exact arguments. Events, streams, questions and logs contain the shown form, in which
//! secret parts are replaced by a text.

mod hidden;

pub use hidden::{HIDDEN_TEXT, HiddenValues};

use hidden::{SEARCHED_BYTES_MIN, collect};
use serde_json::Value;

/// Keyword of a schema that marks a part of the arguments as secret.
pub const X_SECRET: &str = "x-secret";
/// Text in place of a secret part.
pub const SECRET: &str = "[secret]";

/// Returns `true` if a schema marks a part as secret.
#[must_use]
pub fn has_secrets(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get(X_SECRET) == Some(&Value::Bool(true)) || members.values().any(has_secrets)
        }
        Value::Array(items) => items.iter().any(has_secrets),
        _ => false,
    }
}

/// Removes the marks from a schema, for models.
pub fn strip(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(X_SECRET);
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Returns the shown form of arguments; `None` if the schema marks nothing as secret, so that the
/// arguments are shown as they are.
///
/// Beside secret parts, everything that the schema does not describe is hidden: arguments that break
/// the schema may have the secret elsewhere. A secret that another argument repeats is hidden there
/// too.
#[must_use]
pub fn shown_args(schema: &Value, args: &Value) -> Option<Value> {
    has_secrets(schema).then(|| {
        let mut shown = shown(schema, args);
        let by = shown.clone();
        hide_repeated(&mut shown, args, &by);
        shown
    })
}

/// Replaces the secret parts of arguments wherever a value repeats them, given the shown form of
/// the arguments. A secret of one or two bytes is found only where it is the whole of a text.
pub fn hide_repeated(value: &mut Value, args: &Value, shown: &Value) {
    let mut secrets = Vec::new();
    collect(args, Some(shown), &mut secrets);
    secrets.retain(|secret| !secret.is_empty());
    // A secret may be a part of another one.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    if !secrets.is_empty() {
        hide(value, &secrets);
    }
}

fn hide(value: &mut Value, secrets: &[String]) {
    match value {
        Value::String(text) => {
            for secret in secrets {
                if text == secret {
                    SECRET.clone_into(text);
                } else if secret.len() >= SEARCHED_BYTES_MIN && text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), SECRET);
                }
            }
        }
        Value::Number(number) => {
            let text = number.to_string();
            if secrets.contains(&text) {
                *value = SECRET.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secrets)),
        Value::Object(members) => members.values_mut().for_each(|member| hide(member, secrets)),
        Value::Bool(_) | Value::Null => {}
    }
}

fn shown(schema: &Value, value: &Value) -> Value {
    if !has_secrets(schema) && schema.get("$ref").is_none() {
        return value.clone();
    }
    let hidden = Value::String(SECRET.to_owned());
    if schema.get(X_SECRET) == Some(&Value::Bool(true)) {
        return hidden;
    }
    match (value, schema.get("properties"), schema.get("items")) {
        (Value::Object(members), Some(declared), _) => {
            let mut parts = serde_json::Map::new();
            for (name, member) in members {
                match declared.get(name) {
                    Some(schema) => parts.insert(name.clone(), shown(schema, member)),
                    // The name may be the secret.
                    None => parts.insert(SECRET.to_owned(), hidden.clone()),
                };
            }
            Value::Object(parts)
        }
        (Value::Array(items), _, Some(schema)) => {
            items.iter().map(|item| shown(schema, item)).collect()
        }
        _ => hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_parts_and_undeclared_ones_are_hidden() {
        let pin = || json!({"type": "string", "x-secret": true});
        let schema = json!({"type": "object", "properties": {
            "user": {"type": "string"},
            "pin": pin(),
            "auth": {"type": "object", "properties": {"token": pin(), "realm": {}}},
            "cards": {"type": "array", "items": {"type": "object", "properties": {"cvc": pin()}}},
            "any": {"anyOf": [pin(), {"type": "null"}]},
        }});
        let args = json!({"user": "ada", "pin": "4711", "auth": {"token": "t0ken", "realm": "r"},
            "cards": [{"cvc": 123}, "loose"], "any": "some", "other": "more"});
        let shown = shown_args(&schema, &args).expect("has secrets");
        assert_eq!(
            shown,
            json!({"user": "ada", "pin": SECRET, "auth": {"token": SECRET, "realm": "r"},
                "cards": [{"cvc": SECRET}, SECRET], "any": SECRET, SECRET: SECRET})
        );
        let hidden = HiddenValues::default();
        hidden.add_args(&args, &shown);
        let text = "ada used 4711, t0ken, 123, loose and r";
        let expected = "ada used [secret], [secret], [secret], [secret] and r";
        assert_eq!(hidden.shape(text), expected);
        assert_eq!(shown_args(&schema, &json!("{\"pin\": 47")), Some(json!(SECRET)));
        let mut open = schema;
        strip(&mut open);
        assert_eq!(shown_args(&open, &args), None);
    }

    #[test]
    fn a_secret_that_another_argument_repeats_is_hidden_there_too() {
        let schema = json!({"type": "object", "properties": {
            "login": {"type": "string"}, "pin": {"type": "string", "x-secret": true},
            "code": {"type": "integer"}, "tag": {"type": "string"},
            "two": {"type": "string", "x-secret": true},
        }});
        let args =
            json!({"login": "ada:4711", "pin": "4711", "code": 4711, "tag": "7x", "two": "7x"});
        let expected = json!({"login": "ada:[secret]", "pin": SECRET, "code": SECRET,
            "tag": SECRET, "two": SECRET});
        assert_eq!(shown_args(&schema, &args), Some(expected));
    }
}
