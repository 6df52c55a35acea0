//! The prelude: each of its names has an example in its documentation.

use super::{House, Offence};
use std::collections::BTreeSet;

/// The file that has the prelude.
const FACADE: &str = "crates/weftwork/src/lib.rs";
/// Words that begin the definition of a public item.
const DEFINES: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "const", "async fn"];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let names = names_of_prelude(house.tree.text(FACADE).unwrap_or_default());
    let shown = names_with_example(house);
    let is_generated =
        |name: &String| name.strip_suffix("Update").is_some_and(|state| names.contains(state));
    let without = names.iter().filter(|name| !is_generated(name) && !shown.contains(name.as_str()));
    without
        .map(|name| {
            let message = format!(
                "`{name}` of the prelude has no example in its documentation; add one where it is defined"
            );
            Offence::of(FACADE, message)
        })
        .collect()
}

/// The names that `pub mod prelude` re-exports.
fn names_of_prelude(text: &str) -> BTreeSet<String> {
    let Some(start) = text.find("pub mod prelude {") else { return BTreeSet::new() };
    let body = text.get(start..).unwrap_or_default();
    let body = body.get(..body.find("\n}").unwrap_or(body.len())).unwrap_or_default();
    let uses = body.split(';').filter_map(|item| item.split("pub use ").nth(1));
    let lists = uses.filter_map(|path| {
        let list = path.split('{').nth(1).map(|list| list.trim_end_matches('}').trim());
        list.or_else(|| path.rsplit("::").next())
    });
    let names = lists.flat_map(|list| list.split(','));
    names
        .map(|name| name.trim().trim_end_matches('}').trim().to_owned())
        .filter(|n| !n.is_empty())
        .collect()
}

/// The names of public items, and of re-exports under a new name, that have an example.
fn names_with_example<'h>(house: &'h House<'_>) -> BTreeSet<&'h str> {
    let sources = house.tree.rust_files();
    let libraries =
        sources.filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"));
    let mut names = BTreeSet::new();
    for (_, text) in libraries {
        // `true` within documentation and attributes that have an example.
        let mut has_example = false;
        for line in text.lines().map(str::trim_start) {
            match defined_name(line) {
                Some(name) if has_example => drop(names.insert(name)),
                _ => {}
            }
            if line.is_empty() || line.ends_with(['{', ';', '}']) && !line.starts_with("///") {
                has_example = false;
            }
            has_example |= line.starts_with("/// ```");
        }
    }
    names
}

/// The name that a line defines or re-exports for other crates.
fn defined_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    if let Some(path) = rest.strip_prefix("use ") {
        return path.strip_suffix(';')?.split(" as ").nth(1);
    }
    let after = DEFINES.iter().find_map(|word| rest.strip_prefix(word)?.strip_prefix(' '))?;
    after.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}
