//! Definitions as text.

use super::folder::DefinitionFolder;
use serde_json::Value;
use std::fmt::Write;

impl DefinitionFolder {
    /// Returns the definition as YAML, with its slug. Reading it gives the same definition.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut definition = self.definition.clone();
        definition.slug = Some(self.slug.clone());
        let mut text = String::new();
        if let Ok(Value::Object(members)) = serde_json::to_value(&definition) {
            for (key, value) in &members {
                write_member(&mut text, key, value, 0);
            }
        }
        text
    }
}

/// Returns the lines of two texts that differ, with a sign before each, and some lines around them.
#[must_use]
pub fn diff_lines(before: &str, after: &str) -> Vec<String> {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let ops = similar::capture_diff_slices(similar::Algorithm::Myers, &before, &after);
    let mut lines = Vec::new();
    for group in similar::group_diff_ops(ops, 3) {
        if !lines.is_empty() {
            lines.push("…".to_owned());
        }
        for op in group {
            let old = before.get(op.old_range()).unwrap_or_default();
            if op.tag() == similar::DiffTag::Equal {
                lines.extend(old.iter().map(|line| format!("  {line}")));
                continue;
            }
            let new = after.get(op.new_range()).unwrap_or_default();
            lines.extend(old.iter().map(|line| format!("- {line}")));
            lines.extend(new.iter().map(|line| format!("+ {line}")));
        }
    }
    lines
}

pub(super) fn write_member(text: &mut String, key: &str, value: &Value, indent: usize) {
    let key = Value::from(key).to_string();
    let key = key.trim_matches('"').to_owned();
    let is_plain = !key.is_empty()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
        && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$');
    let shown = if is_plain { key } else { format!("\"{key}\"") };
    write!(text, "{:indent$}{shown}:", "").unwrap_or_default();
    write_value(text, value, indent);
}

/// Writes what stands behind a key or a dash.
fn write_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            for (key, value) in members {
                write_member(text, key, value, indent + 2);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push('\n');
            for item in items {
                // JSON is YAML.
                writeln!(text, "{:indent$}  - {item}", "").unwrap_or_default();
            }
        }
        Value::String(lines) if is_block(lines) => {
            let (sign, body) = match lines.strip_suffix('\n') {
                Some(body) => ("|", body),
                None => ("|-", lines.as_str()),
            };
            writeln!(text, " {sign}").unwrap_or_default();
            for line in body.split('\n') {
                let indent = if line.is_empty() { 0 } else { indent + 2 };
                writeln!(text, "{:indent$}{line}", "").unwrap_or_default();
            }
        }
        other => writeln!(text, " {other}").unwrap_or_default(),
    }
}

/// Returns `true` if a text can be a literal block.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && !text.ends_with("\n\n")
        && text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{feff}')
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
}
