//! The text of a context with its placeholders.
//!
//! `{{name}}` and `{{name.member}}` are placeholders; other braces are text. A context may begin with
//! front matter: a YAML mapping between two lines `---`, whose members are names as well.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Names that every context may use, with what they stand for.
pub(crate) const NAMES: [(&str, &str); 5] = [
    ("agent", "`slug` and `name` of the agent"),
    ("user", "`subject` of the principal"),
    ("message", "the last message of the user"),
    ("date", "the day, as `2026-01-31`"),
    ("input", "members of the input"),
];

/// A context that was parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// Members of the front matter.
    pub(crate) own: Map<String, Value>,
    /// Names between two braces that stand for nothing.
    pub(crate) unknown: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Name(Vec<String>),
}

impl Template {
    /// Parses a context. Two braces around another name are text, as in prompts about templates.
    pub(crate) fn parse(text: &str) -> Self {
        let (own, body) = front_matter(text);
        let mut unknown = BTreeSet::new();
        let mut pieces = Vec::new();
        let mut rest = body;
        let mut plain = String::new();
        while let Some(start) = rest.find("{{") {
            let inner = &rest[start + 2..];
            let name = inner.find("}}").map(|end| inner[..end].trim());
            let Some(name) = name.filter(|name| is_path(name)) else {
                plain.push_str(&rest[..start + 2]);
                rest = inner;
                continue;
            };
            let path: Vec<String> = name.split('.').map(str::to_owned).collect();
            let first = path.first().map(String::as_str).unwrap_or_default();
            let known = NAMES.iter().any(|(known, _)| *known == first) || own.contains_key(first);
            if !known {
                unknown.insert(first.to_owned());
                plain.push_str(&rest[..start + 2]);
                rest = inner;
                continue;
            }
            plain.push_str(&rest[..start]);
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Name(path));
            let end = inner.find("}}").unwrap_or_default();
            rest = &inner[end + 2..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces, own, unknown }
    }

    /// Fills the placeholders. One without a value is empty.
    pub(crate) fn fill(&self, values: &Value) -> String {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Name(path) => {
                    let mut value = Some(values);
                    for name in path {
                        value = value.and_then(|value| value.get(name));
                    }
                    match value {
                        None | Some(Value::Null) => {}
                        Some(Value::String(text)) => filled.push_str(text),
                        Some(other) => filled.push_str(&other.to_string()),
                    }
                }
            }
        }
        filled.trim().to_owned()
    }
}

fn is_path(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    name.len() <= 200 && name.split('.').all(is_name)
}

/// Returns the members of the front matter, and the text after it. Another text has none.
pub(crate) fn front_matter(text: &str) -> (Map<String, Value>, &str) {
    let none = (Map::new(), text);
    let Some(rest) = text.strip_prefix("---\n") else { return none };
    let Some(end) = rest.find("\n---\n") else { return none };
    let members = crate::definition::read_yaml(&rest[..=end]);
    match members {
        Ok(Value::Object(members)) => (members, &rest[end + 5..]),
        _ => none,
    }
}
