//! Arrows between the modules of a crate: from each module to the modules whose items it names.
//!
//! A unit is a top-level module with all that is in it. A module can be opened: then each of its
//! direct submodules is a unit, and the module's own file is one more. `lib` is the crate's root.
//! A name is followed through `use` declarations of the root and of opened modules to the module
//! that defines it; re-exports of those files are not arrows.

mod circles;
mod job;
mod scan;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Role, role};
use crate::tidy::House;

pub(crate) use circles::{Circle, circles};
pub(crate) use job::run;
pub(crate) use table::{DOCUMENT, Table};

/// The crates whose modules have a table.
pub(crate) const CRATES: [&str; 3] = ["engine", "graph", "runtime"];
/// The unit of a crate's root.
pub(crate) const ROOT: &str = "lib";
/// Maximum number of `use` declarations that a name is followed through.
const HOPS_MAX: usize = 16;

/// The units that each unit uses.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// An occurrence of a name of another unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) name: String,
}

/// A path in a file, as written, with the module that it is written in.
#[derive(Debug, Clone)]
struct Written {
    module: Vec<String>,
    segments: Vec<String>,
    line: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A private `use` declaration.
    Import,
    /// A `use` declaration with a visibility.
    ReExport,
    /// A path in code.
    Expression,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Names that `use` declarations bind.
    bound: BTreeMap<String, Written>,
    paths: Vec<Written>,
}

/// The modules of a crate without its tests, by path.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    all: BTreeMap<Vec<String>, Module>,
}

impl Modules {
    /// Reads the modules of `crates/<name>/src`.
    pub(crate) fn of(house: &House<'_>, name: &str) -> Self {
        let folder = format!("crates/{name}/src/");
        let mut modules = Self::default();
        let mut tests = BTreeSet::new();
        for (path, source) in &house.sources {
            let inside = path.strip_prefix(&folder).filter(|_| role(path) == Role::Code);
            let (Some(inside), Some(text)) = (inside, house.tree.text(path)) else { continue };
            // The sources were parsed before, so this succeeds.
            if let Ok(file) = syn::parse_file(text) {
                scan::file(path, &module_path(inside), source, &file, &mut modules, &mut tests);
            }
        }
        modules.all.retain(|path, _| !(1..=path.len()).any(|end| tests.contains(&path[..end])));
        modules
    }

    /// The units with the file of each. The root and opened modules are not among them, since
    /// their files may have re-exports only.
    pub(crate) fn units(&self, opened: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut units = BTreeMap::new();
        for (path, module) in &self.all {
            let unit = unit(path, opened);
            if unit != ROOT && !opened.contains(&unit) {
                units.entry(unit).or_insert_with(|| module.file.clone());
            }
        }
        units
    }

    /// Returns `true` if the crate has a module of this name, such as `run_loop::task`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.contains_key(&name.split("::").map(str::to_owned).collect::<Vec<_>>())
    }

    /// The arrows with the places of each.
    pub(crate) fn arrows(
        &self,
        opened: &BTreeSet<String>,
    ) -> BTreeMap<(String, String), BTreeSet<Place>> {
        let mut found: BTreeMap<(String, String), BTreeSet<Place>> = BTreeMap::new();
        for module in self.all.values() {
            for written in &module.paths {
                let from = unit(&written.module, opened);
                let is_facade = from == ROOT || opened.contains(&from);
                if is_facade && written.form == Form::ReExport {
                    continue;
                }
                let target = self.absolute(written, 0).and_then(|path| self.unit(&path, opened, 0));
                if let Some(to) = target.filter(|to| *to != from) {
                    found.entry((from, to)).or_default().insert(Place {
                        file: module.file.clone(),
                        line: written.line,
                        name: written.segments.join("::"),
                    });
                }
            }
        }
        found
    }

    /// The path from the root, or `None` for names from other crates and of other items.
    fn absolute(&self, written: &Written, hops: usize) -> Option<Vec<String>> {
        let (first, rest) = written.segments.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" => written.module.clone(),
            "super" => {
                let mut parent = written.module.clone();
                parent.pop()?;
                parent
            }
            name => {
                let child = [&written.module[..], &[name.to_owned()]].concat();
                if self.all.contains_key(&child) {
                    child
                } else {
                    self.bound(&written.module, name, hops)?
                }
            }
        };
        for segment in rest {
            if segment == "super" {
                path.pop();
            } else if segment != "self" {
                path.push(segment.clone());
            }
        }
        Some(path)
    }

    /// The path that a `use` declaration of the module `scope` binds to `name`. Declarations of
    /// other crates refer to themselves; the limit of hops ends them.
    fn bound(&self, scope: &[String], name: &str, hops: usize) -> Option<Vec<String>> {
        let bound = self.all.get(scope)?.bound.get(name)?;
        if hops == HOPS_MAX { None } else { self.absolute(bound, hops + 1) }
    }

    /// The unit that defines the item at a path, or `None` for items of other crates and for the
    /// bare name of the root or an opened module.
    fn unit(&self, path: &[String], opened: &BTreeSet<String>, hops: usize) -> Option<String> {
        let mut end = 0;
        while end < path.len() && self.all.contains_key(&path[..=end]) {
            end += 1;
        }
        let (module, item) = path.split_at(end);
        let unit = unit(module, opened);
        if unit != ROOT && !opened.contains(&unit) {
            return Some(unit);
        }
        let (name, rest) = item.split_first()?;
        match self.all.get(module).and_then(|module| module.bound.get(name)) {
            None => Some(unit),
            Some(_) if hops == HOPS_MAX => None,
            Some(bound) => {
                let target = self.absolute(bound, hops + 1)?;
                self.unit(&[&target, rest].concat(), opened, hops + 1)
            }
        }
    }
}

/// The unit of a module: the longest path whose parents are all opened.
fn unit(path: &[String], opened: &BTreeSet<String>) -> String {
    let Some(first) = path.first() else { return ROOT.to_owned() };
    let mut unit = first.clone();
    for segment in &path[1..] {
        if !opened.contains(&unit) {
            break;
        }
        unit = format!("{unit}::{segment}");
    }
    unit
}

/// The path of the module of a file, from its path below `src/`.
fn module_path(inside: &str) -> Vec<String> {
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "lib" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

/// The arrows without their places.
pub(crate) fn without_places(arrows: &BTreeMap<(String, String), BTreeSet<Place>>) -> Arrows {
    let mut plain = Arrows::new();
    for (from, to) in arrows.keys() {
        plain.entry(from.clone()).or_default().insert(to.clone());
    }
    plain
}

#[cfg(test)]
mod tests;
