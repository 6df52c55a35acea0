//! The runs of a thread that a follower has reported.

use std::collections::BTreeSet;
use weftwork_types::RunId;

/// Runs that were reported, of a thread whose runs have an order. A run that ends may come before one
/// that was reported: an activity that was cancelled while another one was executed.
#[derive(Debug, Default)]
pub(super) struct ReportedRuns {
    /// The last run of those that were all reported, from the first one.
    last: Option<RunId>,
    /// Reported runs after it.
    ahead: BTreeSet<RunId>,
}

impl ReportedRuns {
    /// Creates the set of the runs before an index.
    pub(super) fn before(index: usize, order: &[&RunId]) -> Self {
        let last = index.checked_sub(1).and_then(|last| order.get(last));
        Self { last: last.map(|run| (*run).clone()), ahead: BTreeSet::new() }
    }

    /// Adds a run, and returns the index of the first one that was not reported.
    pub(super) fn next(&mut self, reported: &RunId, order: &[&RunId]) -> Option<usize> {
        let place = |run: &RunId| order.iter().position(|one| *one == run);
        let mut next = self.last.as_ref().and_then(place).map_or(0, |last| last + 1);
        if place(reported).is_some_and(|index| index >= next) {
            self.ahead.insert(reported.clone());
        }
        while order.get(next).is_some_and(|run| self.ahead.remove(*run)) {
            self.last = Some(order[next].clone());
            next += 1;
        }
        (next..order.len()).find(|index| !self.ahead.contains(order[*index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a run, and returns the first one in this order that was not reported.
    fn next(runs: &mut ReportedRuns, reported: &str, order: &str) -> Option<String> {
        let ids: Vec<_> = order.split(' ').map(|run| RunId::new(run).expect("an id")).collect();
        let order: Vec<_> = ids.iter().collect();
        let reported = RunId::new(reported).expect("an id");
        runs.next(&reported, &order).map(|index| order[index].to_string())
    }

    #[test]
    fn each_run_is_reported_once_in_whichever_order_they_end() {
        let ids = ["a", "b", "c"].map(|run| RunId::new(run).expect("an id"));
        let mut runs = ReportedRuns::before(1, &ids.each_ref());
        assert_eq!(next(&mut runs, "b", "a b"), None);
        assert_eq!(next(&mut runs, "b", "a b c"), Some("c".to_owned()));
        // Two that ended before the last one appear.
        assert_eq!(next(&mut runs, "c", "a b d e c"), Some("d".to_owned()));
        assert_eq!(next(&mut runs, "d", "a b d e c"), Some("e".to_owned()));
        assert_eq!(next(&mut runs, "e", "a b d e c"), None);
        assert_eq!(next(&mut runs, "e", "a b d e c f"), Some("f".to_owned()));
        assert_eq!(runs.ahead.len(), 0);
    }

    #[test]
    fn a_follower_from_the_beginning_has_reported_none() {
        let mut runs = ReportedRuns::before(0, &[]);
        assert_eq!(next(&mut runs, "b", "a b"), Some("a".to_owned()));
        assert_eq!(next(&mut runs, "a", "a b"), None);
    }
}
