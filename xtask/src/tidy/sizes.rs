//! File and function sizes. Existing offenders are listed in the ratchet, which only shrinks.

use super::ratchet::{Figures, Ratchet, grown, slack};
use super::{House, Offence};
use crate::source::{Role, role};
use crate::tree::RATCHET;

/// Maximum number of code lines in a file, without inline tests.
pub(super) const FILE_LINES_MAX: usize = 800;
/// Maximum number of lines in a function, without blank and comment lines.
pub(super) const FUNCTION_LINES_MAX: usize = 100;

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list = match Ratchet::parse(house.tree.text(RATCHET).unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => return vec![Offence::of(RATCHET, format!("{error:#}"))],
    };
    let mut offences = compare(&files(house), &list.file_lines, FILE_LINES_MAX);
    offences.extend(compare(&functions(house), &list.function_lines, FUNCTION_LINES_MAX));
    // Past versions that no longer parse are skipped.
    for past in house.tree.ratchet_history().iter().filter_map(|text| Ratchet::parse(text).ok()) {
        offences.extend(grown(&list.file_lines, &past.file_lines));
        offences.extend(grown(&list.function_lines, &past.function_lines));
    }
    offences.sort();
    offences.dedup();
    offences
}

/// Code lines per file.
pub(super) fn files(house: &House<'_>) -> Figures {
    let sizes = house.sources.iter().map(|(path, source)| {
        let tests = if role(path) == Role::Code { 0 } else { source.inline_test_lines() };
        ((*path).to_owned(), source.code_lines() + tests)
    });
    sizes.collect()
}

/// Lines per function. Of functions with the same name in a file, the longest counts.
pub(super) fn functions(house: &House<'_>) -> Figures {
    let mut sizes = Figures::new();
    for (path, source) in &house.sources {
        for function in &source.functions {
            let size = sizes.entry(format!("{path}::{}", function.name)).or_default();
            *size = function.lines.max(*size);
        }
    }
    sizes
}

fn compare(measured: &Figures, listed: &Figures, most: usize) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (name, size) in measured.iter().filter(|(_, size)| **size > most) {
        match listed.get(name) {
            None => offences.push(Offence::of(name, format!("has {size} lines, at most {most}"))),
            Some(allowed) if size > allowed => {
                let message =
                    format!("grew from {allowed} to {size} lines; the ratchet only shrinks");
                offences.push(Offence::of(name, message));
            }
            Some(_) => {}
        }
    }
    offences.extend(slack(measured, listed, "lines"));
    offences
}
