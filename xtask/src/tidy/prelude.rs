//! The prelude: each of its names has an example in its documentation.

use super::{House, Offence};

/// The file that has the prelude.
const FACADE: &str = "crates/weftwork/src/lib.rs";
/// Words that begin the definition of a public item.
const DEFINES: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "const", "async fn"];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let names = names_of_prelude(house.tree.text(FACADE).unwrap_or_default());
    let is_generated = |name: &str| {
        name.strip_suffix("Update").is_some_and(|state| names.iter().any(|other| other == state))
    };
    let without = names.iter().filter(|name| !is_generated(name) && !has_example(house, name));
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
fn names_of_prelude(text: &str) -> Vec<String> {
    let Some(start) = text.find("pub mod prelude {") else { return Vec::new() };
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

/// Returns `true` if a public item of this name, or its re-export by the facade, has an example.
fn has_example(house: &House<'_>, name: &str) -> bool {
    let sources = house.tree.rust_files();
    let mut libraries =
        sources.filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"));
    libraries.any(|(_, text)| {
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let defined = lines.iter().enumerate().filter(|(_, line)| defines(line, name));
        defined.into_iter().any(|(at, _)| {
            let above = lines.iter().take(at).rev();
            let mut docs =
                above.take_while(|line| !line.is_empty() && !line.ends_with(['{', ';', '}']));
            docs.any(|line| line.starts_with("/// ```"))
        })
    })
}

/// Returns `true` if a line begins the definition of a public item of this name.
fn defines(line: &str, name: &str) -> bool {
    let Some(rest) = line.strip_prefix("pub ") else { return false };
    if rest.starts_with("use ") {
        return rest.ends_with(&format!(" as {name};"));
    }
    DEFINES.iter().any(|word| {
        let after = rest.strip_prefix(word).and_then(|after| after.strip_prefix(' '));
        let after = after.and_then(|after| after.strip_prefix(name));
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}
