//! Templates: text with placeholders, whose names are checked against the schema of the parameters.

use serde_json::Value;
use std::fmt::Write as _;
use weftwork_types::canonical;

/// A parsed template. `${name}` and `${name.member}` are placeholders, and `$$` is a dollar sign; a
/// dollar sign before any other character stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Path of a parameter.
    Slot(Vec<String>),
}

impl Template {
    /// Parses a template; the error describes the first problem.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                plain.push('$');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let (name, after) = after
                    .split_once('}')
                    .ok_or_else(|| format!("`${{{}` has no `}}`", first_chars(after)))?;
                let path: Vec<String> = name.split('.').map(str::to_owned).collect();
                if path.iter().any(|part| !is_name(part)) {
                    return Err(format!(
                        "`${{{}}}` is no placeholder; write `${{name}}` or `${{name.member}}`, and `$$` for a dollar sign",
                        first_chars(name)
                    ));
                }
                pieces.extend(
                    Some(std::mem::take(&mut plain))
                        .filter(|text| !text.is_empty())
                        .map(Piece::Text),
                );
                pieces.push(Piece::Slot(path));
                rest = after;
            } else {
                plain.push('$');
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// The placeholders, in order.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &[String]> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Slot(path) => Some(path.as_slice()),
            Piece::Text(_) => None,
        })
    }

    /// Fills the placeholders; the error is the first one without a value.
    pub(crate) fn fill(&self, params: &Value) -> Result<String, String> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Slot(path) => match find_value(params, path) {
                    None | Some(Value::Null) => return Err(path.join(".")),
                    Some(Value::String(text)) => out.push_str(text),
                    Some(other) => out.push_str(&canonical::to_string(other)),
                },
            }
        }
        Ok(out)
    }
}

fn find_value<'a>(params: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(params, |value, part| value.get(part))
}

fn is_name(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn first_chars(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Returns the names at the level at which a schema declares no such parameter, with the path up to
/// there; `None` if the schema allows the path.
pub(crate) fn find_undeclared(schema: &Value, path: &[String]) -> Option<(String, Vec<String>)> {
    let mut at = schema;
    let mut seen = String::new();
    for part in path {
        let declared = at.get("properties").and_then(Value::as_object);
        match declared.and_then(|declared| declared.get(part)) {
            Some(inner) => at = inner,
            None => {
                // A map, or a schema that does not say its members.
                let open = declared.is_none() && !is_scalar(at);
                let known = declared.map(|all| all.keys().cloned().collect()).unwrap_or_default();
                return (!open).then(|| (format!("{seen}{part}"), known));
            }
        }
        // Writing to a string does not fail.
        let _written = write!(seen, "{part}.");
    }
    None
}

fn is_scalar(schema: &Value) -> bool {
    let scalar = |kind: &Value| kind != "object" && kind != "array";
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().all(scalar),
        Some(kind) => scalar(kind),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders_are_filled_and_dollar_signs_stay() {
        let params =
            json!({"city": "Bern", "days": 3, "guest": {"name": "Ada"}, "tags": {"b": 1, "a": 2}});
        for (template, expected) in [
            ("to ${city} for ${days} days", "to Bern for 3 days"),
            ("${guest.name} pays $5 or $$5", "Ada pays $5 or $5"),
            ("$${city}", "${city}"),
            ("${tags}", r#"{"a":2,"b":1}"#),
            ("100$", "100$"),
            ("", ""),
        ] {
            let parsed = Template::parse(template).expect("a template");
            assert_eq!(parsed.fill(&params).as_deref(), Ok(expected), "{template}");
        }
        let missing = Template::parse("${guest.age}").expect("a template");
        assert_eq!(missing.fill(&params), Err("guest.age".to_owned()));
    }

    #[test]
    fn what_is_no_placeholder_is_refused() {
        for template in ["${city", "${}", "${a b}", "${a..b}", "${1}"] {
            let problem = Template::parse(template).expect_err(template);
            assert!(problem.contains("${"), "{problem}");
        }
    }

    #[test]
    fn names_are_checked_against_the_schema() {
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string"},
            "guest": {"type": "object", "properties": {"name": {"type": "string"}}},
            "tags": {"type": "object", "additionalProperties": true},
        }});
        let check = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            find_undeclared(&schema, &path).map(|(name, _)| name)
        };
        assert_eq!(check("city"), None);
        assert_eq!(check("guest.name"), None);
        assert_eq!(check("tags.anything"), None);
        assert_eq!(check("town").as_deref(), Some("town"));
        assert_eq!(check("guest.age").as_deref(), Some("guest.age"));
        assert_eq!(check("city.name").as_deref(), Some("city.name"));
    }
}
