//! The tables of modules in `xtask/arrows.md`, read and written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::circles::from_the_bottom;
use super::{Arrows, Modules};
use crate::markdown;

/// The document with the tables.
pub(crate) const DOCUMENT: &str = "xtask/arrows.md";
const HEADER: &str = "module of";

/// The table of a crate: units with the units that they may use.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Line of the header, from 1.
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
    pub(crate) rows: BTreeMap<String, Row>,
    /// Names and lines of rows that repeat a name.
    pub(crate) repeated: Vec<(String, usize)>,
}

/// A row of a table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) may_use: BTreeSet<String>,
}

impl Table {
    /// Reads the table of a crate, with the header ``module of `name` ``.
    pub(crate) fn read(document: &str, name: &str) -> Option<Self> {
        let tables = markdown::tables(document).into_iter();
        let mut own = tables.filter(|table| {
            let header = table.first().and_then(|(_, cells)| cells.first()).copied();
            header
                .and_then(|cell| cell.strip_prefix(HEADER))
                .is_some_and(|cell| plain(cell) == name)
        });
        let cells = own.next()?;
        let first_line = cells.first().map_or(0, |(line, _)| *line);
        // The ruler under the header is not among the rows.
        let last_line = cells.last().map_or(0, |(line, _)| (*line).max(first_line + 1));
        let mut table = Self { first_line, last_line, ..Self::default() };
        for (line, cells) in cells.iter().skip(1) {
            let name = plain(cells.first().copied().unwrap_or_default());
            let may_use = names(cells.get(1).copied().unwrap_or_default());
            if table.rows.insert(name.clone(), Row { line: *line, may_use }).is_some() {
                table.repeated.push((name, *line));
            }
        }
        Some(table)
    }

    pub(crate) fn arrows(&self) -> Arrows {
        self.rows.iter().map(|(name, row)| (name.clone(), row.may_use.clone())).collect()
    }

    /// The modules that have submodules in the table.
    pub(crate) fn opened(&self) -> BTreeSet<String> {
        let parents = self.rows.keys().filter_map(|name| name.rsplit_once("::"));
        parents.map(|(parent, _)| parent.to_owned()).collect()
    }
}

/// Returns the table of a crate as text, each module after those that it uses.
pub(crate) fn text(name: &str, modules: &Modules, opened: &BTreeSet<String>) -> String {
    let arrows = super::without_places(&modules.arrows(opened));
    let mut units: BTreeSet<String> = modules.units(opened).into_keys().collect();
    units.extend(arrows.keys().cloned());
    units.extend(arrows.values().flatten().cloned());
    let mut text = format!("| {HEADER} `{name}` | may use |\n|---|---|\n");
    for unit in from_the_bottom(&arrows, &units) {
        let used = arrows.get(&unit).map_or_else(|| "–".to_owned(), cell);
        // Writing to a string cannot fail.
        _ = writeln!(text, "| `{unit}` | {used} |");
    }
    text
}

/// A cell such as `` `a`, `b::{c, d}` ``.
fn cell(units: &BTreeSet<String>) -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut parts = Vec::new();
    for unit in units {
        match unit.rsplit_once("::") {
            None => parts.push(format!("`{unit}`")),
            Some((parent, name)) => groups.entry(parent).or_default().push(name),
        }
    }
    parts.extend(groups.into_iter().map(|(parent, names)| match names.as_slice() {
        [name] => format!("`{parent}::{name}`"),
        _ => format!("`{parent}::{{{}}}`", names.join(", ")),
    }));
    parts.join(", ")
}

/// The names in a cell such as `` `a`, `b::{c, d}` ``.
fn names(cell: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut group: Option<String> = None;
    for part in cell.split(',') {
        let part = plain(part);
        let (start, ends) = part.strip_suffix('}').map_or((part.as_str(), false), |s| (s, true));
        let name = match (start.split_once('{'), &group) {
            (Some((prefix, name)), _) => {
                group = Some(prefix.to_owned());
                format!("{prefix}{name}")
            }
            (None, Some(prefix)) => format!("{prefix}{}", start.trim()),
            (None, None) => start.to_owned(),
        };
        if ends {
            group = None;
        }
        if !matches!(name.as_str(), "" | "–" | "-") {
            found.insert(name);
        }
    }
    found
}

fn plain(text: &str) -> String {
    text.trim().trim_matches('`').trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Table, cell, names};

    #[test]
    fn a_cell_is_read_as_it_is_written() {
        for units in [&["a", "b::c", "b::d", "e::f"][..], &["a"], &["a::b", "a::c"]] {
            let units: BTreeSet<String> = units.iter().map(|unit| (*unit).to_owned()).collect();
            assert_eq!(names(&cell(&units)), units);
        }
        assert_eq!(cell(&names("`b::{d, c}`, a")), "`a`, `b::{c, d}`");
        assert_eq!(names("–"), BTreeSet::new());
    }

    #[test]
    fn the_header_selects_the_table_and_paths_open_modules() {
        let text = "| module of `a` | may use |\n|--|--|\n| x | y |\n\n\
                    | module of `b` | may use |\n|--|--|\n| `x::y` | – |\n| `x::y` | – |\n";
        let table = Table::read(text, "b").unwrap();
        assert_eq!((table.first_line, table.last_line), (5, 8));
        assert_eq!(table.opened(), BTreeSet::from(["x".to_owned()]));
        assert_eq!(table.repeated, [("x::y".to_owned(), 8)]);
        assert!(Table::read(text, "c").is_none());
    }
}
