//! JSON Schemas of Rust types, in the form that models and policies require.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The entry in a list of shown members that stands for the whole result, whatever its type.
pub const WHOLE: &str = ".";

/// Maximum depth of followed local references, as a schema may refer to itself.
const REFS_MAX: usize = 32;

const COMBINATORS: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"];

/// Returns the schema of a tool's arguments. Unknown members are refused wherever the type declares
/// its members, and references are inlined up to a maximum depth.
#[must_use]
pub fn args_schema<T: JsonSchema>() -> Value {
    let mut schema = input_schema::<T>();
    seal(&mut schema);
    schema
}

/// Returns the schema of the values that decode as a type. Undeclared members are allowed where the
/// type allows them.
#[must_use]
pub fn input_schema<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// Returns the schema of a tool's result.
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
        // The title is the Rust type's name, which costs tokens and does not help the model.
        root.remove("title");
    }
    schema
}

/// Refuses undeclared members wherever members are declared and no rule for others is given.
fn seal(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    let members = object.contains_key("properties");
    let mixed = COMBINATORS.iter().any(|word| object.contains_key(*word));
    if members
        && !["additionalProperties", "unevaluatedProperties", "patternProperties"]
            .iter()
            .any(|word| object.contains_key(*word))
    {
        // Next to a combinator, other members may be declared in its branches.
        let word = if mixed { "unevaluatedProperties" } else { "additionalProperties" };
        object.insert(word.to_owned(), Value::Bool(false));
    }
    for (word, part) in object.iter_mut() {
        match (word.as_str(), part) {
            ("properties" | "$defs", Value::Object(map)) => map.values_mut().for_each(seal),
            ("items" | "additionalProperties", part) => seal(part),
            ("prefixItems", Value::Array(parts)) => parts.iter_mut().for_each(seal),
            // Next to own members, closing a branch would refuse those members; inside `allOf` it
            // would refuse the members of the other branches.
            ("anyOf" | "oneOf", Value::Array(parts)) if !members => {
                parts.iter_mut().for_each(seal);
            }
            _ => {}
        }
    }
}

/// The members that may be shown by default: all members that the result type declares, or the
/// whole result if it is not an object. `None` if the type allows undeclared members.
pub(crate) fn shown_by_default(output: &Value) -> Option<Vec<String>> {
    match shape(output, output, REFS_MAX) {
        Shape::Whole => Some(vec![WHOLE.to_owned()]),
        Shape::Members(names) => Some(names),
        Shape::Open => None,
    }
}

/// The members that a result's schema declares; `None` if it allows others.
pub(crate) fn declared_members(output: &Value) -> Option<Vec<String>> {
    match shape(output, output, REFS_MAX) {
        Shape::Whole => Some(Vec::new()),
        Shape::Members(names) => Some(names),
        Shape::Open => None,
    }
}

enum Shape {
    /// Not an object.
    Whole,
    /// An object, or a list of objects, with these members.
    Members(Vec<String>),
    /// An object that may have undeclared members.
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

/// Removes the members of a result that its schema does not declare, if it declares any and has no
/// rule for others. If a combinator could declare more members, nothing is removed.
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
