//! A run and those that answer its questions.

use super::TurnRun;
use crate::{RunId, Timestamp};
use std::iter;

/// A run and those that answer its questions, in the order of their execution, also if they were rolled
/// back: what protocols show as one task, or as one call.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnChain {
    first: TurnRun,
    later: Vec<TurnRun>,
}

impl TurnChain {
    /// Returns the chain that a run begins, of the runs of its conversation; `None` if they do not have it.
    #[must_use]
    pub fn of(turns: &[TurnRun], first: &RunId) -> Option<Self> {
        let mut turns = turns.iter().skip_while(|turn| turn.at.run != *first);
        let mut chain = Self { first: turns.next()?.clone(), later: Vec::new() };
        for turn in turns {
            let continues = chain.iter().any(|run| turn.answers.as_ref() == Some(&run.at.run));
            if continues {
                chain.later.push(turn.clone());
            }
        }
        Some(chain)
    }

    /// The run that begins the chain.
    #[must_use]
    pub fn first(&self) -> &TurnRun {
        &self.first
    }

    /// The run that ends it.
    #[must_use]
    pub fn last(&self) -> &TurnRun {
        self.later.last().unwrap_or(&self.first)
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = &TurnRun> {
        iter::once(&self.first).chain(&self.later)
    }

    /// Returns the run at a place; the first one is at 0.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&TurnRun> {
        self.iter().nth(place)
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + self.later.len()
    }

    /// Returns the time at which a client rolled the chain back, because it cancelled it while it waited.
    #[must_use]
    pub fn rolled_back_at(&self) -> Option<Timestamp> {
        self.iter().find_map(|run| run.rolled_back_at)
    }

    /// Returns the time of the last change.
    #[must_use]
    pub fn changed_at(&self) -> Timestamp {
        let last = self.last();
        self.rolled_back_at().or(last.ended_at).unwrap_or(last.created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadId;
    use crate::run::{RunRef, RunStatus};
    use serde_json::Map;
    use uuid::Uuid;

    fn run(number: u128, answers: Option<u128>) -> TurnRun {
        let id = |number| RunId::from_uuid(Uuid::from_u128(number));
        let thread = ThreadId::new("t").expect("an id");
        TurnRun {
            at: RunRef { thread, run: id(number) },
            agent: "golf".to_owned(),
            conversation: "c".to_owned(),
            status: RunStatus::Interrupted,
            created_at: Timestamp(i64::try_from(number).expect("small")),
            ended_at: None,
            answers: answers.map(id),
            rolled_back_at: None,
            metadata: Map::new(),
        }
    }

    #[test]
    fn a_chain_has_the_runs_that_answer_it_and_no_others() {
        let turns = [run(1, None), run(2, Some(1)), run(3, None), run(4, Some(2)), run(5, Some(3))];
        let chain = |first: usize| TurnChain::of(&turns, &turns[first].at.run).expect("is there");
        let numbers =
            |chain: &TurnChain| chain.iter().map(|run| run.created_at.0).collect::<Vec<_>>();
        assert_eq!(numbers(&chain(0)), [1, 2, 4]);
        assert_eq!(numbers(&chain(1)), [2, 4]);
        assert_eq!(numbers(&chain(4)), [5]);
        let first = chain(0);
        assert_eq!((first.count(), first.get(2), first.get(3)), (3, Some(first.last()), None));
        assert_eq!(first.changed_at(), Timestamp(4));
        assert_eq!(TurnChain::of(&turns, &run(6, None).at.run), None);
    }

    #[test]
    fn a_chain_that_was_rolled_back_changed_then() {
        let mut turns = [run(1, None), run(2, Some(1))];
        turns[0].rolled_back_at = Some(Timestamp(9));
        let chain = TurnChain::of(&turns, &turns[0].at.run).expect("is there");
        assert_eq!(
            (chain.rolled_back_at(), chain.changed_at()),
            (Some(Timestamp(9)), Timestamp(9))
        );
    }
}
