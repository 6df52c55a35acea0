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
        all.push(vec![name.rsplit('/').next().unwrap_or(name).to_owned()]);
    }
    if let Some(value) = members.get("const") {
        all.push(vec![value.to_string()]);
    }
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        all.push(values.iter().map(Value::to_string).collect());
    }
    for name in ["oneOf", "anyOf"] {
        if let Some(of) = members.get(name).and_then(Value::as_array) {
            all.push(of.iter().map(|of| expression(of, depth)).collect());
        }
    }
    if let Some(of) = members.get("allOf").and_then(Value::as_array) {
        all.extend(of.iter().map(|of| vec![expression(of, depth)]));
    }
    let is_listed = members.contains_key("const") || members.contains_key("enum");
    if members.contains_key("properties") {
        all.push(vec![object(members, depth)]);
    } else if let Some(of) = members.get("type").filter(|_| !is_listed) {
        all.extend(basic(of, members, depth));
    }
    let alone = all.len() == 1;
    let unions = all.into_iter().map(|union| match union.len() {
        0 | 1 => union.concat(),
        _ if alone => union.join(" | "),
        _ => format!("({})", union.join(" | ")),
    });
    let text = unions.collect::<Vec<_>>().join(" & ");
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// Returns the alternatives of the keyword `type`.
fn basic(of: &Value, members: &Map<String, Value>, depth: usize) -> Option<Vec<String>> {
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
            Some(names.iter().filter_map(|one| one.as_str()).filter_map(name).collect())
        }
        one => Some(vec![name(one.as_str()?)?]),
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
        let indent = "  ".repeat(depth + 1);
        let of = expression(of, depth + 1);
        append(&mut text, format_args!("{indent}{name}{mark}: {of};\n"));
    }
    text.push_str(&"  ".repeat(depth));
    text.push('}');
    text
}
