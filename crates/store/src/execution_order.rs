//! The order in which the runs of a thread were executed.

use crate::record::{Base, RunRow};
use weftwork_types::run::RunStatus;

/// Sorts the runs of a thread, given in the order of their acceptance, by their execution. Runs that
/// have not begun come last, in the order of their acceptance.
///
/// The two orders differ if a run that [continues](crate::NewRun::continues) the thread was accepted
/// while another one waited to begin, and in mailboxes.
#[must_use]
pub fn by_execution(runs: Vec<RunRow>) -> Vec<RunRow> {
    let mut sorted: Vec<RunRow> = Vec::with_capacity(runs.len());
    let mut waiting = Vec::new();
    for run in runs {
        if run.status == RunStatus::Queued && run.fence == 0 {
            waiting.push(run);
            continue;
        }
        let passed = sorted.iter().rev().take_while(|earlier| passes(&run, earlier)).count();
        sorted.insert(sorted.len() - passed, run);
    }
    sorted.extend(waiting);
    sorted
}

/// Returns `true` if a run was executed before one that was accepted earlier.
fn passes(run: &RunRow, earlier: &RunRow) -> bool {
    let may_pass = run.new.continues() || run.new.options.mailbox.is_some();
    let Some(end) = run.last_checkpoint.filter(|_| may_pass && run.status.is_final()) else {
        return false;
    };
    let began = |run: &RunRow| match run.base {
        Some(Base::At(id)) => Some(id),
        _ => None,
    };
    let ended_before = began(earlier).is_some_and(|began| end <= began);
    let could_be_later = earlier
        .last_checkpoint
        .filter(|_| earlier.status.is_final())
        .is_some_and(|end| began(run).is_none_or(|began| end <= began));
    // Two runs that made no checkpoint are at the same position.
    ended_before && (!could_be_later || run.ended_at < earlier.ended_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NewRun;
    use weftwork_types::caller::Caller;
    use weftwork_types::run::{Answers, RunInput, RunOptions, RunRef};
    use weftwork_types::{CheckpointId, RunId, ThreadId, Timestamp};

    fn run(id: &str, input: RunInput, checkpoints: Option<(u128, u128)>) -> RunRow {
        let new = NewRun {
            at: RunRef {
                thread: ThreadId::new("t").expect("an id"),
                run: RunId::new(id).expect("an id"),
            },
            graph: "test:graph".to_owned(),
            caller: Caller::local("request").expect("an id"),
            input,
            options: RunOptions::default(),
            created_at: Timestamp(1),
        };
        let accepted = RunRow::accepted(new, RunStatus::Queued);
        let Some((base, last)) = checkpoints else { return accepted };
        RunRow {
            status: RunStatus::Completed,
            fence: 1,
            base: Some(Base::At(CheckpointId(base))),
            last_checkpoint: Some(CheckpointId(last)),
            ended_at: Some(Timestamp(2)),
            ..accepted
        }
    }

    fn order(runs: Vec<RunRow>) -> String {
        let ids = by_execution(runs).into_iter().map(|run| run.new.at.run.to_string());
        ids.collect::<Vec<_>>().join(" ")
    }

    fn input() -> RunInput {
        RunInput::Start { input: serde_json::json!({}) }
    }

    fn answer() -> RunInput {
        RunInput::answers(Answers::One(serde_json::json!("yes")))
    }

    #[test]
    fn an_answer_comes_before_the_runs_that_began_after_it() {
        let asks = || run("asks", input(), Some((1, 3)));
        let answers = || run("answers", answer(), Some((3, 5)));
        let waits = run("late", input(), None);
        assert_eq!(order(vec![asks(), waits, answers()]), "asks answers late");
        let ended = run("late", input(), Some((5, 7)));
        let next = run("next", input(), Some((7, 9)));
        assert_eq!(order(vec![asks(), ended, answers(), next]), "asks answers late next");
    }

    #[test]
    fn runs_that_were_executed_as_they_came_stay_in_order() {
        let nothing = |id| run(id, RunInput::Continue, Some((3, 3)));
        let runs = vec![run("a", input(), Some((1, 3))), nothing("b"), nothing("c")];
        assert_eq!(order(runs), "a b c");
        // A fork from an older checkpoint has newer ones of its own.
        let forked = run("b", RunInput::Continue, Some((3, 5)));
        assert_eq!(order(vec![run("a", input(), Some((1, 3))), forked]), "a b");
    }
}
