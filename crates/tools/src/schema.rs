//! JSON Schemas of Rust types, in the form models and policies need.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The entry of a list of shown members that stands for the whole result, whatever its shape.
pub const WHOLE: &str = ".";

/// How deep local references are followed; a schema may refer to itself.
const REFS_MAX: usize = 32;

const COMBINATORS: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"];

/// The schema of a tool's arguments: unknown members are refused at every level where the type
/// declares its members, and references are inlined as far as they can be.
#[must_use]
pub fn args_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = generate::<T>(settings);
    seal(&mut schema);
    schema
}

/// The schema of a tool's result.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|s| {
        s.meta_schema = None;
        s.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        // The title is the Rust type's name: it tells the model nothing and costs it tokens.
        root.remove("title");
    }
    schema
}

/// Refuses undeclared members wherever members are declared and nothing is said about others.
fn seal(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    let members = object.contains_key("properties");
    let mixed = COMBINATORS.iter().any(|word| object.contains_key(*word));
    if members
        && !["additionalProperties", "unevaluatedProperties", "patternProperties"]
            .iter()
            .any(|word| object.contains_key(*word))
    {
        // Beside a combinator the other members may be declared there.
        let word = if mixed { "unevaluatedProperties" } else { "additionalProperties" };
        object.insert(word.to_owned(), Value::Bool(false));
    }
    for (word, part) in object.iter_mut() {
        match (word.as_str(), part) {
            ("properties" | "$defs", Value::Object(map)) => map.values_mut().for_each(seal),
            ("items" | "additionalProperties", part) => seal(part),
            ("prefixItems", Value::Array(parts)) => parts.iter_mut().for_each(seal),
            // Beside own members a branch would refuse those; inside `allOf` it would refuse its
            // neighbour's.
            ("anyOf" | "oneOf", Value::Array(parts)) if !members => {
                parts.iter_mut().for_each(seal);
            }
            _ => {}
        }
    }
}

/// The members a result may show when its tool does not say: all that its type declares, or the
/// whole result when it is no object. `None` when the type leaves its members open.
pub(crate) fn shown_by_default(output: &Value) -> Option<Vec<String>> {
    match shape(output, output, REFS_MAX) {
        Shape::Whole => Some(vec![WHOLE.to_owned()]),
        Shape::Members(names) => Some(names),
        Shape::Open => None,
    }
}

/// The members that a result's schema declares; `None` when it leaves them open.
pub(crate) fn declared_members(output: &Value) -> Option<Vec<String>> {
    match shape(output, output, REFS_MAX) {
        Shape::Whole => Some(Vec::new()),
        Shape::Members(names) => Some(names),
        Shape::Open => None,
    }
}

enum Shape {
    /// No object at all.
    Whole,
    /// An object, or a list of objects, with these members.
    Members(Vec<String>),
    /// It may have members nobody declared.
    Open,
}

impl Shape {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Whole, other) | (other, Self::Whole) => other,
            (Self::Members(mut a), Self::Members(b)) => {
                a.extend(b);
                a.sort();
                a.dedup();
                Self::Members(a)
            }
        }
    }
}

fn shape(schema: &Value, root: &Value, refs_left: usize) -> Shape {
    let Value::Object(object) = schema else { return Shape::Open };
    if let Some(found) = combined(object, root, refs_left) {
        return found.or(own_shape(object, root, refs_left).unwrap_or(Shape::Whole));
    }
    own_shape(object, root, refs_left).unwrap_or(Shape::Open)
}

fn combined(object: &Map<String, Value>, root: &Value, refs_left: usize) -> Option<Shape> {
    if let Some(target) = object.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return Some(match (target, refs_left.checked_sub(1)) {
            (Some(target), Some(left)) => shape(target, root, left),
            _ => Shape::Open,
        });
    }
    ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| object.get(*word)?.as_array())
        .flatten()
        .map(|part| shape(part, root, refs_left))
        .reduce(Shape::or)
}

fn own_shape(object: &Map<String, Value>, root: &Value, refs_left: usize) -> Option<Shape> {
    if let Some(members) = object.get("properties").and_then(Value::as_object) {
        return Some(Shape::Members(members.keys().cloned().collect()));
    }
    let types: Vec<&str> = match object.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ if object.contains_key("const") || object.contains_key("enum") => {
            let values = object.get("enum").and_then(Value::as_array).into_iter().flatten();
            let mut values = values.chain(object.get("const"));
            let scalar = values.all(|value| !value.is_object() && !value.is_array());
            return Some(if scalar { Shape::Whole } else { Shape::Open });
        }
        _ => return None,
    };
    let of_one = |name: &str| match name {
        "object" => Shape::Open,
        "array" => list_shape(object, root, refs_left),
        _ => Shape::Whole,
    };
    types.into_iter().map(of_one).reduce(Shape::or)
}

fn list_shape(object: &Map<String, Value>, root: &Value, refs_left: usize) -> Shape {
    let prefix = object.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    let rest = object.get("items").filter(|items| **items != json!(false));
    prefix
        .chain(rest)
        .map(|item| shape(item, root, refs_left))
        .reduce(Shape::or)
        .unwrap_or(Shape::Open)
}

/// Drops the members of a result that its schema does not declare, where it declares any and says
/// nothing about others. Where a combinator could declare more, nothing is dropped.
pub(crate) fn drop_undeclared(value: &mut Value, schema: &Value) {
    let Value::Object(rules) = schema else { return };
    if COMBINATORS.iter().any(|word| rules.contains_key(*word)) {
        return;
    }
    match value {
        Value::Object(members) => {
            let Some(Value::Object(declared)) = rules.get("properties") else { return };
            let others = rules.get("additionalProperties");
            let closed = others.is_none_or(|rule| *rule == json!(false));
            if closed && !rules.contains_key("patternProperties") {
                members.retain(|name, _| declared.contains_key(name));
            }
            for (name, member) in members.iter_mut() {
                if let Some(schema) = declared.get(name) {
                    drop_undeclared(member, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = rules.get("items") {
                items.iter_mut().for_each(|item| drop_undeclared(item, schema));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
