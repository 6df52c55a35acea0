//! Arrows between the modules of a crate: compares the tables in `xtask/arrows.md` with the
//! sources. The ratchet has the number of arrows in circles that a crate may have.

use std::collections::BTreeSet;

use super::ratchet::{Figures, Ratchet, grown, slack};
use super::{House, Offence};
use crate::modules::{CRATES, DOCUMENT, Modules, Place, ROOT, Table, circles};
use crate::tree::RATCHET;

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list = match Ratchet::parse(house.tree.text(RATCHET).unwrap_or_default()) {
        Ok(list) => list.circular_arrows.unwrap_or_default(),
        Err(_) => return Vec::new(), // The rule on sizes reports it.
    };
    let mut offences = slack(&circular(house), &list, "arrows in circles");
    for name in CRATES {
        let modules = Modules::of(house, name);
        match table(house, name) {
            Some(table) => {
                offences.extend(rows(name, &modules, &table));
                offences.extend(arrows(name, &modules, &table));
                offences.extend(round(name, &table, list.get(name).copied().unwrap_or_default()));
            }
            None if modules.units(&BTreeSet::new()).is_empty() => {}
            None => {
                let message = format!(
                    "has no table `| module of `{name}` | may use |`; `cargo xtask arrows {name}` prints it"
                );
                offences.push(Offence::of(DOCUMENT, message));
            }
        }
    }
    // Past versions that no longer parse are skipped.
    let history = house.tree.ratchet_history().iter();
    for past in history.filter_map(|text| Ratchet::parse(text).ok()?.circular_arrows) {
        offences.extend(grown(&list, &past));
    }
    offences.sort();
    offences.dedup();
    offences
}

/// The number of arrows in circles per crate; crates without any are left out.
pub(super) fn circular(house: &House<'_>) -> Figures {
    let counts = CRATES.iter().filter_map(|name| {
        let table = table(house, name)?;
        let count = circles(&table.arrows()).iter().map(|circle| circle.arrows.len()).sum();
        (count > 0).then(|| ((*name).to_owned(), count))
    });
    counts.collect()
}

fn table(house: &House<'_>, name: &str) -> Option<Table> {
    Table::read(house.tree.text(DOCUMENT)?, name)
}

/// Compares the rows with the modules.
fn rows(name: &str, modules: &Modules, table: &Table) -> Vec<Offence> {
    let opened = table.opened();
    let units = modules.units(&opened);
    let missing = units.iter().filter(|(unit, _)| !table.rows.contains_key(*unit));
    let missing = missing.map(|(unit, file)| {
        let message = format!(
            "module `{unit}` has no row in {DOCUMENT}; `cargo xtask arrows {name} --write` adds it"
        );
        Offence::of(file, message)
    });
    let gone = table
        .rows
        .iter()
        .filter(|(row, _)| !units.contains_key(*row) && !opened.contains(*row) && *row != ROOT);
    let gone = gone
        .map(|(row, at)| Offence::at(DOCUMENT, at.line, format!("`{name}` has no module `{row}`")));
    let repeated = table.repeated.iter();
    let repeated = repeated
        .map(|(row, line)| Offence::at(DOCUMENT, *line, format!("module `{row}` has two rows")));
    missing.chain(gone).chain(repeated).collect()
}

/// Compares the arrows of the table with those of the sources.
fn arrows(name: &str, modules: &Modules, table: &Table) -> Vec<Offence> {
    let used = modules.arrows(&table.opened());
    let mut offences = Vec::new();
    for ((from, to), places) in &used {
        if !table.rows.get(from).is_some_and(|row| row.may_use.contains(to))
            && let Some(first) = places.first()
        {
            offences.push(forbidden(from, to, first, places.len()));
        }
    }
    for (from, row) in &table.rows {
        let unused =
            row.may_use.iter().filter(|to| !used.contains_key(&(from.clone(), (*to).clone())));
        offences.extend(unused.map(|to| {
            let message = format!("`{from}` of `{name}` does not use `{to}`; remove the arrow");
            Offence::at(DOCUMENT, row.line, message)
        }));
    }
    offences
}

fn forbidden(from: &str, to: &str, first: &Place, count: usize) -> Offence {
    let more = if count > 1 { format!(", and {} more uses", count - 1) } else { String::new() };
    let message = format!(
        "`{from}` may not use `{to}` (`{}`{more}): no such arrow in {DOCUMENT}; move the item to a \
         module that both may use, or add the arrow if it closes no circle",
        first.name
    );
    Offence::at(&first.file, first.line, message)
}

/// Reports the circles of a table that has more arrows in circles than allowed.
fn round(name: &str, table: &Table, allowed: usize) -> Vec<Offence> {
    let found = circles(&table.arrows());
    let count: usize = found.iter().map(|circle| circle.arrows.len()).sum();
    if count <= allowed {
        return Vec::new();
    }
    let offences = found.iter().map(|circle| {
        let line = circle.path.first().and_then(|unit| table.rows.get(unit)).map_or(0, |row| row.line);
        let message = format!(
            "{} modules of `{name}` form a circle with {} arrows (at most {allowed} in the crate), such \
             as {}; `cargo xtask arrows {name}` lists them",
            circle.units.len(),
            circle.arrows.len(),
            circle.path.join(" → ")
        );
        Offence::at(DOCUMENT, line, message)
    });
    offences.collect()
}
