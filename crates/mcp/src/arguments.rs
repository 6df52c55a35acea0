//! Schemas of arguments as operators allow them: what is secret, and that nothing else is accepted.

use serde_json::{Map, Value, json};
use weftwork_types::secret::{X_SECRET, strip};

/// The path that stands for all arguments.
const ALL: &str = ".";

const COMBINATORS: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"];

/// Returns the schema of a server's tool for models and policies.
///
/// The arguments at the paths are secret; marks of the server are removed, because it could hide
/// from a person what is approved. Arguments that the schema does not declare are refused, unless it
/// asks for them with `additionalProperties` or a similar rule.
///
/// # Errors
/// A path that the schema does not declare.
pub(crate) fn hide_secret_arguments(declared: &Value, secret: &[String]) -> Result<Value, String> {
    let mut schema = declared.clone();
    strip(&mut schema);
    seal_objects(&mut schema);
    secret.iter().try_for_each(|path| mark_secret(&mut schema, path))?;
    Ok(schema)
}

/// Marks the argument at a path, such as `password`, `auth.token` or `cards[].cvc`, as secret.
fn mark_secret(schema: &mut Value, path: &str) -> Result<(), String> {
    let missing = |name: &str, known: &Map<String, Value>| {
        let known: Vec<&str> = known.keys().map(String::as_str).collect();
        format!(
            "`{path}` cannot be secret: its schema declares no argument `{name}`, only: {}; name a member that contains it, or `.` for all",
            known.join(", ")
        )
    };
    let mut place = schema;
    for step in path.split('.').filter(|_| path != ALL) {
        let (name, is_list) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        let none = Map::new();
        let declared = place.get("properties").and_then(Value::as_object).unwrap_or(&none);
        if !declared.contains_key(name) {
            return Err(missing(name, declared));
        }
        place = &mut place["properties"][name];
        if is_list {
            if place.get("items").is_none() {
                return Err(format!("`{path}` cannot be secret: `{name}` is declared as no list"));
            }
            place = &mut place["items"];
        }
    }
    if !place.is_object() {
        // `true` accepts everything, as an empty schema does.
        *place = json!({});
    }
    place[X_SECRET] = Value::Bool(true);
    Ok(())
}

/// Refuses undeclared members wherever members are declared and no rule for others is given. Does
/// not go into branches and definitions, whose members belong to several objects.
fn seal_objects(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    let rules = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
    if object.contains_key("properties") && !rules.iter().any(|rule| object.contains_key(*rule)) {
        // Next to a combinator, other members may be declared in its branches.
        let is_mixed = COMBINATORS.iter().any(|word| object.contains_key(*word));
        let rule = if is_mixed { "unevaluatedProperties" } else { "additionalProperties" };
        object.insert(rule.to_owned(), Value::Bool(false));
    }
    if let Some(Value::Object(members)) = object.get_mut("properties") {
        members.values_mut().for_each(seal_objects);
    }
    if let Some(items) = object.get_mut("items") {
        seal_objects(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Value {
        json!({"type": "object", "properties": {
            "user": {"type": "string", "x-secret": true},
            "auth": {"type": "object", "properties": {"token": {"type": "string"}}},
            "cards": {"type": "array", "items": {"properties": {"cvc": true}}},
            "free": {"type": "object", "additionalProperties": true, "properties": {"a": {}}},
        }})
    }

    #[test]
    fn the_operator_says_what_is_secret_and_the_server_does_not() {
        let secret = ["auth.token", "cards[].cvc"].map(str::to_owned);
        let schema = hide_secret_arguments(&declared(), &secret).expect("declared");
        let marked =
            |path: &str| schema.pointer(path).and_then(|part| part.get(X_SECRET)).is_some();
        assert!(marked("/properties/auth/properties/token"));
        assert!(marked("/properties/cards/items/properties/cvc"));
        assert!(!marked("/properties/user") && !marked("/properties/auth"));
        for (path, named) in [
            ("pin", "only: user, auth, cards, free;"),
            ("auth.pin", "only: token;"),
            ("auth[].token", "no list"),
            ("user.name", "declares no argument `name`"),
        ] {
            let error =
                super::hide_secret_arguments(&declared(), &[path.to_owned()]).expect_err(path);
            assert!(error.contains(named), "{error}");
        }
        let all = super::hide_secret_arguments(&declared(), &[".".to_owned()]).expect("all");
        assert_eq!(all[X_SECRET], json!(true));
    }

    #[test]
    fn undeclared_members_are_refused_where_the_schema_does_not_ask_for_them() {
        let schema = hide_secret_arguments(&declared(), &[]).expect("no paths");
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["auth"]["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["free"]["additionalProperties"], json!(true));
        for open in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "patternProperties": {"^x": {}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {}}}}}),
        ] {
            assert_eq!(super::hide_secret_arguments(&open, &[]), Ok(open));
        }
        let mixed = json!({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]});
        let sealed = super::hide_secret_arguments(&mixed, &[]).expect("no paths");
        assert_eq!(sealed["unevaluatedProperties"], json!(false));
    }
}
