//! States of threads and runs in words.

use crate::CliError;
use std::collections::BTreeSet;
use weftwork::graph::SystemClock;
use weftwork::store::mailbox::is_terminated;
use weftwork::store::{InterruptRow, RunRow, Store, ThreadRow};
use weftwork::types::port::Clock;
use weftwork::types::run::{RunOutcome, RunStatus};
use weftwork::types::{InterruptId, Principal, ThreadId};

/// The status of a run whose process died, or released it before its end.
pub const NOT_FINISHED: &str = "not finished";

/// The status of a run whose questions wait for no answer any more.
pub const ASKED: &str = "ended at a question";

/// Returns the threads of the local organisation that have a run without a live worker.
pub async fn with_orphans(store: &dyn Store) -> Result<BTreeSet<ThreadId>, CliError> {
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    let ours = orphans.into_iter().filter(|(who, _)| who.org == Principal::local().org);
    Ok(ours.map(|(_, run)| run.new.at.thread).collect())
}

/// Returns the states of threads in words: the status of the last run, or that its process died.
pub async fn thread_states(
    store: &dyn Store,
    rows: &[ThreadRow],
) -> Result<Vec<&'static str>, CliError> {
    let is_running = |row: &ThreadRow| row.status == Some(RunStatus::Running);
    let left = match rows.iter().any(is_running) {
        true => with_orphans(store).await?,
        false => BTreeSet::new(),
    };
    let mut states = Vec::new();
    for row in rows {
        states.push(match row.status {
            Some(RunStatus::Running) if left.contains(&row.id) => NOT_FINISHED,
            Some(RunStatus::Interrupted) if !is_terminated(&row.metadata) => {
                let runs = store.runs(&Principal::local(), &row.id).await?;
                let questions = store.interrupts(&Principal::local(), &row.id).await?;
                runs.last().map_or_else(|| last_run(row), |run| state_of(run, &questions))
            }
            Some(RunStatus::Pending) => {
                let runs = store.runs(&Principal::local(), &row.id).await?;
                let pending = runs.iter().find(|run| run.status == RunStatus::Pending);
                pending.map_or_else(|| last_run(row), |run| state_of(run, &[]))
            }
            _ => last_run(row),
        });
    }
    Ok(states)
}

/// Returns the state of a run in words, given the questions of its thread.
pub fn state_of(run: &RunRow, questions: &[InterruptRow]) -> &'static str {
    let is_open = |id: &InterruptId| {
        questions.iter().any(|question| question.interrupt.id == *id && question.is_open())
    };
    match &run.outcome {
        Some(RunOutcome::Interrupted { interrupts, .. }) if interrupts.is_empty() => {
            "stopped at a node"
        }
        // Its questions were answered, or closed.
        Some(RunOutcome::Interrupted { interrupts, .. }) if !interrupts.iter().any(is_open) => {
            ASKED
        }
        // A process claimed it, and may have paid for calls, before it released the run.
        _ if run.status == RunStatus::Pending && run.fence > 0 => NOT_FINISHED,
        _ => status_word(run.status),
    }
}

/// Returns the status of the last run of a thread in words.
pub fn last_run(row: &ThreadRow) -> &'static str {
    match row.status {
        // A terminated instance takes no answers.
        Some(RunStatus::Interrupted) if is_terminated(&row.metadata) => "terminated",
        status => status.map_or("no run", status_word),
    }
}

/// Returns the status of a run in words.
pub fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Pending => "not started",
        RunStatus::Running => "running",
        RunStatus::Completed => "completed",
        RunStatus::Interrupted => "waits for an answer",
        RunStatus::LimitReached => "limit reached",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use weftwork::types::TaskId;

    fn run(status: &str, fence: u64, outcome: Value) -> RunRow {
        let caller =
            json!({"billing_account": "a", "virtual_key": "k", "request": "r", "trace": "t"});
        let row = json!({
            "new": {
                "at": {"thread": "t", "run": "r"}, "graph": "g", "caller": caller,
                "input": {"kind": "continue"}, "options": {}, "created_at": 0,
            },
            "status": status, "worker": null, "fence": fence, "outcome": outcome, "ended_at": null,
            "cancel_requested": false,
        });
        serde_json::from_value(row).expect("a run")
    }

    #[test]
    fn a_run_waits_for_an_answer_as_long_as_one_of_its_questions_is_open() {
        let question = |number: u128| {
            let ask = json!({"kind": "value", "value": null});
            let ids = (InterruptId(number), TaskId(number));
            let asked = json!({"id": ids.0, "task": ids.1, "node": "n", "ask": ask});
            json!({"interrupt": asked, "run": "r", "answer": null, "closed": false})
        };
        let mut questions: Vec<InterruptRow> = [1, 2]
            .map(|number| serde_json::from_value(question(number)).expect("a question"))
            .into();
        let ids = questions.iter().map(|question| question.interrupt.id).collect();
        let asked = RunOutcome::Interrupted { interrupts: ids, questions: Vec::new() };
        let asked = run("interrupted", 1, json!(asked));
        assert_eq!(state_of(&asked, &questions), "waits for an answer");
        questions[0].closed = true;
        assert_eq!(state_of(&asked, &questions), "waits for an answer");
        questions[1].closed = true;
        assert_eq!(state_of(&asked, &questions), ASKED);
        let stopped = json!(RunOutcome::interrupted(Vec::new()));
        assert_eq!(state_of(&run("interrupted", 1, stopped), &[]), "stopped at a node");
    }

    #[test]
    fn a_run_that_was_released_is_not_called_not_started() {
        assert_eq!(state_of(&run("pending", 0, Value::Null), &[]), "not started");
        assert_eq!(state_of(&run("pending", 1, Value::Null), &[]), NOT_FINISHED);
    }
}
