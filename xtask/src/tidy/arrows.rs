//! Dependencies between crates: compares the table in `ARCHITECTURE.md` with the manifests.

use std::collections::{BTreeMap, BTreeSet};

use super::{House, Offence};
use crate::markdown;
use crate::workspace::{Crate, Kind};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The crate that tests of any crate may use, although it uses all crates.
const TEST_SUPPORT: &str = "testkit";

/// The dependencies that a row allows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    All,
    Only(BTreeSet<String>),
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
            Some(allowed) => offences.extend(forbidden(one, allowed)),
        }
        offences.extend(cycles(one, &arrows));
    }
    offences
}

fn forbidden(one: &Crate, allowed: &Allowed) -> Vec<Offence> {
    let Allowed::Only(allowed) = allowed else { return Vec::new() };
    let used = one.ours(Kind::Normal);
    let offences = used.difference(allowed).map(|other| {
        let message = format!("`{}` may not use `{other}`: no such arrow in {DOCUMENT}", one.name);
        Offence::of(&one.manifest_path, message)
    });
    offences.collect()
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
fn table(text: &str, offences: &mut Vec<Offence>) -> Option<BTreeMap<String, Allowed>> {
    let tables = markdown::tables(text).into_iter().filter(is_crate_table);
    let tables: Vec<_> = tables.collect();
    let [table] = tables.as_slice() else {
        let count = tables.len();
        let message = format!("has {count} tables of `crate` and `may use`, expected one");
        offences.push(Offence::of(DOCUMENT, message));
        return None;
    };
    let mut rows = BTreeMap::new();
    let mut uses = Vec::new();
    for (line, cells) in &table[1..] {
        for (names, allowed) in pairs(cells[0], cells.get(1).copied().unwrap_or_default()) {
            if let Allowed::Only(allowed) = &allowed {
                uses.extend(allowed.iter().map(|name| (*line, name.clone())));
            }
            for name in names {
                if rows.insert(name.clone(), allowed.clone()).is_some() {
                    offences.push(Offence::at(DOCUMENT, *line, format!("`{name}` has two rows")));
                }
            }
        }
    }
    for (line, name) in uses.into_iter().filter(|(_, name)| !rows.contains_key(name)) {
        offences.push(Offence::at(DOCUMENT, line, format!("`{name}` has no row of its own")));
    }
    Some(rows)
}

fn is_crate_table(table: &markdown::Table<'_>) -> bool {
    let Some((_, header)) = table.first() else { return false };
    matches!(header.as_slice(), [first, second, ..]
        if first.starts_with("crate") && second.starts_with("may use"))
}

/// The groups of a row: `a, b · c | x · y` means that a and b use x, and c uses y. A single group
/// on the right applies to all groups on the left.
fn pairs(left: &str, right: &str) -> Vec<(BTreeSet<String>, Allowed)> {
    let (left, right) = (without_remarks(left), without_remarks(right));
    let left: Vec<&str> = left.split('·').collect();
    let right: Vec<&str> = right.split('·').collect();
    let allowed = |index: usize| if right.len() == left.len() { right[index] } else { right[0] };
    let rows = left.iter().enumerate();
    rows.map(|(index, group)| (names(group), rights(allowed(index)))).collect()
}

fn rights(cell: &str) -> Allowed {
    match cell.trim() {
        "all" => Allowed::All,
        "" | "none" | "–" | "-" => Allowed::Only(BTreeSet::new()),
        _ => Allowed::Only(names(cell)),
    }
}

fn names(cell: &str) -> BTreeSet<String> {
    let parts = cell.split(',').map(|name| name.trim().trim_matches('`').trim());
    parts.filter(|name| !name.is_empty()).map(str::to_owned).collect()
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
    use super::{Allowed, pairs, table};

    fn only(names: &[&str]) -> Allowed {
        Allowed::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_row_may_hold_several_groups_and_remarks() {
        let found = pairs("`sqlite`, postgres (drivers) · nats", "types, store · types");
        assert_eq!(found[0].0.iter().collect::<Vec<_>>(), ["postgres", "sqlite"]);
        assert_eq!(found[0].1, only(&["store", "types"]));
        assert_eq!(found[1].1, only(&["types"]));
    }

    #[test]
    fn one_group_on_the_right_is_for_all_on_the_left() {
        let found = pairs("store · models", "types");
        assert_eq!(found[1].1, only(&["types"]));
        assert_eq!(pairs("cli", "all")[0].1, Allowed::All);
        assert_eq!(pairs("types", "–")[0].1, only(&[]));
    }

    #[test]
    fn unknown_and_double_names_are_reported() {
        let text = "| crate | may use |\n|--|--|\n| types | none |\n| a | tpyes |\n| types | a |\n";
        let mut offences = Vec::new();
        table(text, &mut offences).unwrap();
        let found: Vec<String> = offences.iter().map(ToString::to_string).collect();
        let expected = [
            "ARCHITECTURE.md:5: `types` has two rows",
            "ARCHITECTURE.md:4: `tpyes` has no row of its own",
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
}
