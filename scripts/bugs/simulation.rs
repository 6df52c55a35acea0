//! Bugs that the simulation finds: each bug that `scripts/bugs/run.py` names, within its number of
//! seeds.

use super::check;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weftwork_engine::fault_injection::inject;

/// Variable with the bugs, as `name:seeds`, divided by spaces.
const BUGS: &str = "WEFT_BUGS";

/// The first seed that breaks a law with a bug, and how.
fn first_seed(bug: &'static str, seeds: u64) -> Option<(u64, String)> {
    let broken = |seed| {
        inject(Some(bug));
        let checked = catch_unwind(AssertUnwindSafe(|| check(seed)));
        inject(None);
        match checked {
            Ok(Ok(_)) => None,
            Ok(Err(broken)) => Some((seed, broken.to_string())),
            Err(_) => Some((seed, "it panics".to_owned())),
        }
    };
    (0..seeds).find_map(broken)
}

#[test]
fn injected_bugs_are_found_within_so_many_seeds() {
    let bugs: &'static str = std::env::var(BUGS).expect("names of bugs").leak();
    let mut missed = Vec::new();
    for bug in bugs.split(' ') {
        let (name, seeds) = bug.split_once(':').expect("a name and seeds");
        let seeds = seeds.parse().expect("a number of seeds");
        match first_seed(name, seeds) {
            Some((seed, how)) => println!("{name}: {} of {seeds} seeds: {how}", seed + 1),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "these lived through so many seeds: {missed:?}");
}
