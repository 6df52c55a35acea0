//! Circles of arrows, and the order of units from the bottom up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Arrows;

/// A largest set of units that all reach each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) units: BTreeSet<String>,
    /// The arrows between the units.
    pub(crate) arrows: BTreeSet<(String, String)>,
    /// A shortest way from a unit back to itself.
    pub(crate) path: Vec<String>,
}

/// Returns the circles among the arrows.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Circle> {
    let reached = reached(arrows);
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in arrows.keys().filter(|unit| reaches(unit, unit)) {
        if seen.contains(start) {
            continue;
        }
        let same = |unit: &&String| reaches(start, unit) && reaches(unit, start);
        let units: BTreeSet<String> = arrows.keys().filter(same).cloned().collect();
        seen.extend(units.clone());
        found.push(circle(units, arrows));
    }
    found
}

fn circle(units: BTreeSet<String>, arrows: &Arrows) -> Circle {
    let inner = |from: &String| {
        let targets = arrows.get(from).into_iter().flatten().filter(|to| units.contains(*to));
        targets.cloned().collect::<Vec<_>>()
    };
    let pairs = units.iter().flat_map(|from| inner(from).into_iter().map(|to| (from.clone(), to)));
    let ways = units.iter().filter_map(|unit| way_back(unit, arrows));
    let path = ways.min_by_key(Vec::len).unwrap_or_default();
    Circle { arrows: pairs.collect(), path, units }
}

/// A shortest way from a unit back to itself, with the unit at both ends.
fn way_back(start: &str, arrows: &Arrows) -> Option<Vec<String>> {
    let mut open = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop_front() {
        for next in arrows.get(path.last()?).into_iter().flatten() {
            let longer = [&path[..], std::slice::from_ref(next)].concat();
            if next == start {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                open.push_back(longer);
            }
        }
    }
    None
}

/// The units that each unit reaches over one or more arrows.
fn reached(arrows: &Arrows) -> BTreeMap<&str, BTreeSet<&str>> {
    let from = |start: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = arrows.get(start).into_iter().flatten().collect();
        while let Some(unit) = open.pop() {
            if seen.insert(unit.as_str()) {
                open.extend(arrows.get(unit).into_iter().flatten());
            }
        }
        seen
    };
    arrows.keys().map(|unit| (unit.as_str(), from(unit))).collect()
}

/// Orders units so that each comes after all that it uses, but for those of its circle.
pub(crate) fn from_the_bottom(arrows: &Arrows, units: &BTreeSet<String>) -> Vec<String> {
    let reached = reached(arrows);
    let none = BTreeSet::new();
    let height = |unit: &String| {
        let all = reached.get(unit.as_str()).unwrap_or(&none);
        all.len()
    };
    let mut ordered: Vec<String> = units.iter().cloned().collect();
    ordered.sort_by_key(|unit| (height(unit), unit.clone()));
    ordered
}
