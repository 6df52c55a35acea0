//! Dependencies between crates: compares the table in `xtask/arrows.md` with the manifests, and the
//! manifests with the sources.

use std::collections::{BTreeMap, BTreeSet};

use super::{House, Offence};
use crate::markdown;
use crate::source::{Role, role};
use crate::workspace::{Crate, Kind, PREFIX, package_of};

const DOCUMENT: &str = "xtask/arrows.md";
/// The crate that tests of any crate may use.
const TEST_SUPPORT: &str = "testkit";

/// The row of a crate.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Row {
    line: usize,
    may_use: BTreeSet<String>,
    /// Further crates that tests, examples and benchmarks may use.
    tests_may_use: BTreeSet<String>,
}

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let Some(text) = house.tree.text(DOCUMENT) else {
        return vec![Offence::of(DOCUMENT, "is missing; it holds the table of crates")];
    };
    let mut offences = Vec::new();
    let Some(table) = table(text, &mut offences) else { return offences };
    let arrows = house.crates.arrows();
    for one in &house.crates.all {
        match table.get(&one.name) {
            None => {
                let message = format!("crate `{}` has no row in {DOCUMENT}", one.name);
                offences.push(Offence::of(&one.manifest_path, message));
            }
            Some(row) => {
                offences.extend(forbidden(one, row));
                offences.extend(not_declared(one, row));
            }
        }
        offences.extend(cycles(one, &arrows));
        offences.extend(not_named(one, house));
    }
    offences
}

/// The dependencies of a manifest that the table does not allow.
fn forbidden(one: &Crate, row: &Row) -> Vec<Offence> {
    let normal = one.ours(Kind::Normal);
    let normal = normal.difference(&row.may_use).map(|other| {
        let message = format!("`{}` may not use `{other}`: no such arrow in {DOCUMENT}", one.name);
        Offence::of(&one.manifest_path, message)
    });
    let dev = one.ours(Kind::Dev);
    let dev = dev.iter().filter(|other| *other != TEST_SUPPORT && **other != one.name);
    let dev =
        dev.filter(|other| !row.may_use.contains(*other) && !row.tests_may_use.contains(*other));
    let dev = dev.map(|other| {
        let message =
            format!("tests of `{}` may not use `{other}`: no such arrow in {DOCUMENT}", one.name);
        Offence::of(&one.manifest_path, message)
    });
    normal.chain(dev).collect()
}

/// The arrows of the table that the manifest does not have.
fn not_declared(one: &Crate, row: &Row) -> Vec<Offence> {
    let unused = |allowed: &BTreeSet<String>, kind: Kind, who: &str| {
        let declared = one.ours(kind);
        let unused = allowed.difference(&declared).map(|other| {
            Offence::at(DOCUMENT, row.line, format!("{who} not use `{other}`; remove the arrow"))
        });
        unused.collect::<Vec<_>>()
    };
    let mut offences = unused(&row.may_use, Kind::Normal, &format!("`{}` does", one.name));
    let tests = format!("tests of `{}` do", one.name);
    offences.extend(unused(&row.tests_may_use, Kind::Dev, &tests));
    offences
}

/// The dependencies on our crates that the sources do not name.
fn not_named(one: &Crate, house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for other in one.ours(Kind::Normal) {
        let message = match (
            is_named(one, &other, house, Part::Code),
            is_named(one, &other, house, Part::Tests),
        ) {
            (true, _) => continue,
            (false, true) => {
                format!("only tests of `{}` use `{other}`: make it a dev-dependency", one.name)
            }
            (false, false) => {
                format!("`{}` does not use `{other}`: remove the dependency", one.name)
            }
        };
        offences.push(Offence::of(&one.manifest_path, message));
    }
    for other in one.ours(Kind::Dev) {
        if !is_named(one, &other, house, Part::Tests) {
            let message =
                format!("tests of `{}` do not use `{other}`: remove the dev-dependency", one.name);
            offences.push(Offence::of(&one.manifest_path, message));
        }
    }
    offences
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    /// Tests, examples and benchmarks.
    Tests,
}

/// Returns `true` if a part of a crate's sources names another crate, outside comments.
fn is_named(one: &Crate, other: &str, house: &House<'_>, part: Part) -> bool {
    let ident = ident(other);
    house.sources.iter().filter(|(path, _)| owner(path) == Some(one.name.as_str())).any(
        |(path, source)| {
            let text = house.tree.text(path).unwrap_or_default();
            text.lines().enumerate().any(|(index, line)| {
                let is_test = role(path) != Role::Code || source.is_test_line(index + 1);
                is_test == (part == Part::Tests)
                    && columns(line, &ident).any(|column| !source.in_comment(index + 1, column))
            })
        },
    )
}

/// The name of a crate in sources.
fn ident(name: &str) -> String {
    if name == PREFIX { name.to_owned() } else { format!("{PREFIX}_{}", name.replace('-', "_")) }
}

