//! Texts of servers, without characters that a reader does not see.

use serde_json::Value;
pub(crate) use weftwork_types::tool::is_hidden;

/// Returns a text without terminal sequences and without characters that are not displayed: control
/// characters other than line breaks and tabs, direction marks, joiners, tags and fillers.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_sequence(&mut letters),
            _ if !is_hidden(letter) => out.push(letter),
            _ => {}
        }
    }
    out
}

/// Returns a text as one line of at most `chars_max` characters, cleaned.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let line = clean(text).replace(['\n', '\t'], " ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Skips the rest of a terminal sequence after its escape character.
fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        // Parameters and intermediate characters, up to the final character.
        Some('[') => {
            letters.find(|letter| ('\u{40}'..='\u{7e}').contains(letter));
        }
        // A string, up to BEL or the string terminator.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(letter) = letters.next() {
                match letter {
                    '\u{7}' | '\u{9c}' => break,
                    '\u{1b}' => {
                        letters.next_if_eq(&'\\');
                        break;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Removes hidden characters from the texts of a schema that only explain it.
///
/// # Errors
/// The first other text with a hidden character. It has a meaning for the server and cannot be
/// changed.
pub(crate) fn clean_schema(schema: &mut Value) -> Result<(), String> {
    match schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if name.chars().any(is_hidden) {
                    return Err(short(name, 40));
                }
                match member {
                    Value::String(text) if is_remark(name) => *text = clean(text),
                    other if is_remark(name) => clean_all(other),
                    other => clean_schema(other)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(clean_schema),
        Value::String(text) if text.chars().any(is_hidden) => Err(short(text, 40)),
        _ => Ok(()),
    }
}

/// Removes hidden characters from all texts of a value.
fn clean_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(items) => items.iter_mut().for_each(clean_all),
        Value::Object(members) => members.values_mut().for_each(clean_all),
        _ => {}
    }
}

/// Returns `true` for a member that explains a schema to people and models.
fn is_remark(member: &str) -> bool {
    matches!(
        member,
        "description" | "title" | "$comment" | "examples" | "default" | "markdownDescription"
    ) || member.starts_with("x-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_clean_text_has_only_what_is_displayed() {
        for (found, expected) in [
            (
                "Adds two numbers.\n\tAnd more: ä, 数, 🙂",
                "Adds two numbers.\n\tAnd more: ä, 数, 🙂",
            ),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;http://127.0.0.1\u{7}link\u{1b}]8;;\u{1b}\\ and", "link and"),
            ("a\u{200b}b\u{202e}c\u{e0041}\u{e0042}d\u{feff}", "abcd"),
            ("\u{1b}[", ""),
            ("bell\u{7}\r", "bell"),
        ] {
            assert_eq!(clean(found), expected);
        }
        assert_eq!(short("a\nb\u{200b}c", 2), "a …");
    }

    #[test]
    fn texts_with_a_meaning_are_not_changed() {
        let mut schema =
            json!({"description": "a\u{200b}b", "properties": {"x": {"title": "\u{1b}[1mx"}}});
        assert_eq!(clean_schema(&mut schema), Ok(()));
        assert_eq!(schema, json!({"description": "ab", "properties": {"x": {"title": "x"}}}));
        for mut bad in [
            json!({"properties": {"a\u{200b}": {}}}),
            json!({"enum": ["a\u{e0041}"]}),
            json!({"properties": {"a": {"pattern": "\u{1b}"}}}),
        ] {
            assert!(clean_schema(&mut bad).is_err(), "{bad}");
        }
    }
}
