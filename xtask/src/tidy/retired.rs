//! Names that the project replaced, as listed in `xtask/retired.toml`: no public item, module or
//! file has one of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{House, Offence};
use crate::source::{Role, role};
use crate::workspace::package_of;

const LIST: &str = "xtask/retired.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    retired: Vec<Retired>,
    /// Names that no field and no function should have, also private ones, with a description of
    /// better ones. The rule on language counts them.
    #[serde(default)]
    private: Vec<Retired>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retired {
    /// The name; `*` at its end stands for any ending.
    name: String,
    replacement: String,
    /// The crates that may not have the name; none: all.
    #[serde(default)]
    crates: Vec<String>,
}

impl Retired {
    fn is(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => self.name == name,
        }
    }

    fn concerns(&self, path: &str) -> bool {
        let package = package_of(path).filter(|package| *package != "xtask");
        package.is_some_and(|name| self.crates.is_empty() || self.crates.iter().any(|c| c == name))
    }
}

/// The retired private names, with descriptions of better ones. A list that cannot be read is reported
/// by [`check`].
pub(super) fn private_names(house: &House<'_>) -> BTreeMap<String, String> {
    let list: List = toml::from_str(house.tree.text(LIST).unwrap_or_default()).unwrap_or_default();
    list.private.into_iter().map(|retired| (retired.name, retired.replacement)).collect()
}

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list: List = match toml::from_str(house.tree.text(LIST).unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => return vec![Offence::of(LIST, format!("could not be read: {error}"))],
    };
    let mut offences = Vec::new();
    for (path, source) in house.sources.iter().filter(|(path, _)| role(path) == Role::Code) {
        for retired in list.retired.iter().filter(|retired| retired.concerns(path)) {
            if module_of(path).is_some_and(|name| retired.is(name)) {
                offences.push(Offence::of(path, message("file", retired)));
            }
            let modules = source.modules.iter().map(|(name, line)| ("module", name, line));
            let public = source.public.iter().map(|(name, line)| ("public name", name, line));
            let public = public.filter(|found| {
                !source.modules.iter().any(|(name, line)| (name, line) == (found.1, found.2))
            });
            let named = modules.chain(public).filter(|(_, name, _)| retired.is(name));
            offences.extend(
                named.map(|(kind, _, line)| Offence::at(path, *line, message(kind, retired))),
            );
        }
    }
    offences
}

/// The name of the module of a file.
fn module_of(path: &str) -> Option<&str> {
    let path = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"))?;
    path.rsplit('/').next()
}

fn message(kind: &str, retired: &Retired) -> String {
    format!("{kind} `{}` was replaced by `{}`", retired.name, retired.replacement)
}
