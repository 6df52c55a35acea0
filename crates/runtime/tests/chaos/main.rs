//! Real processes that die, stall and run into limits, on files and databases they share.
//!
//! The test binary starts itself as its workers. Small doses by default, full ones with
//! `WEFT_FAULTS=full`; `WEFT_CHAOS_KILLS` asks for another number of kills, `WEFT_TEST_SEED` for
//! other moments and other runs whose supersteps are stored as `async` and `exit` say.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]
#![expect(clippy::print_stdout, reason = "the figures are what the test is run for")]

mod alone;
mod cancel;
mod check;
mod clocks;
mod crowd;
mod disk;
#[path = "../it/faulty.rs"]
mod faulty;
mod followers;
mod kills;
mod place;
mod points;
mod poison;
mod speech;
mod stall;
mod timers;
mod worker;

use std::time::Duration;

/// Returns `true` if the full doses are requested.
fn full() -> bool {
    std::env::var("WEFT_FAULTS").is_ok_and(|faults| faults == "full")
}

/// Checks a time limit of a full dose, which has the machine to itself. A small dose runs beside other
/// tests, and its times depend on them.
fn check_time(took: Duration, most: Duration) {
    assert!(!full() || took <= most, "took {took:?}, at most {most:?}");
}

/// Which moments and runs are drawn.
fn seed() -> u64 {
    std::env::var("WEFT_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"))
}

/// Says the figures and keeps them in `target/tmp`.
fn report(name: &str, figures: &str) {
    println!("{name}: {figures}");
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}.log"));
    std::fs::write(log, format!("{figures}\n")).expect("the log can be written");
}
