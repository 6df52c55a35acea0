//! The rule on notes for the changelog: short, of a known kind, and about something that users of
//! the project can notice.

use std::collections::BTreeSet;

use super::{House, Offence};
use crate::source::{Role, role};

const FOLDER: &str = "changes/unreleased/";
const KINDS: [&str; 4] = ["added: ", "changed: ", "fixed: ", "removed: "];
/// Maximum number of characters of a line of a note: a sentence or two.
const CHARACTERS_MAX: usize = 500;
/// Openings of names that only developers of this repository meet.
const INTERNAL: [&str; 8] =
    ["xtask", "cargo xtask", "crates/", "tests/", "scripts/", "bench/", "make test", ".ci/"];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let names = Names::of(house);
    let mut offences = Vec::new();
    for (path, text) in house.tree.files() {
        let Some(name) = path.strip_prefix(FOLDER) else { continue };
        if name == ".gitkeep" {
            continue;
        }
        let lines: Vec<(usize, &str)> =
            (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).collect();
        if !name.ends_with(".md") || lines.is_empty() {
            offences.push(Offence::of(path, "is no note: a file `<slug>.md` with at least a line"));
            continue;
        }
        for (number, line) in lines {
            offences.extend(problem(line, &names).map(|why| Offence::at(path, number, why)));
        }
    }
    offences
}

/// The reason why a line of a note is refused.
fn problem(line: &str, names: &Names<'_>) -> Option<String> {
    if !KINDS.iter().any(|kind| line.starts_with(kind)) {
        let kinds = KINDS.map(|kind| format!("`{}`", kind.trim_end())).join(", ");
        return Some(format!("starts with none of {kinds}"));
    }
    let characters = line.chars().count();
    if characters > CHARACTERS_MAX {
        return Some(format!("has {characters} characters, at most {CHARACTERS_MAX}"));
    }
    let mut named = line.split('`').skip(1).step_by(2).peekable();
    let is_internal = named.peek().is_some() && named.all(|name| names.is_internal(name));
    is_internal
        .then(|| "names only internals; a change that no user notices needs no note".to_owned())
}

/// Names of functions: those that are public anywhere, and all others.
struct Names<'a> {
    public: BTreeSet<&'a str>,
    private: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(house: &'a House<'_>) -> Self {
        let mut public = BTreeSet::new();
        let mut private = BTreeSet::new();
        for (path, source) in &house.sources {
            if role(path) == Role::Code && path.starts_with("crates/") {
                public.extend(source.public.iter().map(|(name, _)| name.as_str()));
            }
            private.extend(source.functions.iter().map(|function| function.name.as_str()));
        }
        Self { public, private }
    }

    /// Returns `true` for a name that users do not meet: a path of the repository, a task of its
    /// developers, or a function that is public nowhere.
    fn is_internal(&self, name: &str) -> bool {
        let item = name.trim_end_matches("()").rsplit("::").next().unwrap_or(name);
        INTERNAL.iter().any(|opening| name.starts_with(opening))
            || (self.private.contains(item) && !self.public.contains(item))
    }
}
