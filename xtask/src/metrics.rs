//! Figures per crate and in total: sizes, shares of tests and docs, dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::figures::{Spread, columns};
use crate::source::{Role, Source, role};
use crate::tree::Tree;
use crate::workspace::{Crate, Crates, package_of};

const HEADER: [&str; 11] = [
    "crate",
    "code",
    "test",
    "doc",
    "test/code",
    "doc/code",
    "openers",
    "file med/p95/max",
    "fn med/p95/max",
    "fn one word",
    "deps",
];
const LIMITS: &str = "\
limits  file: median 200, p95 500, max 800 · fn: median 10, p95 50, max 100
        test/code: engine 1.0, all 0.8 · doc/code: weftwork and graph 0.4, others 0.1
        openers: doc comments that open with What, Whether, Who, .. of all doc comments; 0
        fn one word: share of functions whose name is one word, without tests; 0.42
        deps: engine 8, others 25
";

#[derive(Debug, Default, Clone)]
struct Figures {
    code: usize,
    test: usize,
    doc: usize,
    summaries: usize,
    openers: usize,
    files: Vec<usize>,
    functions: Vec<usize>,
    one_word: usize,
    deps: BTreeSet<String>,
}

/// Prints the table.
pub(crate) fn run(root: &Path) -> Result<bool> {
    print!("{}\n{LIMITS}", table(&Tree::read(root)?));
    Ok(true)
}

fn table(tree: &Tree) -> String {
    let per_crate = measure(tree);
    let mut all = Figures::default();
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for (name, figures) in &per_crate {
        rows.push(row(name, figures));
        all.absorb(figures);
    }
    rows.push(row("all", &all));
    columns(&rows)
}

fn measure(tree: &Tree) -> BTreeMap<&str, Figures> {
    let mut per_crate: BTreeMap<&str, Figures> = BTreeMap::new();
    for (path, text) in tree.rust_files() {
        let Some(name) = package_of(path) else { continue };
        // Files that do not parse are test cases for compile errors; `tidy` reports all others.
        if let Ok(source) = Source::parse(text) {
            per_crate.entry(name).or_default().count(role(path), &source);
        }
    }
    let workshop = tree.text("xtask/Cargo.toml").unwrap_or_default();
    let workshop = Crate::parse("xtask", "xtask/Cargo.toml", workshop);
    for one in Crates::of(tree).all.iter().chain(&workshop) {
        if let Some(figures) = per_crate.get_mut(one.name.as_str()) {
            figures.deps = one.external().into_iter().map(str::to_owned).collect();
        }
    }
    per_crate
}

impl Figures {
    fn count(&mut self, role: Role, source: &Source) {
        self.summaries += source.summaries;
        self.openers += source.openers.len();
        match role {
            Role::Example => {}
            Role::Test => self.test += source.code_lines() + source.inline_test_lines(),
            Role::Code => {
                self.code += source.code_lines();
                self.test += source.inline_test_lines();
                self.doc += source.doc_lines();
                self.files.push(source.code_lines());
                for function in source.functions.iter().filter(|function| !function.in_test) {
                    self.functions.push(function.lines);
                    self.one_word += usize::from(!function.name.contains('_'));
                }
            }
        }
    }

    fn absorb(&mut self, other: &Self) {
        self.code += other.code;
        self.test += other.test;
        self.doc += other.doc;
        self.summaries += other.summaries;
        self.openers += other.openers;
        self.files.extend(&other.files);
        self.functions.extend(&other.functions);
        self.one_word += other.one_word;
        self.deps.extend(other.deps.iter().cloned());
    }
}

fn row(name: &str, figures: &Figures) -> Vec<String> {
    vec![
        name.to_owned(),
        figures.code.to_string(),
        figures.test.to_string(),
        figures.doc.to_string(),
        share(figures.test, figures.code),
        share(figures.doc, figures.code),
        format!("{}/{}", figures.openers, figures.summaries),
        Spread::of(figures.files.clone()).to_string(),
        Spread::of(figures.functions.clone()).to_string(),
        share(figures.one_word, figures.functions.len()),
        figures.deps.len().to_string(),
    ]
}

/// A ratio with two decimals, or a dash if the divisor is zero.
fn share(part: usize, whole: usize) -> String {
    match (part * 100).checked_div(whole) {
        Some(hundredths) => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{share, table};
    use crate::tree::fixture::Fixture;

    #[test]
    fn counts_per_crate_and_in_all() {
        let text = "\
-- crates/a/Cargo.toml --
[dependencies]
serde.workspace = true
-- crates/a/src/lib.rs --
/// Whether.
fn one() {
    f();
}
#[cfg(test)]
mod tests {
    fn check() {}
}
-- crates/a/tests/it/main.rs --
/// Doc.
fn other() {}
-- crates/b/src/lib.rs --
fn two_words() {}
";
        let tree = Fixture::default().overlay(text).tree;
        let found: Vec<Vec<String>> = table(&tree)
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        assert_eq!(
            found[0],
            ["a", "3", "5", "1", "1.66", "0.33", "1/2", "3/3/3", "3/3/3", "1.00", "1"]
        );
        assert_eq!(
            found[1],
            ["b", "1", "0", "0", "0.00", "0.00", "0/0", "1/1/1", "1/1/1", "0.00", "0"]
        );
        assert_eq!(
            found[2],
            ["all", "4", "5", "1", "1.25", "0.25", "1/2", "1/3/3", "1/3/3", "0.50", "1"]
        );
    }

    #[test]
    fn a_share_of_nothing_is_a_dash() {
        assert_eq!(share(1, 0), "–");
        assert_eq!(share(7, 5), "1.40");
    }
}
