//! Schemas of tools as servers write them, put into the form of JSON Schema 2020-12.
//!
//! Servers write schemas by hand, or with libraries for other versions and languages. What they mean
//! is clear in most cases, and the server checks its arguments itself.

use crate::repair::keep_if;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Members whose values are schemas by name.
const NAMED: [&str; 5] =
    ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// Members whose values are schemas.
const ONE: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];
/// Members whose values are lists of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Members whose values are numbers.
const NUMBERS: [&str; 11] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Puts the schema of a tool into a form that can be checked. It describes an object.
pub(crate) fn repair(schema: &mut Value) {
    let root = schema.clone();
    repair_schema(schema, &root);
    if let Value::Object(members) = schema {
        let may_be_object = match members.get("type") {
            None => true,
            Some(Value::Array(names)) => names.contains(&json!("object")),
            Some(_) => false,
        };
        declared_only(members);
        if may_be_object {
            members.insert("type".to_owned(), "object".into());
        }
    }
}

/// Puts a schema of results into a form that can be checked.
pub(crate) fn repair_output(schema: &mut Value) {
    let root = schema.clone();
    repair_schema(schema, &root);
}

/// Removes patterns, which the server checks itself.
pub(crate) fn without_patterns(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.remove("pattern");
    members.remove("patternProperties");
    for_each_schema(members, &mut without_patterns);
}

/// Calls a function with each schema within a schema.
fn for_each_schema(members: &mut Map<String, Value>, each: &mut dyn FnMut(&mut Value)) {
    for name in NAMED {
        if let Some(Value::Object(parts)) = members.get_mut(name) {
            parts.values_mut().for_each(&mut *each);
        }
    }
    for name in ONE {
        if let Some(schema) = members.get_mut(name) {
            each(schema);
        }
    }
    for name in LISTS {
        if let Some(Value::Array(parts)) = members.get_mut(name) {
            parts.iter_mut().for_each(&mut *each);
        }
    }
}

/// Fills in members that a call leaves out, that the schema requires, and for which it has a default.
pub(crate) fn fill_defaults(schema: &Value, args: &mut Value) {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let Some(Value::Object(declared)) = schema.get("properties") else { return };
    let Value::Object(args) = args else { return };
    for (name, schema) in declared {
        match (args.get_mut(name), schema.get("default")) {
            (Some(value), _) => fill_defaults(schema, value),
            (None, Some(default)) if is_required(name) => {
                args.insert(name.clone(), default.clone());
            }
            (None, _) => {}
        }
    }
}

fn repair_schema(schema: &mut Value, root: &Value) {
    match schema {
        Value::Bool(_) => {}
        Value::Object(members) => {
            repair_members(members, root);
            for_each_schema(members, &mut |schema| repair_schema(schema, root));
        }
        // Such as the name of a type, or nothing.
        other => *other = json!({}),
    }
}

fn repair_members(members: &mut Map<String, Value>, root: &Value) {
    for name in ["description", "title", "$comment", "$schema", "$id", "format", "pattern"] {
        keep_if(members, name, Value::is_string);
    }
    // Its rules are applied here.
    members.remove("$schema");
    if let Some(example) = members.get_mut("examples").filter(|examples| !examples.is_array()) {
        *example = json!([example.take()]);
    }
    // One at the root, which leads nowhere, is refused: nothing says what the arguments are.
    let is_root = members.get("$ref").is_some() && root.get("$ref") == members.get("$ref");
    if let Some(reference) = members.get("$ref").filter(|_| !is_root) {
        let path = reference.as_str().and_then(|text| text.strip_prefix('#'));
        let is_found = match path {
            Some(path) if path.is_empty() || path.starts_with('/') => root.pointer(path).is_some(),
            _ => reference.is_string(),
        };
        if !is_found {
            members.remove("$ref");
        }
    }
    repair_type(members);
    repair_numbers(members);
    repair_tuple(members);
    for name in LISTS {
        keep_if(members, name, |value| value.as_array().is_some_and(|items| !items.is_empty()));
    }
    for name in ONE {
        keep_if(members, name, |value| value.is_object() || value.is_boolean());
    }
    match members.get("properties") {
        None | Some(Value::Object(_)) => {}
        // Such as an empty object of PHP.
        Some(_) => drop(members.insert("properties".to_owned(), json!({}))),
    }
    collect_required(members);
    repair_nullable(members);
}

/// Returns the name of a type in JSON Schema; `None` for one that says nothing.
fn type_name(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "string" | "str" | "text" | "file" | "date" | "datetime" => "string",
        "integer" | "int" | "long" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "boolean" | "bool" => "boolean",
        "array" | "list" => "array",
        "object" | "dict" | "map" => "object",
        "null" | "none" => "null",
        _ => return None,
    })
}

fn repair_type(members: &mut Map<String, Value>) {
    let Some(found) = members.remove("type") else { return };
    let named = match &found {
        Value::String(name) => type_name(name).map(Value::from),
        Value::Array(names) => {
            let names = names.iter().filter_map(|name| type_name(name.as_str()?));
            let names: BTreeSet<_> = names.collect();
            (!names.is_empty()).then(|| names.into_iter().collect())
        }
        _ => None,
    };
    members.extend(named.map(|named| ("type".to_owned(), named)));
}

fn repair_numbers(members: &mut Map<String, Value>) {
    // Booleans of draft 4 beside the limit.
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = members.get(exclusive) {
            let is_exclusive = *is_exclusive;
            members.remove(exclusive);
            if is_exclusive && let Some(limit) = members.remove(limit) {
                members.insert(exclusive.to_owned(), limit);
            }
        }
    }
    for name in NUMBERS {
        let Some(Value::String(text)) = members.get(name) else { continue };
        let number: Option<serde_json::Number> = text.trim().parse().ok();
        match number {
            Some(number) => drop(members.insert(name.to_owned(), number.into())),
            None => drop(members.remove(name)),
        }
    }
    for name in NUMBERS {
        keep_if(members, name, Value::is_number);
    }
}

