//! Schemas of OpenAPI as JSON Schemas, with what they refer to.

use super::super::problem::ProblemKind;
use super::super::schema::describe;
use super::super::yaml::{Content, Entry, Node};
use super::read::{Reader, SCHEMA_BYTES_MAX, is_true};
use serde_json::{Map, Value as Json, json};

/// Maximum number of references within one another.
const REFS_MAX: usize = 16;
/// Bytes that each schema counts at least.
const SCHEMA_BYTES: usize = 16;

/// Keywords whose values are copied.
const COPIED: [&str; 20] = [
    "const",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "title",
    "type",
    "uniqueItems",
];

impl<'n> Reader<'n> {
    /// Counts bytes of the schema of the operation.
    pub(super) fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Returns what a node refers to, or the node itself; `None` if there is a problem.
    pub(super) fn resolve(&mut self, node: &'n Node) -> Option<&'n Node> {
        let mut at = node;
        for _ in 0..REFS_MAX {
            let Some(entry) = at.entry("$ref") else { return Some(at) };
            at = self.target(entry)?;
        }
        self.report_depth(node);
        None
    }

    /// Returns the node to which a reference points.
    fn target(&mut self, entry: &'n Entry) -> Option<&'n Node> {
        let Some(text) = entry.node.text() else {
            let expected = "a text, such as `#/components/schemas/Order`";
            let found = describe(&entry.node);
            self.report_found(ProblemKind::WrongType, entry.node.location, &found, expected);
            return None;
        };
        let found = match text.strip_prefix('#') {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                self.root.at(pointer)
            }
            _ => {
                let expected = "a reference within the file, such as `#/components/schemas/Order`; other files and addresses are not read";
                self.report_found(ProblemKind::BadValue, entry.node.location, text, expected);
                return None;
            }
        };
        if found.is_none() {
            let expected = "a reference to what the file has";
            self.report_found(ProblemKind::BadValue, entry.node.location, text, expected);
        }
        found
    }

    fn report_depth(&mut self, node: &Node) {
        let expected = format!("at most {REFS_MAX} references within one another");
        self.report(ProblemKind::TooLarge, node.location, &expected);
    }

    /// Returns a schema with the schemas that it refers to. One that contains itself is any value there.
    pub(super) fn schema(&mut self, node: &'n Node) -> Json {
        self.schema_within(node, &mut Vec::new())
    }

    fn schema_within(&mut self, node: &'n Node, within: &mut Vec<&'n str>) -> Json {
        self.take(SCHEMA_BYTES);
        if self.left == 0 {
            let expected = format!(
                "schemas of at most {SCHEMA_BYTES_MAX} bytes for an operation, with all that they refer to"
            );
            // At one place: there would be another problem at each place behind it.
            let is_known = self.problems.iter().any(|of| of.kind == ProblemKind::TooLarge);
            if !is_known {
                self.report(ProblemKind::TooLarge, node.location, &expected);
            }
            return json!({});
        }
        match &node.content {
            Content::Scalar(Json::Bool(any)) => return json!(any),
            Content::Mapping(_) => {}
            _ => {
                let found = describe(node);
                let expected = "a schema, which is a mapping";
                self.report_found(ProblemKind::WrongType, node.location, &found, expected);
                return json!({});
            }
        }
        let Some(entry) = node.entry("$ref") else { return self.members(node, within) };
        let name = entry.node.text().unwrap_or_default();
        if within.contains(&name) {
            return json!({});
        }
        if within.len() >= REFS_MAX {
            self.report_depth(&entry.node);
            return json!({});
        }
        let Some(target) = self.target(entry) else { return json!({}) };
        within.push(name);
        let mut made = self.schema_within(target, within);
        within.pop();
        if let (Json::Object(members), Some(about)) = (&mut made, node.entry("description")) {
            members.insert("description".to_owned(), about.node.to_json());
        }
        made
    }

    fn members(&mut self, node: &'n Node, within: &mut Vec<&'n str>) -> Json {
        let mut made = Map::new();
        let mut read_only = Vec::new();
        for Entry { key, node: value, .. } in node.entries() {
            let member = match key.as_str() {
                "items" | "additionalProperties" | "not" | "propertyNames" | "contains" => {
                    self.schema_within(value, within)
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    value.items().iter().map(|one| self.schema_within(one, within)).collect()
                }
                "properties" => {
                    let mut properties = Map::new();
                    for property in value.entries() {
                        // Clients do not send what the server sets.
                        if self.is_read_only(&property.node) {
                            read_only.push(property.key.as_str());
                            continue;
                        }
                        self.take(property.key.len());
                        let schema = self.schema_within(&property.node, within);
                        properties.insert(property.key.clone(), schema);
                    }
                    properties.into()
                }
                "required" => value.to_json(),
                key if COPIED.contains(&key) => value.to_json(),
                _ => continue,
            };
            if !member.is_object() {
                self.take(key.len() + member.to_string().len());
            }
            made.insert(key.clone(), member);
        }
        if let Some(Json::Array(required)) = made.get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !read_only.contains(&name)));
        }
        of_version_3_0(&mut made, is_true(node, "nullable"))
    }

    fn is_read_only(&self, property: &Node) -> bool {
        let pointer = property.entry("$ref").and_then(|of| of.node.text()?.strip_prefix('#'));
        let target = pointer.and_then(|pointer| self.root.at(pointer));
        is_true(property, "readOnly") || target.is_some_and(|target| is_true(target, "readOnly"))
    }
}

/// Writes the keywords of OpenAPI 3.0 as JSON Schema has them.
fn of_version_3_0(made: &mut Map<String, Json>, is_nullable: bool) -> Json {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Json::Bool(is_exclusive)) = made.get(exclusive).cloned() {
            made.remove(exclusive);
            let limit = if is_exclusive { made.remove(limit) } else { None };
            made.extend(limit.map(|limit| (exclusive.to_owned(), limit)));
        }
    }
    let made = std::mem::take(made);
    match is_nullable && !made.is_empty() {
        true => json!({"anyOf": [made, {"type": "null"}]}),
        false => Json::Object(made),
    }
}
