//! The dose of scenarios that a setting plays: all of them in the full tier (`WEFT_TIER=full`), and
//! in the fast tier a part that is chosen at random in each run.
//!
//! The output has the seed; `WEFT_KIT_SEED` plays the part of a seed again.

use crate::stores::scenarios;
use std::sync::LazyLock;
use weftwork_conformance::kit::Scenario;
use weftwork_graph::SystemClock;
use weftwork_types::port::Clock;

static SEED: LazyLock<u64> =
    LazyLock::new(|| variable("WEFT_KIT_SEED").unwrap_or_else(random_seed));

/// Returns `true` in the tier that plays every scenario in every setting.
pub(crate) fn is_full() -> bool {
    std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full")
}

/// All scenarios in the full tier, one of so many in the fast one.
pub(crate) fn dose(share: usize) -> Vec<Scenario> {
    let all = scenarios();
    if is_full() {
        return all;
    }
    let seed = *SEED;
    let count = all.len() / share;
    say(&format!("WEFT_KIT_SEED={seed}: {count} of {} scenarios", all.len()));
    shuffled(all, seed).into_iter().take(count).collect()
}

/// The scenarios in the order of a seed.
pub(crate) fn shuffled(scenarios: Vec<Scenario>, seed: u64) -> Vec<Scenario> {
    let mut order: Vec<_> = (0u64..).zip(scenarios).collect();
    order.sort_by_key(|(index, _)| mixed(seed.wrapping_mul(1_000_003).wrapping_add(*index)));
    order.into_iter().map(|(_, scenario)| scenario).collect()
}

/// A seed that differs between processes.
pub(crate) fn random_seed() -> u64 {
    let random = SystemClock::new().unique() % 1_000_000;
    random.try_into().unwrap()
}

pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[expect(clippy::print_stdout, reason = "the log says what was played, and how to play it again")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// A number that nobody expects, for each number.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
