//! Names of tools: `tool` in lower snake case, or `server/tool` as the server spells it.
//!
//! A part in snake case begins with a letter, ends with a letter or digit, and has no consecutive
//! underscores. Therefore `__`, which stands for `/` on the wire, occurs in no name without server.
//! Two names of servers' tools may have one wire name; a tool box refuses such a pair, so that the
//! specs of its tools are the table from wire names to canonical names.

use crate::ToolBoxError;
use weftwork_types::tool;
pub use weftwork_types::tool::WIRE_NAME_CHARS_MAX;

/// Maximum length of the name of a server, in characters.
const SERVER_CHARS_MAX: usize = 128;
/// Maximum length of a server's name of a tool, in characters.
const TOOL_CHARS_MAX: usize = 1_024;

/// Beginning of the names of tools that are requests of HTTP APIs.
pub const API_TOOLS: &str = "api/";

/// Name of the tool that asks the person. No other tool may have it.
pub const ASK_HUMAN: &str = "ask_human";

/// Validates a canonical name and returns its wire name.
///
/// # Errors
/// [`ToolBoxError::Name`] if a name without server is not lower snake case or too long, if the server
/// of `server/tool` contains other characters than ASCII letters, digits, `_`, `-` and `.`, or if the
/// tool is too long or has characters that are not displayed.
pub fn wire_name(canonical: &str) -> Result<String, ToolBoxError> {
    let valid = match canonical.split_once('/') {
        Some((server, tool)) => is_server_name(server) && is_tool_name(tool),
        None => is_snake_case(canonical) && canonical.len() <= WIRE_NAME_CHARS_MAX,
    };
    if valid {
        return Ok(tool::wire_name(canonical));
    }
    Err(ToolBoxError::Name { name: canonical.chars().take(80).collect() })
}

/// The server of a canonical name; `None` for the program's own tools.
pub(crate) fn server(canonical: &str) -> Option<&str> {
    canonical.split_once('/').map(|(server, _)| server)
}

/// Returns `true` for the name of a server: ASCII letters, digits, `_`, `-` and `.`, with at least one
/// letter or digit.
#[must_use]
pub fn is_server_name(text: &str) -> bool {
    text.len() <= SERVER_CHARS_MAX
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Returns `true` for a server's name of a tool. White space at its ends is not displayed.
fn is_tool_name(text: &str) -> bool {
    !text.is_empty()
        && text.trim() == text
        && text.chars().count() <= TOOL_CHARS_MAX
        && !text.chars().any(|letter| letter.is_control() || tool::is_hidden(letter))
}

fn is_snake_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('_')
        && !text.contains("__")
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Returns the candidate that is most similar to a name, if one is similar enough.
pub(crate) fn nearest<'a>(
    found: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // Longer texts are no typing errors, and the cost of the distance is the product of the
    // lengths.
    if found.len() > 2 * WIRE_NAME_CHARS_MAX {
        return None;
    }
    let allowed = (found.len() / 3).max(1);
    candidates
        .map(|name| (distance(found, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_mistaken_are_refused() {
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a b/c",
            "\u{e4}/a",
            "A",
            "a-b",
            "a b",
            "1a",
            "_a",
            "a_",
            "a__b",
            "ä",
            "-/a",
            "a/ b",
            "a/b ",
            "a/b\u{a0}",
            "a/b\tc",
            "a/b\u{200b}c",
            "a/b\n",
            "a/\u{202e}b",
        ] {
            assert!(wire_name(bad).is_err(), "{bad:?}");
        }
        assert!(wire_name(&"a".repeat(65)).is_err());
        assert!(wire_name(&format!("{}/b", "a".repeat(129))).is_err());
        assert!(wire_name(&format!("a/{}", "b".repeat(1_025))).is_err());
        for good in ["a/b/c", "a/-", "a/\u{e4}", "a/b c", "a/b:c@1", "a/*", "a/(b)"] {
            assert!(wire_name(good).is_ok(), "{good:?}");
        }
        assert_eq!(wire_name(&format!("a/{}", "b".repeat(1_024))).expect("valid").len(), 64);
        assert_eq!(wire_name("files/read_2").expect("valid"), "files__read_2");
        assert_eq!(wire_name("My-Files/readAll").expect("valid"), "my_files__read_all");
        assert_eq!(wire_name(&"a".repeat(64)).expect("valid").len(), 64);
    }

    #[test]
    fn the_nearest_name_is_found_only_when_it_is_near() {
        let names = ["lookup_order", "refund_order", "get_weather"];
        assert_eq!(nearest("lookup_orders", names.into_iter()), Some("lookup_order"));
        assert_eq!(nearest("get_wether", names.into_iter()), Some("get_weather"));
        assert_eq!(nearest("delete_all", names.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(10_000), names.into_iter()), None);
    }
}