/// The package of a file. The examples of the repository belong to the facade, and the reference
/// server to the server.
fn owner(path: &str) -> Option<&str> {
    let of_example = |rest: &str| match rest.starts_with("reference_server/") {
        true => "server",
        false => PREFIX,
    };
    package_of(path).or_else(|| path.strip_prefix("examples/").map(of_example))
}

/// The columns in characters at which a line has a word.
fn columns(line: &str, word: &str) -> impl Iterator<Item = usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).filter_map(move |(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        (!is_part(before) && !is_part(after)).then(|| line[..start].chars().count())
    })
}

/// Cargo allows cycles through dev-dependencies, but they build a crate twice.
fn cycles(one: &Crate, arrows: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Offence> {
    let dev = one.ours(Kind::Dev).into_iter().filter(|dev| dev != TEST_SUPPORT);
    let circular = dev.filter(|dev| *dev != one.name && reaches(dev, &one.name, arrows));
    let offences = circular.map(|dev| {
        let message = format!(
            "tests of `{}` use `{dev}`, which uses `{}`: move them to `{dev}` or `{TEST_SUPPORT}`",
            one.name, one.name
        );
        Offence::of(&one.manifest_path, message)
    });
    offences.collect()
}

fn reaches(from: &str, to: &str, arrows: &BTreeMap<&str, BTreeSet<String>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(arrows.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

/// Parses the table; problems of the table itself are added to `offences`.
fn table(text: &str, offences: &mut Vec<Offence>) -> Option<BTreeMap<String, Row>> {
    let tables = markdown::tables(text).into_iter().filter(is_crate_table);
    let tables: Vec<_> = tables.collect();
    let [table] = tables.as_slice() else {
        let count = tables.len();
        let message = format!("has {count} tables of `crate` and `may use`, expected one");
        offences.push(Offence::of(DOCUMENT, message));
        return None;
    };
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (line, cells) in &table[1..] {
        let cell = |index: usize| names(cells.get(index).copied().unwrap_or_default());
        let row = Row { line: *line, may_use: cell(1), tests_may_use: cell(2) };
        for name in cell(0) {
            if rows.insert(name.clone(), row.clone()).is_some() {
                offences.push(Offence::at(DOCUMENT, *line, format!("`{name}` has two rows")));
            }
        }
    }
    for row in rows.values() {
        let used = row.may_use.union(&row.tests_may_use).filter(|name| !rows.contains_key(*name));
        offences.extend(used.map(|name| {
            Offence::at(DOCUMENT, row.line, format!("`{name}` has no row of its own"))
        }));
    }
    Some(rows)
}

fn is_crate_table(table: &markdown::Table<'_>) -> bool {
    let Some((_, header)) = table.first() else { return false };
    matches!(header.as_slice(), [first, second, ..]
        if first.starts_with("crate") && second.starts_with("may use"))
}

/// The names in a cell; a dash stands for none.
fn names(cell: &str) -> BTreeSet<String> {
    let cell = without_remarks(cell);
    let parts = cell.split(',').map(|name| name.trim().trim_matches('`').trim());
    parts.filter(|name| !matches!(*name, "" | "–" | "-")).map(str::to_owned).collect()
}

/// The cell without text in parentheses.
fn without_remarks(cell: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for c in cell.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{columns, ident, names, table};

    #[test]
    fn a_cell_may_have_remarks_or_nothing() {
        let found = names("`sqlite`, postgres (drivers, both)");
        assert_eq!(found.iter().collect::<Vec<_>>(), ["postgres", "sqlite"]);
        assert!(names("–").is_empty() && names("").is_empty());
    }

    #[test]
    fn unknown_and_double_names_are_reported() {
        let text = "| crate | may use | tests may also use |\n|--|--|--|\n| types | – | – |\n\
                    | a | tpyes | stroe |\n| types | a |\n";
        let mut offences = Vec::new();
        table(text, &mut offences).unwrap();
        let found: Vec<String> = offences.iter().map(ToString::to_string).collect();
        let expected = [
            "xtask/arrows.md:5: `types` has two rows",
            "xtask/arrows.md:4: `stroe` has no row of its own",
            "xtask/arrows.md:4: `tpyes` has no row of its own",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn two_tables_are_one_too_many() {
        let text = "| crate | may use |\n\n| crate | may use |\n";
        let mut offences = Vec::new();
        assert!(table(text, &mut offences).is_none());
        assert_eq!(offences.len(), 1);
    }

    #[test]
    fn a_crate_is_named_by_a_whole_word() {
        let line = "use weftwork_store::A; weftwork_store_x::b(); a_weftwork_store";
        assert_eq!(columns(line, "weftwork_store").collect::<Vec<_>>(), [4]);
        assert_eq!(ident("store-conformance"), "weftwork_store_conformance");
    }
}
