//! TypeScript types from the part of JSON Schema that the schemas of records use.

use serde_json::{Map, Value};
use std::fmt::Write;

/// Returns TypeScript types for a schema: one for the schema itself, and one for each of its
/// definitions.
///
/// ```
/// use serde_json::json;
/// use weftwork_types::schema::typescript;
///
/// let schema = json!({
///     "title": "Point", "type": "object", "required": ["x"],
///     "properties": {"x": {"type": "number"}, "of": {"enum": ["a", "b"]}},
/// });
/// let expected = "export type Point = {\n  x: number;\n  of?: \"a\" | \"b\";\n};\n";
/// assert!(typescript(&schema).ends_with(expected));
/// ```
#[must_use]
pub fn typescript(schema: &Value) -> String {
    let mut text = String::from("// Generated from the schema beside it. Do not edit.\n");
    let title = schema.get("title").and_then(Value::as_str).unwrap_or("Root");
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let definitions = definitions.into_iter().flatten().map(|(name, of)| (name.as_str(), of));
    for (name, of) in [(title, schema)].into_iter().chain(definitions) {
        text.push('\n');
        comment(of, 0, &mut text);
        append(&mut text, format_args!("export type {name} = {};\n", expression(of, 0)));
    }
    text
}

fn append(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    text.write_fmt(part).unwrap_or_default();
}

/// Adds the description of a schema as a comment.
fn comment(schema: &Value, depth: usize, text: &mut String) {
    let Some(description) = schema.get("description").and_then(Value::as_str) else { return };
    let indent = "  ".repeat(depth);
    let lines = description.replace("*/", "*\\/");
    match lines.split_once('\n') {
        None => append(text, format_args!("{indent}/** {lines} */\n")),
        Some(_) => {
            append(text, format_args!("{indent}/**\n"));
            for line in lines.lines() {
                let line = format!("{indent} * {line}");
                append(text, format_args!("{}\n", line.trim_end()));
            }
            append(text, format_args!("{indent} */\n"));
        }
    }
}

/// Returns the type of a schema. All its keywords hold at once, so their types are intersected.
fn expression(schema: &Value, depth: usize) -> String {
    let Some(members) = schema.as_object() else { return "unknown".to_owned() };
    let mut all = Vec::new();
    if let Some(name) = members.get("$ref").and_then(Value::as_str) {
        all.push(name.rsplit('/').next().unwrap_or(name).to_owned());
    }
    if let Some(value) = members.get("const") {
        all.push(value.to_string());
    }
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        all.push(union(values.iter().map(Value::to_string)));
    }
    for name in ["oneOf", "anyOf"] {
        if let Some(of) = members.get(name).and_then(Value::as_array) {
            all.push(union(of.iter().map(|of| expression(of, depth))));
        }
    }
    if let Some(of) = members.get("allOf").and_then(Value::as_array) {
        all.extend(of.iter().map(|of| expression(of, depth)));
    }
    let is_listed = members.contains_key("const") || members.contains_key("enum");
    if members.contains_key("properties") {
        all.push(object(members, depth));
    } else if let Some(of) = members.get("type").filter(|_| !is_listed) {
        all.extend(basic(of, members, depth));
    }
    match all.as_slice() {
        [] => "unknown".to_owned(),
        [one] => one.clone(),
        several => several.iter().map(|one| grouped(one)).collect::<Vec<_>>().join(" & "),
    }
}

fn union(types: impl Iterator<Item = String>) -> String {
    types.collect::<Vec<_>>().join(" | ")
}

/// Returns a type in parentheses if it is a union.
fn grouped(of: &str) -> String {
    if of.contains(" | ") && !of.starts_with('{') { format!("({of})") } else { of.to_owned() }
}

fn basic(of: &Value, members: &Map<String, Value>, depth: usize) -> Option<String> {
    let name = |name: &str| {
        Some(match name {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => {
                let items = members
                    .get("items")
                    .map_or("unknown".to_owned(), |items| expression(items, depth));
                format!("Array<{items}>")
            }
            // Other keywords describe the members.
            "object" if members.contains_key("oneOf") || members.contains_key("$ref") => {
                return None;
            }
            "object" => "Record<string, unknown>".to_owned(),
            _ => return None,
        })
    };
    match of {
        Value::Array(names) => {
            Some(union(names.iter().filter_map(|one| one.as_str()).filter_map(name)))
        }
        one => name(one.as_str()?),
    }
}

fn object(members: &Map<String, Value>, depth: usize) -> String {
    let required = members.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let mut text = String::from("{\n");
    let properties = members.get("properties").and_then(Value::as_object);
    for (name, of) in properties.into_iter().flatten() {
        comment(of, depth + 1, &mut text);
        let mark = if is_required(name) { "" } else { "?" };
        let (indent, of) = ("  ".repeat(depth + 1), expression(of, depth + 1));
        append(&mut text, format_args!("{indent}{name}{mark}: {of};\n"));
    }
    text.push_str(&"  ".repeat(depth));
    text.push('}');
    text
}
