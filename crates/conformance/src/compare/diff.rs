//! The first difference of two values.

use serde_json::Value as Json;
use std::fmt;

/// Characters of a value that a difference shows.
const SHOWN_MAX: usize = 160;

/// The first difference of two traces, and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// A JSON pointer into the canonical traces.
    pub pointer: String,
    /// The value expected there; absent if none was.
    pub expected: Option<Json>,
    /// The value found there; absent if there is none.
    pub got: Option<Json>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        let expected = shown(self.expected.as_ref());
        let got = shown(self.got.as_ref());
        write!(f, "{pointer} expected {expected} got {got}")
    }
}

fn shown(value: Option<&Json>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Json::to_string);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The first difference. Numbers are compared by value, but true is not 1.
pub(super) fn first(expected: &Json, got: &Json) -> Option<Difference> {
    let mut pointer = String::new();
    walk(Some(expected), Some(got), &mut pointer)
}

fn walk(a: Option<&Json>, b: Option<&Json>, pointer: &mut String) -> Option<Difference> {
    match (a, b) {
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let step = name.replace('~', "~0").replace('/', "~1");
                let found = below(a.get(name), b.get(name), pointer, &step);
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        (Some(Json::Array(a)), Some(Json::Array(b))) => (0..a.len().max(b.len()))
            .find_map(|index| below(a.get(index), b.get(index), pointer, &index.to_string())),
        (Some(a), Some(b)) if same(a, b) => None,
        (a, b) => {
            Some(Difference { pointer: pointer.clone(), expected: a.cloned(), got: b.cloned() })
        }
    }
}

fn below(
    a: Option<&Json>,
    b: Option<&Json>,
    pointer: &mut String,
    step: &str,
) -> Option<Difference> {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(step);
    let found = walk(a, b, pointer);
    pointer.truncate(length);
    found
}

fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}