fn repair_tuple(members: &mut Map<String, Value>) {
    // Tuples of draft 7.
    if let Some(Value::Array(parts)) = members.get("items") {
        let parts = parts.clone();
        members.remove("items");
        if !parts.is_empty() {
            members.insert("prefixItems".to_owned(), parts.into());
        }
        let rest = members.remove("additionalItems");
        members.extend(rest.map(|rest| ("items".to_owned(), rest)));
    }
}

/// Properties say of themselves that they are required in some languages.
fn collect_required(members: &mut Map<String, Value>) {
    let listed = match members.remove("required") {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    };
    let mut names: Vec<String> = Vec::new();
    for name in listed.iter().filter_map(Value::as_str) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        let says_so = |property: &Value| property.get("required") == Some(&Value::Bool(true));
        for (name, _) in properties.iter().filter(|(_, property)| says_so(property)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    if !names.is_empty() {
        members.insert("required".to_owned(), names.into());
    }
}

/// Leaves out required members of the arguments that the schema does not declare, as no call could
/// have them.
fn declared_only(members: &mut Map<String, Value>) {
    let others = ["additionalProperties", "patternProperties", "unevaluatedProperties", "$ref"];
    let may_be_others = others.into_iter().chain(LISTS).any(|rule| members.contains_key(rule));
    let Some(Value::Object(properties)) = members.get("properties") else { return };
    let declared: BTreeSet<String> = properties.keys().cloned().collect();
    if let Some(Value::Array(names)) = members.get_mut("required").filter(|_| !may_be_others) {
        names.retain(|name| name.as_str().is_some_and(|name| declared.contains(name)));
    }
}

/// `nullable` of OpenAPI.
fn repair_nullable(members: &mut Map<String, Value>) {
    if members.remove("nullable") != Some(Value::Bool(true)) {
        return;
    }
    if let Some(Value::String(name)) = members.get("type") {
        let both = json!([name, "null"]);
        members.insert("type".to_owned(), both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(found: Value) -> Value {
        let mut schema = json!({"type": "object", "properties": {"a": found}});
        repair(&mut schema);
        schema["properties"]["a"].take()
    }

    #[test]
    fn schemas_of_other_versions_and_languages_mean_the_same() {
        for (found, expected) in [
            (json!({"type": "str"}), json!({"type": "string"})),
            (
                json!({"type": "INTEGER", "minimum": 0, "exclusiveMinimum": true}),
                json!({"type": "integer", "exclusiveMinimum": 0}),
            ),
            (
                json!({"type": "number", "maximum": 5, "exclusiveMaximum": false}),
                json!({"type": "number", "maximum": 5}),
            ),
            (json!({"type": "any"}), json!({})),
            (json!({"type": null}), json!({})),
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (
                json!({"type": "string", "minLength": "1"}),
                json!({"type": "string", "minLength": 1}),
            ),
            (
                json!({"type": "array", "items": [{"type": "int"}, {}], "additionalItems": false}),
                json!({"type": "array", "prefixItems": [{"type": "integer"}, {}], "items": false}),
            ),
            (json!({"type": "array", "items": null}), json!({"type": "array"})),
            (
                json!({"type": "object", "properties": [], "additionalProperties": null}),
                json!({"type": "object", "properties": {}}),
            ),
            (json!({"anyOf": [], "description": 7, "examples": "x"}), json!({"examples": ["x"]})),
            (json!({"$ref": "#/$defs/Nope"}), json!({})),
            (json!(null), json!({})),
            (json!("string"), json!({})),
            (json!(true), json!(true)),
        ] {
            assert_eq!(property(found.clone()), expected, "{found}");
        }
        for root in [json!({}), json!({"type": ["object", "null"]}), json!({"$schema": 5})] {
            let mut schema = root.clone();
            repair(&mut schema);
            assert_eq!(schema, json!({"type": "object"}), "{root}");
        }
    }

    #[test]
    fn what_is_required_and_has_a_default_is_filled_in() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "required": true},
                "limit": {"type": "integer", "default": 5},
                "more": {"type": "object", "properties": {"x": {"default": 1}}, "required": ["x"]},
                "free": {"default": 2},
            },
            "required": ["limit", "limit", "more", "nope", 7],
        });
        repair(&mut schema);
        assert_eq!(schema["required"], json!(["limit", "more", "query"]));
        let mut args = json!({"query": "a", "more": {}});
        fill_defaults(&schema, &mut args);
        assert_eq!(args, json!({"query": "a", "limit": 5, "more": {"x": 1}}));
    }

    #[test]
    fn only_schemas_are_changed() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "pattern": "(?=x)", "default": {"pattern": "kept"}},
                "mode": {"enum": ["all", {"pattern": "kept"}], "default": "all"},
            },
            "if": {"properties": {"mode": {"const": "all"}}, "required": ["mode", "confirm"]},
            "required": ["pattern"],
        });
        let before = schema.clone();
        repair(&mut schema);
        assert_eq!(schema, before);
        without_patterns(&mut schema);
        assert_eq!(
            schema["properties"]["pattern"],
            json!({"type": "string", "default": {"pattern": "kept"}})
        );
        assert_eq!(schema["properties"]["mode"], before["properties"]["mode"]);
        assert_eq!(schema["if"], before["if"]);
    }
}
