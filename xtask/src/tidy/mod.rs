//! The project's rules that the compiler does not check. Each rule is a function that returns its
//! offences, and has a fixture in `xtask/fixtures/<rule>.txt` that violates it.

mod arrows;
mod bugs;
mod compiled;
mod errors;
mod language;
mod manifests;
mod module_arrows;
mod notes;
mod openers;
mod outside;
mod prelude;
mod prose;
mod ratchet;
mod retired;
mod routes;
mod rows;
mod runners;
mod sizes;
mod sources;
mod texts;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::source::Source;
use crate::tree::Tree;
use crate::workspace::Crates;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offence {
    path: String,
    line: usize,
    message: String,
}

impl Offence {
    /// Creates an offence at a line, counted from 1.
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// Creates an offence of a whole file.
    fn of(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// The input of the rules, read and parsed once.
#[derive(Debug)]
pub(crate) struct House<'a> {
    pub(crate) tree: &'a Tree,
    crates: Crates,
    pub(crate) sources: BTreeMap<&'a str, Source>,
    unreadable: Vec<Offence>,
}

impl<'a> House<'a> {
    pub(crate) fn of(tree: &'a Tree) -> Self {
        let mut sources = BTreeMap::new();
        let mut unreadable = Vec::new();
        for Parsed { path, result } in parse_all(tree) {
            match result {
                Ok(source) => {
                    sources.insert(path, source);
                }
                Err(_) if is_compile_fail_case(path) => {}
                Err(offence) => unreadable.push(offence),
            }
        }
        Self { tree, crates: Crates::of(tree), sources, unreadable }
    }
}

/// A Rust file, or the reason why it is none.
struct Parsed<'a> {
    path: &'a str,
    result: Result<Source, Offence>,
}

/// Parses all Rust files, on all cores: this is most of the work of the rules.
fn parse_all(tree: &Tree) -> Vec<Parsed<'_>> {
    let files: Vec<_> = tree.rust_files().collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let parse = |worker: usize| {
        let own = files.iter().skip(worker).step_by(workers);
        own.map(|(path, text)| {
            let result = Source::parse(text).map_err(|error| {
                let line = error.span().start().line;
                Offence::at(path, line, format!("is not Rust: {error}"))
            });
            Parsed { path, result }
        })
        .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let parse = &parse;
        let workers: Vec<_> =
            (0..workers).map(|worker| scope.spawn(move || parse(worker))).collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// Returns `true` for test cases of compile errors, which may not parse.
fn is_compile_fail_case(path: &str) -> bool {
    path.contains("/tests/ui/") || path.contains("/tests/compile_fail/")
}

struct Rule {
    name: &'static str,
    check: fn(&House<'_>) -> Vec<Offence>,
}

const RULES: &[Rule] = &[
    Rule { name: "architecture", check: texts::architecture },
    Rule { name: "arrows", check: arrows::check },
    Rule { name: "attributes", check: sources::attributes },
    Rule { name: "bugs", check: bugs::check },
    Rule { name: "compiled", check: compiled::check },
    Rule { name: "dependencies", check: manifests::dependencies },
    Rule { name: "errors", check: errors::check },
    Rule { name: "fences", check: texts::fences },
    Rule { name: "homes", check: manifests::homes },
    Rule { name: "language", check: language::check },
    Rule { name: "lockfile", check: manifests::lockfile },
    Rule { name: "machine", check: texts::machine },
    Rule { name: "manifests", check: manifests::manifests },
    Rule { name: "module-arrows", check: module_arrows::check },
    Rule { name: "modules", check: sources::modules },
    Rule { name: "notes", check: notes::check },
    Rule { name: "openers", check: openers::check },
    Rule { name: "outside", check: outside::check },
    Rule { name: "prelude", check: prelude::check },
    Rule { name: "prose", check: prose::check },
    Rule { name: "readable", check: sources::readable },
    Rule { name: "retired", check: retired::check },
    Rule { name: "routes", check: routes::check },
    Rule { name: "rows", check: rows::check },
    Rule { name: "runners", check: runners::check },
    Rule { name: "sizes", check: sizes::check },
    Rule { name: "test-names", check: sources::test_names },
    Rule { name: "todos", check: sources::todos },
];

/// Checks the repository and prints each offence; returns `true` if there is none.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let house = House::of(&tree);
    let found = offences(&house);
    for (rule, offence) in &found {
        println!("{offence} [{rule}]");
    }
    let files = tree.files().count();
    println!("tidy: {} rules, {files} files, {} offences", RULES.len(), found.len());
    Ok(found.is_empty())
}

/// Lowers the entries of the ratchet to the measured figures and drops those within the limits.
pub(crate) fn tighten(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let tightened = ratchet::tightened(&House::of(&tree))?;
    std::fs::write(root.join(crate::tree::RATCHET), tightened)?;
    run(root)
}

fn offences(house: &House<'_>) -> Vec<(&'static str, Offence)> {
    let found = RULES.iter().flat_map(|rule| {
        let mut offences = (rule.check)(house);
        offences.sort();
        offences.into_iter().map(|offence| (rule.name, offence))
    });
    found.collect()
}

/// The offences of the rule on manifests, for tests of code that creates manifests.
#[cfg(test)]
pub(crate) fn manifest_offences(house: &House<'_>) -> Vec<Offence> {
    manifests::manifests(house)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{House, RULES, offences};
    use crate::tree::fixture::Fixture;

    fn fixture(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{name}.txt"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn clean() -> Fixture {
        Fixture::default().overlay(&fixture("clean"))
    }

    #[test]
    fn a_clean_house_has_no_offences() {
        assert_eq!(offences(&House::of(&clean().tree)), []);
    }

    #[test]
    fn each_rule_is_broken_by_its_fixture_and_by_it_alone() {
        for rule in RULES {
            let fixture = clean().overlay(&fixture(rule.name));
            let found = offences(&House::of(&fixture.tree));
            let found: Vec<String> =
                found.iter().map(|(name, offence)| format!("[{name}] {offence}")).collect();
            let expected: Vec<String> =
                fixture.expected.iter().map(|line| format!("[{}] {line}", rule.name)).collect();
            assert!(!expected.is_empty(), "{} expects no offence", rule.name);
            assert_eq!(found, expected, "rule {}", rule.name);
        }
    }

    #[test]
    fn each_fixture_belongs_to_a_rule() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "clean")
            .collect();
        names.sort();
        let rules: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names, rules);
    }
}
