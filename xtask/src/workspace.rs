//! The workspace's packages and their dependencies, from the manifests.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::tree::Tree;

/// The prefix of our package names.
pub(crate) const PREFIX: &str = "weftwork";

/// A package under `crates/`, named after its folder.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) manifest_path: String,
    pub(crate) manifest: Table,
}

impl Crate {
    /// Parses a manifest; the error is the TOML parser's message.
    pub(crate) fn parse(name: &str, path: &str, text: &str) -> Result<Self, String> {
        let manifest = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
        Ok(Self { name: name.to_owned(), manifest_path: path.to_owned(), manifest })
    }

    /// The package name that matches the folder.
    pub(crate) fn expected_package(&self) -> String {
        if self.name == PREFIX { self.name.clone() } else { format!("{PREFIX}-{}", self.name) }
    }

    /// All dependencies of a kind, on all targets, as key and value.
    pub(crate) fn dependencies(&self, kind: Kind) -> Vec<(&str, &Value)> {
        let names: &[&str] = match kind {
            Kind::Normal => &["dependencies", "build-dependencies"],
            Kind::Dev => &["dev-dependencies"],
        };
        let targets = self.manifest.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(|table| table.values());
        let holders = std::iter::once(&self.manifest).chain(targets.filter_map(Value::as_table));
        let tables = holders.flat_map(|holder| names.iter().filter_map(|name| holder.get(*name)));
        tables
            .filter_map(Value::as_table)
            .flat_map(|table| table.iter().map(|(key, value)| (key.as_str(), value)))
            .collect()
    }

    /// Dependencies of a kind that are crates of this workspace, by folder name.
    pub(crate) fn ours(&self, kind: Kind) -> BTreeSet<String> {
        self.dependencies(kind).into_iter().filter_map(|(key, _)| our_name(key)).collect()
    }

    /// Normal dependencies from outside this workspace.
    pub(crate) fn external(&self) -> BTreeSet<&str> {
        let all = self.dependencies(Kind::Normal).into_iter().map(|(key, _)| key);
        all.filter(|key| our_name(key).is_none()).collect()
    }

    /// Features of the manifest, without `default`.
    pub(crate) fn features(&self) -> Vec<&str> {
        let table = self.manifest.get("features").and_then(Value::as_table);
        let names = table.into_iter().flat_map(|table| table.keys().map(String::as_str));
        names.filter(|name| *name != "default").collect()
    }
}

/// All packages under `crates/`, and the manifests that do not parse with their errors.
#[derive(Debug, Default)]
pub(crate) struct Crates {
    pub(crate) all: Vec<Crate>,
    pub(crate) broken: Vec<(String, String)>,
}

impl Crates {
    /// Parses every `crates/<name>/Cargo.toml`.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut crates = Self::default();
        for (path, text) in tree.files() {
            let parts: Vec<&str> = path.split('/').collect();
            let ["crates", name, "Cargo.toml"] = parts.as_slice() else { continue };
            match Crate::parse(name, path, text) {
                Ok(one) => crates.all.push(one),
                Err(error) => crates.broken.push((path.to_owned(), error)),
            }
        }
        crates
    }

    /// Normal dependencies of each crate on other crates of this workspace.
    pub(crate) fn arrows(&self) -> BTreeMap<&str, BTreeSet<String>> {
        self.all.iter().map(|one| (one.name.as_str(), one.ours(Kind::Normal))).collect()
    }
}

/// The kind of dependency tables in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Dependencies of the build: `dependencies` and `build-dependencies`.
    Normal,
    /// Dependencies of the tests.
    Dev,
}

/// The name of a file's package, if the file is under `crates/` or `xtask/`.
pub(crate) fn package_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match parts.next()? {
        "crates" => parts.next(),
        "xtask" => Some("xtask"),
        _ => None,
    }
}

/// The folder name of a package of this workspace; `None` for other packages.
fn our_name(package: &str) -> Option<String> {
    if package == PREFIX {
        return Some(package.to_owned());
    }
    package.strip_prefix(PREFIX)?.strip_prefix('-').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Crates, Kind};
    use crate::tree::fixture::Fixture;

    const TREE: &str = r#"
-- crates/graph/Cargo.toml --
[package]
name = "weftwork-graph"
[features]
default = ["a"]
a = []
b = []
[dependencies]
weftwork-types.workspace = true
serde.workspace = true
[target.'cfg(unix)'.dependencies]
libc.workspace = true
[dev-dependencies]
weftwork-testkit.workspace = true
insta.workspace = true
-- crates/bad/Cargo.toml --
[package
"#;

    #[test]
    fn sorts_dependencies_into_ours_and_the_worlds() {
        let tree = Fixture::default().overlay(TREE).tree;
        let crates = Crates::of(&tree);
        let graph = &crates.all[0];
        assert_eq!(graph.ours(Kind::Normal).into_iter().collect::<Vec<_>>(), ["types"]);
        assert_eq!(graph.ours(Kind::Dev).into_iter().collect::<Vec<_>>(), ["testkit"]);
        assert_eq!(graph.external().into_iter().collect::<Vec<_>>(), ["libc", "serde"]);
        assert_eq!(graph.features(), ["a", "b"]);
        assert_eq!(graph.expected_package(), "weftwork-graph");
    }

    #[test]
    fn a_broken_manifest_is_kept_with_its_reason() {
        let tree = Fixture::default().overlay(TREE).tree;
        let crates = Crates::of(&tree);
        assert_eq!(crates.broken[0].0, "crates/bad/Cargo.toml");
        assert!(!crates.broken[0].1.is_empty());
    }
}
