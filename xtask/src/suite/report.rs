//! The report of the suite: a line per stage, and a summary with seconds and skips.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::log::{Count, Log};
use super::plan::{Skips, Tier};
use crate::figures::columns;

/// The result of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Failed(ExitStatus),
    TimedOut(u64),
    NoTests,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(_) | Self::TimedOut(_) | Self::NoTests => "FAILED",
        }
    }
}

/// A finished stage.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) elapsed: Duration,
    pub(super) verdict: Verdict,
    pub(super) log: Log,
    pub(super) tail: String,
    pub(super) log_path: PathBuf,
}

/// The report line of a stage, with its runner's summary lines, and the end of its log on failure.
pub(super) fn line(outcome: &Outcome) -> String {
    let name = &outcome.name;
    let seconds = seconds(outcome.elapsed);
    let mut text = String::new();
    let mut add = |line: &str| text.extend([line, "\n"]);
    match outcome.verdict {
        Verdict::Ok => add(&format!("stage {name}: ok in {seconds} s")),
        verdict => {
            add(&format!("--- last lines of {}", outcome.log_path.display()));
            add(outcome.tail.trim_end());
            let why = match verdict {
                Verdict::TimedOut(limit) => format!("over its limit of {limit} s"),
                Verdict::NoTests => "no test ran".to_owned(),
                Verdict::Failed(status) => status.to_string(),
                Verdict::Ok => String::new(),
            };
            add(&format!("stage {name}: FAILED in {seconds} s: {why}"));
        }
    }
    for closing in &outcome.log.closing {
        add(&format!("  {closing}"));
    }
    text
}

/// Returns the table of stages and the time until all had ended, all skips and the total of all tests, and `true` if all is well.
pub(super) fn summary(
    outcomes: &[Outcome],
    elapsed: Duration,
    skips: &Skips,
    tier: Tier,
) -> (String, bool) {
    let mut rows = vec![["stage", "result", "seconds"].map(str::to_owned).to_vec()];
    let mut count = Count::default();
    for outcome in outcomes {
        let result = outcome.verdict.word().to_owned();
        rows.push(vec![outcome.name.clone(), result, seconds(outcome.elapsed)]);
        count.passed += outcome.log.count.passed;
        count.failed += outcome.log.count.failed;
        count.skipped += outcome.log.count.skipped;
    }
    rows.push(vec!["all".to_owned(), String::new(), seconds(elapsed)]);
    let mut text = format!("\n{}", columns(&rows));
    let stages_good = outcomes.iter().all(|outcome| outcome.verdict == Verdict::Ok);
    let skips_good = skipped(outcomes, skips, tier, &mut text);
    let mut failures = outcomes.iter().flat_map(|outcome| &outcome.log.failures).peekable();
    if failures.peek().is_some() {
        text.push_str("\nfailed tests\n");
        failures.for_each(|failure| text.extend(["  ", failure, "\n"]));
    }
    let Count { passed, failed, skipped } = count;
    if count != Count::default() {
        text.push_str(&format!("\ntotal: {passed} passed, {failed} failed, {skipped} skipped\n"));
    }
    (text, stages_good && skips_good)
}

/// Writes the skips by reason; returns `false` if one is not allowed.
fn skipped(outcomes: &[Outcome], skips: &Skips, tier: Tier, text: &mut String) -> bool {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skip in outcomes.iter().flat_map(|outcome| &outcome.log.skips) {
        by_reason.entry(&skip.reason).or_default().push(&skip.name);
    }
    let mut good = true;
    for (reason, names) in by_reason {
        let allowed = skips.allows(reason, tier);
        good &= allowed.is_some();
        let why = allowed.map_or_else(
            || format!("NOT ALLOWED in the {} tier by xtask/skips.toml", tier.name()),
            |allowed| format!("allowed: {}", allowed.why),
        );
        text.push_str(&format!("\nskipped, {reason} ({why})\n"));
        for name in names {
            text.push_str(&format!("  {name}\n"));
        }
    }
    good
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::{Log, Outcome, Skips, Tier, Verdict, line, summary};

    fn outcome(verdict: Verdict, log: &str) -> Outcome {
        let log = Log::read(log);
        let tail = log.tail(2).to_owned();
        let name = "unit".to_owned();
        let log_path = PathBuf::from("unit.log");
        Outcome { name, elapsed: Duration::from_millis(1250), verdict, log, tail, log_path }
    }

    const LOG: &str =
        "x\ny\n Summary [ 1s] 4 tests run: 4 passed, 0 skipped\nSKIPPED(no gpu): a::b\n";

    #[test]
    fn a_good_stage_is_a_line_and_its_closing_line() {
        let text = line(&outcome(Verdict::Ok, LOG));
        let expected =
            "stage unit: ok in 1.2 s\n  Summary [ 1s] 4 tests run: 4 passed, 0 skipped\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_bad_stage_shows_the_end_of_its_log() {
        let text = line(&outcome(Verdict::TimedOut(60), "x\ny\nz\n"));
        let expected = "--- last lines of unit.log\ny\nz\n\
                        stage unit: FAILED in 1.2 s: over its limit of 60 s\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_summary_counts_seconds_and_tests_and_names_skips() {
        let skips: Skips = toml::from_str("[skips.\"no gpu\"]\nwhy = \"rare\"\n").unwrap();
        let (text, good) =
            summary(&[outcome(Verdict::Ok, LOG)], Duration::from_millis(1250), &skips, Tier::Fast);
        let expected = "
stage  result  seconds
unit       ok      1.2
all                1.2

skipped, no gpu (allowed: rare)
  a::b

total: 3 passed, 0 failed, 1 skipped
";
        assert_eq!(text, expected);
        assert!(good);
    }

    #[test]
    fn skips_without_leave_and_failures_are_not_good() {
        let none = Skips::default();
        let (text, good) = summary(&[outcome(Verdict::Ok, LOG)], Duration::ZERO, &none, Tier::Full);
        assert!(text.contains("skipped, no gpu (NOT ALLOWED in the full tier"));
        assert!(!good);
        assert!(!summary(&[outcome(Verdict::NoTests, "")], Duration::ZERO, &none, Tier::Fast).1);
    }
}
