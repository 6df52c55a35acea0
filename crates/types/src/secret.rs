//! Secret arguments of tools, and their shown form.
//!
//! A schema of arguments marks a part as secret with `"x-secret": true`. The tool and the policy
//! read the exact arguments. Events, streams, questions and logs contain the shown form, in which
//! secret parts are replaced by a text.

use serde_json::Value;

/// Keyword of a schema that marks a part of the arguments as secret.
pub const X_SECRET: &str = "x-secret";
/// Text in place of a secret part.
pub const SECRET: &str = "[secret]";
/// Minimum length in bytes of a value that is removed from messages.
const TEXT_BYTES_MIN: usize = 3;

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
/// the schema may have the secret elsewhere.
#[must_use]
pub fn shown_args(schema: &Value, args: &Value) -> Option<Value> {
    has_secrets(schema).then(|| shown(schema, args))
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
            let part = |(name, member): (&String, &Value)| {
                let part = declared.get(name).map(|schema| shown(schema, member));
                (name.clone(), part.unwrap_or_else(|| hidden.clone()))
            };
            Value::Object(members.iter().map(part).collect())
        }
        (Value::Array(items), _, Some(schema)) => {
            items.iter().map(|item| shown(schema, item)).collect()
        }
        _ => hidden,
    }
}

/// Replaces the secret parts of arguments in a text, given the shown form of the arguments.
#[must_use]
pub fn scrub(text: &str, args: &Value, shown: &Value) -> String {
    let mut secrets = Vec::new();
    collect(args, Some(shown), &mut secrets);
    // A secret may be a part of another one.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), SECRET))
}

/// Collects the texts of values that the shown form does not have.
fn collect(value: &Value, shown: Option<&Value>, into: &mut Vec<String>) {
    match (value, shown) {
        (value, Some(same)) if value == same => {}
        (Value::Object(members), shown) => {
            let shown = shown.and_then(Value::as_object);
            for (name, member) in members {
                collect(member, shown.and_then(|shown| shown.get(name)), into);
            }
        }
        (Value::Array(items), shown) => {
            let shown = shown.and_then(Value::as_array);
            for (at, item) in items.iter().enumerate() {
                collect(item, shown.and_then(|shown| shown.get(at)), into);
            }
        }
        (Value::String(text), _) if text.len() >= TEXT_BYTES_MIN => into.push(text.clone()),
        (Value::Number(number), _) if number.to_string().len() >= TEXT_BYTES_MIN => {
            into.push(number.to_string());
        }
        _ => {}
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
                "cards": [{"cvc": SECRET}, SECRET], "any": SECRET, "other": SECRET})
        );
        let text = "ada used 4711, t0ken, 123, loose and r";
        let expected = "ada used [secret], [secret], [secret], [secret] and r";
        assert_eq!(scrub(text, &args, &shown), expected);
        assert_eq!(shown_args(&schema, &json!("{\"pin\": 47")), Some(json!(SECRET)));
        let mut open = schema;
        strip(&mut open);
        assert_eq!(shown_args(&open, &args), None);
    }
}
