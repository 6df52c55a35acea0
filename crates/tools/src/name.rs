//! Names of tools: `tool` or `server/tool`, each part lower snake case.
//!
//! A part begins with a letter, ends with a letter or digit, and has no consecutive underscores.
//! Therefore `__`, which stands for `/` on the wire, is unambiguous.

use crate::ToolBoxError;

/// Maximum length of a wire name in characters, as accepted by all providers.
pub const WIRE_NAME_CHARS_MAX: usize = 64;

/// Name of the tool that asks the person. No other tool may have it.
pub const ASK_HUMAN: &str = "ask_human";

/// Validates a canonical name and returns its wire name.
///
/// # Errors
/// [`ToolBoxError::Name`] if a part is not lower snake case, or the wire name is too long.
pub fn wire_name(canonical: &str) -> Result<String, ToolBoxError> {
    let wire = canonical.replacen('/', "__", 1);
    let parts_ok = match canonical.split_once('/') {
        Some((server, tool)) => is_part(server) && is_part(tool),
        None => is_part(canonical),
    };
    if parts_ok && wire.len() <= WIRE_NAME_CHARS_MAX {
        return Ok(wire);
    }
    Err(ToolBoxError::Name { name: canonical.chars().take(80).collect() })
}

/// Converts a wire name to the canonical name.
#[must_use]
pub fn canonical_name(wire: &str) -> String {
    wire.replacen("__", "/", 1)
}

/// The server of a canonical name; `None` for the program's own tools.
pub(crate) fn server(canonical: &str) -> Option<&str> {
    canonical.split_once('/').map(|(server, _)| server)
}

pub(crate) fn is_part(text: &str) -> bool {
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
    use proptest::prelude::*;

    #[test]
    fn names_that_could_not_be_read_back_are_refused() {
        for bad in [
            "", "/", "a/", "/a", "a/b/c", "A", "a-b", "a b", "1a", "_a", "a_", "a__b", "a_/b", "ä",
            "a/_b",
        ] {
            assert!(wire_name(bad).is_err(), "{bad:?}");
        }
        assert!(wire_name(&"a".repeat(65)).is_err());
        assert!(wire_name(&format!("{}/{}", "a".repeat(32), "b".repeat(31))).is_err());
        assert_eq!(wire_name("files/read_2").expect("valid"), "files__read_2");
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

    proptest! {
        #[test]
        fn wire_names_read_back(name in "[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,4}){0,2}(/[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,4}){0,2})?") {
            let wire = wire_name(&name).expect("valid");
            prop_assert_eq!(canonical_name(&wire), name);
        }
    }
}
