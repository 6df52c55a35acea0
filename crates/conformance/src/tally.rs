//! Counts of played specs.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of played specs and crashes, and of those without a verdict, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Specs that were played.
    pub played: u64,
    /// The part of `played` that did not reach its end, or whose trace changed after a crash.
    pub failed: u64,
    /// Specs to which the mode does not apply, by reason.
    pub not_applicable: BTreeMap<&'static str, u64>,
    /// Crashes after which specs were played on.
    pub crashes: u64,
    /// Crashes that did not come about: the run took another course, and did not come to the write.
    pub missed: u64,
    /// Crashes after which there is nothing to compare, by reason.
    pub passed_over: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not: u64 = self.not_applicable.values().sum();
        write!(f, "{} played, {} failed, {not} not applicable", self.played, self.failed)?;
        reasons(f, &self.not_applicable)?;
        let passed: u64 = self.passed_over.values().sum();
        if self.crashes + passed > 0 {
            write!(f, "; {} crashes, {passed} passed over", self.crashes)?;
            reasons(f, &self.passed_over)?;
        }
        if self.missed > 0 {
            write!(f, ", {} that did not come about", self.missed)?;
        }
        Ok(())
    }
}

fn reasons(f: &mut fmt::Formatter<'_>, all: &BTreeMap<&'static str, u64>) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let each: Vec<String> =
        all.iter().map(|(reason, count)| format!("{count}: {reason}")).collect();
    write!(f, " ({})", each.join("; "))
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn reasons_are_counted() {
        let plain = Tally { played: 3, ..Tally::default() };
        assert_eq!(plain.to_string(), "3 played, 0 failed, 0 not applicable");
        let whole = Tally {
            not_applicable: [("a", 2), ("b", 1)].into(),
            crashes: 7,
            missed: 1,
            passed_over: [("c", 4)].into(),
            ..plain
        };
        let expected = "3 played, 0 failed, 3 not applicable (2: a; 1: b); \
                        7 crashes, 4 passed over (4: c), 1 that did not come about";
        assert_eq!(whole.to_string(), expected);
    }
}
