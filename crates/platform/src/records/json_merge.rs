//! Three-way merges of JSON by members. Arrays and scalars are merged as wholes.

use super::merge::{ConflictLocation, MergeConflict};
use serde_json::{Map, Value};

pub(super) fn merge_json(
    base: Option<&str>,
    a: &str,
    b: &str,
) -> Result<String, Vec<MergeConflict>> {
    // Versions are JSON, because each is checked when it is written.
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let base_value = base.and_then(parsed);
    let (Some(a_value), Some(b_value)) = (parsed(a), parsed(b)) else {
        let whole = |text: &str| Some(text.to_owned());
        let location = ConflictLocation::Path(String::new());
        let base = base.and_then(whole);
        return Err(vec![MergeConflict { location, base, a: whole(a), b: whole(b) }]);
    };
    // A text whose value did not change gives the other text as it is.
    if a_value == b_value || base_value.as_ref() == Some(&b_value) {
        return Ok(a.to_owned());
    }
    if base_value.as_ref() == Some(&a_value) {
        return Ok(b.to_owned());
    }
    let mut conflicts = Vec::new();
    let values = Three { base: base_value.as_ref(), a: Some(&a_value), b: Some(&b_value) };
    let merged = values.merge("", &mut conflicts).unwrap_or_default();
    if conflicts.is_empty() { Ok(format!("{merged:#}\n")) } else { Err(conflicts) }
}

/// A part of the three values.
#[derive(Clone, Copy)]
struct Three<'a> {
    base: Option<&'a Value>,
    a: Option<&'a Value>,
    b: Option<&'a Value>,
}

impl<'a> Three<'a> {
    /// Returns the merged part; `None` if it is deleted.
    fn merge(self, path: &str, conflicts: &mut Vec<MergeConflict>) -> Option<Value> {
        let Self { base, a, b } = self;
        if a == b || b == base {
            return a.cloned();
        }
        if a == base {
            return b.cloned();
        }
        if let (Some(Value::Object(a)), Some(Value::Object(b))) = (a, b) {
            let base = base.and_then(Value::as_object);
            return Some(Value::Object(merge_members(base, a, b, path, conflicts)));
        }
        let text = |value: &Value| format!("{value:#}");
        conflicts.push(MergeConflict {
            location: ConflictLocation::Path(path.to_owned()),
            base: base.map(text),
            a: a.map(text),
            b: b.map(text),
        });
        None
    }
}

/// Merges objects. The members of the first one come first.
fn merge_members(
    base: Option<&Map<String, Value>>,
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    path: &str,
    conflicts: &mut Vec<MergeConflict>,
) -> Map<String, Value> {
    let only_in_b = b.keys().filter(|name| !a.contains_key(*name));
    let names = a.keys().chain(only_in_b);
    let mut merged = Map::new();
    for name in names {
        let parts =
            Three { base: base.and_then(|base| base.get(name)), a: a.get(name), b: b.get(name) };
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        if let Some(value) = parts.merge(&path, conflicts) {
            merged.insert(name.clone(), value);
        }
    }
    merged
}
