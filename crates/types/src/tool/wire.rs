//! Wire names: the names by which providers and models call tools.

use crate::canonical::hash;
use serde_json::Value;

/// Maximum length of a wire name in characters, as accepted by all providers.
pub const WIRE_NAME_CHARS_MAX: usize = 64;

/// Number of digits of the hash that ends a wire name which had to be cut.
const DIGITS: usize = 8;

/// Returns the wire name of a canonical name. It depends on this name only, so it stays the same
/// when other tools come or go.
///
/// A name without server is its own wire name. Of `server/tool`, both parts are written in snake
/// case and joined with `__`. A longer result than [`WIRE_NAME_CHARS_MAX`] is cut, and ends with
/// digits of the hash of the canonical name. So does the name of a tool with characters other than
/// ASCII letters, digits, `_`, `-` and `.`, in whose place the result has `_`.
#[must_use]
pub fn wire_name(canonical: &str) -> String {
    let Some((server, tool)) = canonical.split_once('/') else { return canonical.to_owned() };
    let whole = format!("{}__{}", snake_case(server), snake_case(tool));
    let is_plain =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if whole.len() <= WIRE_NAME_CHARS_MAX && is_plain(server) && is_plain(tool) {
        return whole;
    }
    let digits = hash(&Value::from(canonical)).to_string();
    let start: String = whole.chars().take(WIRE_NAME_CHARS_MAX - DIGITS - 1).collect();
    let digits: String = digits.chars().take(DIGITS).collect();
    format!("{}_{digits}", start.trim_end_matches('_'))
}

/// Returns `true` for a character that is not displayed, or that changes the order of others. Line
/// breaks and tabs are displayed.
#[must_use]
pub fn is_hidden(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text in lower snake case: it begins with a letter, ends with a letter or digit, and has
/// no consecutive underscores. Texts of this form are returned unchanged.
#[must_use]
pub fn snake_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if !c.is_ascii_alphanumeric() || starts_word(before, c, rest.peek().copied()) {
            separate(&mut out);
        }
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        }
        before = Some(c);
    }
    let out = out.trim_end_matches('_');
    match out.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => out.to_owned(),
        false => format!("n{out}"),
    }
}

/// Returns `true` at the `P` of `getPage`, `v2Page` and `HTTPPage`.
fn starts_word(before: Option<char>, c: char, after: Option<char>) -> bool {
    let lower = |c: char| c.is_ascii_lowercase();
    let before_word = before.is_some_and(|b| lower(b) || b.is_ascii_digit());
    c.is_ascii_uppercase() && (before_word || after.is_some_and(lower))
}

fn separate(out: &mut String) {
    if !out.is_empty() && !out.ends_with('_') {
        out.push('_');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_servers_become_snake_case() {
        for (canonical, wire) in [
            ("add", "add"),
            ("files/read_2", "files__read_2"),
            ("everything/get-sum", "everything__get_sum"),
            ("everything/printEnv", "everything__print_env"),
            ("My.Server/HTTPGetURL2Page", "my_server__http_get_url2_page"),
            ("a/b--c__d-", "a__b_c_d"),
            ("a/2fa", "a__n2fa"),
            ("-/_", "n__n"),
        ] {
            assert_eq!(wire_name(canonical), wire, "{canonical}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = |end: &str| wire_name(&format!("server/{}{end}", "read-".repeat(20)));
        let a = long("a");
        let b = long("b");
        assert_ne!(a, b);
        assert!(a.len() <= WIRE_NAME_CHARS_MAX && a.starts_with("server__read_read_"), "{a}");
    }

    #[test]
    fn replaced_characters_are_told_apart_by_a_hash() {
        let names =
            ["s/a/b/c.d", "s/a_b/c.d", "s/a b/c.d", "s/a:b/c.d", "s/a@b/c.d", "s/\u{e4}b/c.d"];
        let wires: Vec<String> = names.iter().map(|name| wire_name(name)).collect();
        for (at, wire) in wires.iter().enumerate() {
            assert!(wire.starts_with("s__") && wire.contains("b_c_d_"), "{wire}");
            assert!(!wires[..at].contains(wire), "{wires:?}");
        }
        let wire = wire_name("s/\u{1f600}");
        assert!(wire.starts_with("s__n_") && wire.len() == "s__n_".len() + DIGITS, "{wire}");
    }

    proptest! {
        #[test]
        fn every_name_of_a_tool_has_a_wire_name(tool in "\\PC{1,90}") {
            let wire = wire_name(&format!("s/{tool}"));
            prop_assert!(wire.len() <= WIRE_NAME_CHARS_MAX && wire.starts_with("s__"), "{}", wire);
            let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            prop_assert!(wire.bytes().all(ok), "{}", wire);
        }

        #[test]
        fn every_wire_name_is_accepted_by_providers(name in "[A-Za-z0-9_.-]{1,90}/[A-Za-z0-9_.-]{1,90}") {
            let wire = wire_name(&name);
            prop_assert!(wire.len() <= WIRE_NAME_CHARS_MAX);
            prop_assert!(wire.starts_with(|c: char| c.is_ascii_lowercase()), "{}", wire);
            let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            prop_assert!(wire.bytes().all(ok), "{}", wire);
        }

        #[test]
        fn names_in_snake_case_are_read_back(name in "[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,4}){0,2}/[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,4}){0,2}") {
            prop_assert_eq!(wire_name(&name).replacen("__", "/", 1), name);
        }
    }
}
