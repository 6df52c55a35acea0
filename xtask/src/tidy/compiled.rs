//! The rule that each program in the tree is compiled by a stage: it belongs to a package of the
//! workspace, or is included by one. Sources that no build reads become wrong unnoticed.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{House, Offence};
use crate::markdown;
use crate::workspace::package_of;

const ROOT: &str = "Cargo.toml";

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let members = Members::of(house);
    let mut offences = Vec::new();
    for (path, text) in house.tree.files() {
        let message = match path.rsplit_once('.') {
            Some((_, "rs")) => rust(&members, path),
            Some((_, "md")) => document(&members, path, text),
            Some((_, "toml")) if is_manifest(path) => manifest(&members, path, text),
            _ => None,
        };
        offences.extend(message.map(|message| Offence::of(path, message)));
    }
    offences
}

/// A Rust file belongs to a package, or is named by one.
fn rust(members: &Members<'_>, path: &str) -> Option<String> {
    let in_package =
        package_of(path).is_some() || members.packages.iter().any(|folder| is_below(path, folder));
    let is_named = |path: &str| members.includes(&format!("../{path}\""));
    let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    let mut mains = folders.map(|folder| format!("{folder}/main.rs"));
    let compiled = in_package || is_named(path) || mains.any(|main| is_named(&main));
    (!compiled).then(|| "belongs to no package, and none includes it".to_owned())
}

/// A document with programs in Rust is included by a doctest or read by a test.
fn document(members: &Members<'_>, path: &str, text: &str) -> Option<String> {
    let fences = markdown::fences(text);
    let has_rust = fences.iter().any(|fence| fence.info.split([',', ' ']).next() == Some("rust"));
    (has_rust && !members.includes(&format!("{path}\""))).then(|| {
        "has programs in Rust that nothing compiles; include it in a doctest, as \
         `crates/weftwork/src/lib.rs` does"
            .to_owned()
    })
}

/// A package that uses ours is a member of the workspace, so that it changes with them.
fn manifest(members: &Members<'_>, path: &str, text: &str) -> Option<String> {
    let folder = path.strip_suffix("/Cargo.toml").unwrap_or_default();
    let uses_ours = text.lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.contains("weftwork") && line.contains("path =")
    });
    let is_member = path == ROOT || members.patterns.iter().any(|one| matches(one, folder));
    (uses_ours && !is_member)
        .then(|| "uses crates of the workspace and is no member of it".to_owned())
}

/// The packages of the tree, and the members of the root workspace.
struct Members<'a> {
    /// Folders with a manifest, without the root.
    packages: BTreeSet<&'a str>,
    patterns: Vec<String>,
    /// Lines that name files by their paths.
    inclusions: Vec<&'a str>,
}

impl<'a> Members<'a> {
    fn of(house: &House<'a>) -> Self {
        let packages = house.tree.files().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
        let root = house.tree.text(ROOT).unwrap_or_default().parse::<Table>().unwrap_or_default();
        let listed = root.get("workspace").and_then(|workspace| workspace.get("members"));
        let listed = listed.and_then(Value::as_array).into_iter().flatten();
        let patterns = listed.filter_map(Value::as_str).map(str::to_owned).collect();
        let naming =
            house.tree.files().filter(|(path, _)| is_manifest(path) || path.ends_with(".rs"));
        let inclusions = naming
            .flat_map(|(_, text)| text.lines())
            .filter(|line| line.contains(".rs\"") || line.contains(".md\""));
        Self { packages: packages.collect(), patterns, inclusions: inclusions.collect() }
    }

    fn includes(&self, ending: &str) -> bool {
        self.inclusions.iter().any(|line| line.contains(ending))
    }
}

fn is_manifest(path: &str) -> bool {
    path == ROOT || path.ends_with("/Cargo.toml")
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns `true` if a pattern of members, which may end in `/*`, has the folder.
fn matches(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(parent) => folder.rsplit_once('/').is_some_and(|(before, _)| before == parent),
        None => pattern == folder,
    }
}
