//! Edits of `scripts/bugs/bugs.toml`: each text that a bug replaces is in its file exactly once.

use serde::Deserialize;

use super::{House, Offence};

const LIST: &str = "scripts/bugs/bugs.toml";

#[derive(Debug, Default, Deserialize)]
struct List {
    #[serde(default)]
    bug: Vec<Edits>,
    #[serde(default)]
    support: Vec<Edits>,
}

#[derive(Debug, Deserialize)]
struct Edits {
    #[serde(default)]
    name: String,
    edit: Vec<Edit>,
}

#[derive(Debug, Deserialize)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list: List = match toml::from_str(house.tree.text(LIST).unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => return vec![Offence::of(LIST, format!("could not be read: {error}"))],
    };
    let mut offences = Vec::new();
    for Edits { name, edit } in list.bug.iter().chain(&list.support) {
        for Edit { file, old, new } in edit {
            let times = house.tree.text(file).map_or(0, |text| text.matches(old.as_str()).count());
            let first = old.trim().lines().next().unwrap_or_default();
            if times != 1 {
                let text = format!("`{file}` has the text `{first}` of `{name}` {times} times");
                offences.push(Offence::of(LIST, text));
            }
            if old == new {
                let text = format!("`{name}` does not change the text `{first}`");
                offences.push(Offence::of(LIST, text));
            }
        }
    }
    offences
}
