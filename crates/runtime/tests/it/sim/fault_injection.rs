//! Bugs that the simulation finds: each bug that can be injected, within a stated number of seeds.

use super::check;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weftwork_engine::fault_injection::{Bug, inject};

/// Each bug, and within how many seeds it is found.
const BUGS: [(Bug, u64); 17] = [
    (Bug::CompletionOrder, 10),
    (Bug::JoinPerBranch, 10),
    (Bug::FanInPerBranch, 10),
    (Bug::SendsMerged, 10),
    (Bug::DeferredEarly, 10),
    (Bug::EphemeralStays, 10),
    (Bug::StopsRearm, 10),
    (Bug::NamesFinished, 10),
    (Bug::ForgetsFinished, 10),
    (Bug::ForgetsCalls, 10),
    (Bug::KeepsNothing, 10),
    (Bug::StreamsKeepNothing, 10),
    (Bug::Aliased, 10),
    (Bug::StartsOverWithin, 10),
    (Bug::DropsOwnInput, 100),
    (Bug::HandlersRerun, 100),
    (Bug::StaleQuestions, 100),
];

/// The first seed that breaks a law with a bug, and how.
fn first_seed(bug: Bug, seeds: u64) -> Option<(u64, String)> {
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
    let mut missed = Vec::new();
    for (bug, seeds) in BUGS {
        match first_seed(bug, seeds) {
            Some((seed, how)) => println!("{bug:?}: {} of {seeds} seeds: {how}", seed + 1),
            None => missed.push((bug, seeds)),
        }
    }
    assert!(missed.is_empty(), "these lived through so many seeds: {missed:?}");
}
