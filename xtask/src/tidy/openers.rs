//! Doc comments whose summary line opens with a word that hides its subject. The ratchet has a
//! limit for each crate, which only shrinks.

use super::ratchet::{Figures, Ratchet, slack};
use super::{House, Offence};
use crate::tree::RATCHET;
use crate::workspace::package_of;

/// Maximum number of reported doc comments of a crate over its limit.
const REPORTED_MAX: usize = 5;

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list = match Ratchet::parse(house.tree.text(RATCHET).unwrap_or_default()) {
        Ok(list) => list.doc_openers.unwrap_or_default(),
        Err(_) => return Vec::new(), // The rule on sizes reports it.
    };
    let measured = per_crate(house);
    let mut offences = slack(&measured, &list, "doc comments with such an opener");
    for (name, count) in &measured {
        let allowed = list.get(name).copied().unwrap_or_default();
        if *count > allowed {
            offences.extend(over(house, name, *count, allowed));
        }
    }
    let history = house.tree.ratchet_history().iter();
    // Past versions that no longer parse are skipped.
    for past in history.filter_map(|text| Ratchet::parse(text).ok()?.doc_openers) {
        // The sum, since code moves between crates.
        let now = list.values().sum::<usize>();
        let then = past.values().sum::<usize>();
        if now > then {
            let message =
                format!("doc openers add up to {now}, {then} before; the ratchet only shrinks");
            offences.push(Offence::of(RATCHET, message));
        }
    }
    offences.sort();
    offences.dedup();
    offences
}

/// The number of such doc comments per crate; crates without any are left out.
pub(super) fn per_crate(house: &House<'_>) -> Figures {
    let mut counts = Figures::new();
    for (path, ..) in found(house) {
        *counts.entry(group(path).to_owned()).or_default() += 1;
    }
    counts
}

/// The first such doc comments of a crate, and its limit.
fn over(house: &House<'_>, name: &str, count: usize, allowed: usize) -> Vec<Offence> {
    let message =
        format!("crate `{name}` has {count} doc comments with such an opener, at most {allowed}");
    let own = found(house).filter(|(path, ..)| group(path) == name).take(REPORTED_MAX);
    let first = own.map(|(path, line, word)| {
        let message = format!(
            "the doc comment opens with `{word}`; open with a noun phrase or a third-person verb"
        );
        Offence::at(path, line, message)
    });
    first.chain([Offence::of(RATCHET, message)]).collect()
}

/// The package of a file, or its top folder if it is in none.
pub(super) fn group(path: &str) -> &str {
    package_of(path).or_else(|| path.split('/').next()).unwrap_or(path)
}

/// Path, line and opener of each such doc comment.
fn found<'h>(house: &'h House<'_>) -> impl Iterator<Item = (&'h str, usize, &'static str)> {
    house
        .sources
        .iter()
        .flat_map(|(path, source)| source.openers.iter().map(|(line, word)| (*path, *line, *word)))
}
