//! Constructs and names that hide what they stand for: tuple patterns as parameters, `let` with a
//! tuple on both sides, and names of fields and functions that say nothing of their content. The
//! ratchet has limits for each crate, which only shrink.

use super::openers::group;
use super::ratchet::{Figures, Ratchet, slack};
use super::retired::private_names;
use super::{House, Offence};
use crate::tree::RATCHET;

/// Maximum number of reported places of a crate over its limit.
const REPORTED_MAX: usize = 5;

/// Something that is counted by crate.
pub(super) struct Counted {
    /// Its table in the ratchet.
    pub(super) table: &'static str,
    plural: &'static str,
    limits: fn(&Ratchet) -> Option<&Figures>,
    find: fn(&House<'_>) -> Vec<Offence>,
}

pub(super) const COUNTED: [Counted; 3] = [
    Counted {
        table: "tuple_parameters",
        plural: "tuple patterns as parameters",
        limits: |ratchet| ratchet.tuple_parameters.as_ref(),
        find: |house| {
            find_lines(house, |language| {
                let message = "a parameter is a tuple pattern; take two parameters or a struct";
                language.tuple_parameters.iter().map(|line| (*line, message.to_owned())).collect()
            })
        },
    },
    Counted {
        table: "tuple_lets",
        plural: "`let`s with a tuple on both sides",
        limits: |ratchet| ratchet.tuple_lets.as_ref(),
        find: |house| {
            find_lines(house, |language| {
                let message = "`let (a, b) = (x, y)` is two statements; write them";
                language.tuple_lets.iter().map(|line| (*line, message.to_owned())).collect()
            })
        },
    },
    Counted {
        table: "private_names",
        plural: "retired names of fields and functions",
        limits: |ratchet| ratchet.private_names.as_ref(),
        find: |house| {
            let retired = private_names(house);
            find_lines(house, |language| {
                let found = language.names.iter().filter_map(|(name, line)| {
                    let replacement = retired.get(name)?;
                    Some((*line, format!("`{name}` does not name its content; use {replacement}")))
                });
                found.collect()
            })
        },
    },
];

/// Finds the lines of all files, with a message each.
fn find_lines(
    house: &House<'_>,
    lines: impl Fn(&crate::source::Language) -> Vec<(usize, String)>,
) -> Vec<Offence> {
    let files = house.sources.iter();
    let found = files.flat_map(|(path, source)| {
        lines(&source.language).into_iter().map(|(line, text)| Offence::at(path, line, text))
    });
    found.collect()
}

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let Ok(list) = Ratchet::parse(house.tree.text(RATCHET).unwrap_or_default()) else {
        return Vec::new(); // The rule on sizes reports it.
    };
    let mut offences = Vec::new();
    for counted in &COUNTED {
        let limits = (counted.limits)(&list).cloned().unwrap_or_default();
        let found = (counted.find)(house);
        let measured = count(&found);
        offences.extend(slack(&measured, &limits, counted.plural));
        for (name, count) in &measured {
            let limit = limits.get(name).copied().unwrap_or_default();
            if *count > limit {
                let message =
                    format!("crate `{name}` has {count} {}, at most {limit}", counted.plural);
                offences.push(Offence::of(RATCHET, message));
                let own = found.iter().filter(|offence| group(&offence.path) == name);
                let first = own.take(REPORTED_MAX);
                offences.extend(first.map(|o| Offence::at(&o.path, o.line, o.message.as_str())));
            }
        }
        offences.extend(compare_past(house, counted, &limits));
    }
    offences.sort();
    offences.dedup();
    offences
}

/// Reports limits that add up to more than in a past version. The sum is compared, since code moves
/// between crates.
fn compare_past(house: &House<'_>, counted: &Counted, limits: &Figures) -> Vec<Offence> {
    let now = limits.values().sum::<usize>();
    // Past versions that no longer parse are skipped.
    let past = house.tree.ratchet_history().iter().filter_map(|text| Ratchet::parse(text).ok());
    let sums = past.filter_map(|past| Some((counted.limits)(&past)?.values().sum::<usize>()));
    let raised = sums.filter(|then| now > *then).map(|then| {
        let plural = counted.plural;
        let message = format!("{plural} add up to {now}, {then} before; the ratchet only shrinks");
        Offence::of(RATCHET, message)
    });
    raised.collect()
}

/// The limits and the figures of each table, for tightening.
pub(super) fn figures<'l>(
    house: &House<'_>,
    list: &'l Ratchet,
) -> Vec<(&'static str, Option<&'l Figures>, Figures)> {
    let tables = COUNTED.iter();
    let figures = tables
        .map(|counted| (counted.table, (counted.limits)(list), count(&(counted.find)(house))));
    figures.collect()
}

/// The number of places per crate; crates without any are left out.
fn count(found: &[Offence]) -> Figures {
    let mut counts = Figures::new();
    for offence in found {
        *counts.entry(group(&offence.path).to_owned()).or_default() += 1;
    }
    counts
}
