//! Parses the log of a stage: the summary lines of test runners, and skipped tests.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers of tests by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

/// The reason recorded for tests that a test runner itself skipped.
pub(super) const LEFT_OUT: &str = "left out by the runner";

/// A test that was skipped, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Skip {
    pub(super) reason: String,
    pub(super) name: String,
}

/// A parsed log.
#[derive(Debug, Default)]
pub(super) struct Log {
    text: String,
    /// Summary lines of test runners.
    pub(super) closing: Vec<String>,
    /// A test that reports a skip counts as skipped, although its runner reports it as passed.
    pub(super) count: Count,
    pub(super) skips: BTreeSet<Skip>,
    /// Failed tests with their panic messages.
    pub(super) failures: BTreeSet<String>,
}

impl Log {
    /// Parses a log. If nextest wrote a summary, the result lines of single tests are ignored.
    pub(super) fn read(text: &str) -> Self {
        let summaries: Vec<&str> = text.lines().filter(|line| is_nextest(line)).collect();
        let results = text.lines().filter(|line| line.starts_with("test result: "));
        let closing = if summaries.is_empty() { results.collect() } else { summaries };
        let mut log = Self { text: text.to_owned(), ..Self::default() };
        for line in closing {
            let count = count(line);
            if count != Count::default() {
                log.closing.push(line.trim().to_owned());
                log.add(count);
            }
        }
        let told: BTreeSet<Skip> = text.lines().filter_map(skip).collect();
        log.count.passed = log.count.passed.saturating_sub(told.len());
        log.count.skipped += told.len();
        log.skips.extend(told);
        log.failures = failures(text);
        log
    }

    fn add(&mut self, count: Count) {
        self.count.passed += count.passed;
        self.count.failed += count.failed;
        self.count.skipped += count.skipped;
        if count.skipped > 0 {
            let name = format!("{} tests", count.skipped);
            self.skips.insert(Skip { reason: LEFT_OUT.to_owned(), name });
        }
    }

    /// Returns the last lines of the log.
    pub(super) fn tail(&self, lines: usize) -> &str {
        let starts = self.text.trim_end().rmatch_indices('\n').map(|(index, _)| index + 1);
        let start = starts.take(lines).nth(lines.saturating_sub(1)).unwrap_or_default();
        &self.text[start..]
    }
}

fn is_nextest(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Summary [") && line.contains(" run: ")
}

/// Parses `… 3 passed (1 slow), 1 failed, 0 skipped` and `… 3 passed; 0 failed; 0 ignored; …`.
fn count(line: &str) -> Count {
    let mut count = Count::default();
    for part in line.split([',', ';', ':', '.']) {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<usize>().ok()) else {
            continue;
        };
        match words.next() {
            Some("passed") => count.passed += number,
            Some("failed" | "exec" | "timed") => count.failed += number,
            Some("skipped" | "ignored") => count.skipped += number,
            _ => {}
        }
    }
    count
}

/// The tests that nextest reports as failed, each with the location and message of its panic.
fn failures(text: &str) -> BTreeSet<String> {
    const BAD: [&str; 5] = ["FAIL [", "TIMEOUT [", "ABORT [", "SIGSEGV [", "SIGABRT ["];
    let mut all = BTreeMap::new();
    let mut current = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if BAD.iter().any(|bad| line.starts_with(bad)) {
            let name = line.split_once(']').map_or(line, |(_, name)| name).trim();
            let name = name.split_once(") ").map_or(name, |(_, name)| name.trim());
            all.entry(name).or_insert_with(String::new);
            current = Some(name);
        } else if line.starts_with("PASS [") || line.starts_with("Summary [") {
            current = None;
        } else if let (Some(name), Some((_, place))) = (current, line.split_once(" panicked at ")) {
            let why = lines.next().unwrap_or_default().trim();
            let said = all.entry(name).or_default();
            if said.is_empty() {
                *said = format!("\n    {place} {why}");
            }
        }
    }
    all.into_iter().map(|(name, said)| format!("{name}{said}")).collect()
}

/// Parses `SKIPPED(reason): name`.
fn skip(line: &str) -> Option<Skip> {
    let (reason, name) = line.trim().strip_prefix("SKIPPED(")?.split_once("): ")?;
    Some(Skip { reason: reason.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{Count, LEFT_OUT, Log, Skip};

    fn skip(reason: &str, name: &str) -> Skip {
        Skip { reason: reason.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn nextest_closes_for_the_tests_it_ran() {
        let log = Log::read(
            "running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n\
             SKIPPED(no weights): chat::a\n    SKIPPED(no weights): chat::b\n\
             ─────\n     Summary [   1.205s] 7/9 tests run: 5 passed (1 slow), 1 failed, 1 timed out, 0 skipped\n",
        );
        assert_eq!(log.count, Count { passed: 3, failed: 2, skipped: 2 });
        assert_eq!(log.closing.len(), 1);
        assert!(log.closing[0].starts_with("Summary ["));
        let expected = [skip("no weights", "chat::a"), skip("no weights", "chat::b")];
        assert_eq!(log.skips.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn results_of_cargo_test_are_added_up_and_empty_ones_dropped() {
        let log = Log::read(
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(log.count, Count { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(log.closing.len(), 1);
        assert_eq!(log.skips.into_iter().collect::<Vec<_>>(), [skip(LEFT_OUT, "1 tests")]);
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        let log = Log::read("a\nb\nc\n");
        assert_eq!(log.tail(2), "b\nc\n");
        assert_eq!(log.tail(9), "a\nb\nc\n");
        assert_eq!(Log::read("").tail(3), "");
    }

    #[test]
    fn failed_tests_are_named_with_where_they_panicked() {
        let log = Log::read(
            "        PASS [   0.1s] (1/2) a::b fine\nthread 'x' panicked at y.rs:1:\nexpected\n\
             \x20       FAIL [   0.2s] (2/2) a::c broken\n\
             thread 'broken' (7) panicked at c.rs:3:5:\none is not two\n\
             \x20    Summary [   0.3s] 2 tests run: 1 passed, 1 failed, 0 skipped\n\
             \x20       FAIL [   0.2s] (2/2) a::c broken\n",
        );
        let expected = "a::c broken\n    c.rs:3:5: one is not two".to_owned();
        assert_eq!(log.failures.into_iter().collect::<Vec<_>>(), [expected]);
    }
}
