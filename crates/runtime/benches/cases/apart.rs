//! Cost of a run over SQLite besides its commits: by itself, and with the caches as cold as a
//! commit leaves them.

use super::Case;
use super::filed::{Bare, Commits, Filed};
use crate::inline::Inline;
use crate::{cost, cpu_ns, median};
use serde_json::{Value, json};
use std::sync::Mutex;
use weftwork_sqlite::Durability;

/// Rounds that count; one before them warms up.
const ROUNDS: usize = 9;
/// Runs per round.
const RUNS: u32 = 500;

/// Measures a case without commits, and with commits by hand in the place of its own. The cost of
/// these, one after the other, is subtracted, so that their additional cost between tasks is in the
/// figure.
pub(crate) async fn measure(case: &Case, rows: &mut Vec<Value>) {
    let by_hand = Inline::new(case.work);
    for (level, durability) in [("sqlite", Durability::Normal), ("sqlite-full", Durability::Full)] {
        let probe = Filed::open(durability);
        case.run_kept(&probe.host, case.thread_input()).await;
        let commits = probe.commits() as u32;
        let bytes = probe.bytes();
        let alone = Bare::open(durability, bytes);
        let nothing = Filed::with(durability, Commits::Nothing);
        let between =
            Filed::with(durability, Commits::ByHand(Mutex::new(Bare::open(durability, bytes))));
        let mut hot = Vec::new();
        let mut cold = Vec::new();
        let mut hand = Vec::new();
        let mut id = 0;
        for round in 0..=ROUNDS {
            let inline = cost(
                case.tasks,
                || by_hand.input(),
                async |input| {
                    std::hint::black_box(by_hand.run(input).await);
                },
            );
            let inline = inline.await.cpu;
            let without = of_runs(case, &nothing).await;
            let with = of_runs(case, &between).await;
            let cpu = cpu_ns();
            for _ in 0..RUNS * commits {
                id += 1;
                alone.commit(id);
            }
            let commits = (cpu_ns() - cpu) / f64::from(RUNS * case.tasks) / 1e3;
            if round > 0 {
                hot.push(without);
                cold.push(with - commits);
                hand.push(inline);
            }
        }
        let hot = median(hot);
        let cold = median(cold);
        let hand = median(hand);
        println!(
            "{} apart, {level}: {hot:.2} us a task without a commit, {cold:.2} between commits by hand; the loop over JSON {hand:.3}, four times {:.2}",
            case.name,
            4.0 * hand
        );
        rows.push(json!({
            "case": "apart", "of": case.name, "saver": level, "engine": "weftwork",
            "cpu_us_per_task": hot, "between_commits_us_per_task": cold, "json_us_per_task": hand,
        }));
    }
}

async fn of_runs(case: &Case, filed: &Filed) -> f64 {
    let inputs: Vec<_> = (0..RUNS).map(|_| case.thread_input()).collect();
    let cpu = cpu_ns();
    for input in inputs {
        case.run_kept(&filed.host, input).await;
    }
    (cpu_ns() - cpu) / f64::from(RUNS * case.tasks) / 1e3
}
