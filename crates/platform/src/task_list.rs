//! The tasks of a conversation, read from its runs.

use crate::source::AGENTS;
use crate::sub_agent::fault_in;
use serde_json::{Value, json};
use weftwork_runtime::{Runtime, unversioned};
use weftwork_store::RunRow;
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::run::{RunInput, RunOutcome, RunStatus};
use weftwork_types::{Principal, ThreadId};

/// Maximum number of tasks of a conversation in a list.
const TASKS_MAX: usize = 100;

/// The tasks of a conversation: the newest first, with their states, messages and results. A task is
/// a run with those that continue it, as they answer its questions.
pub(crate) async fn tasks(
    runtime: &Runtime,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Vec<Value>, Fault> {
    let runs = runtime.store().runs(who, thread).await.map_err(|error| error.fault())?;
    let mut tasks = Vec::new();
    for (row, last_row) in tasks_of(&runs).into_iter().rev().take(TASKS_MAX) {
        let graph = unversioned(&row.new.graph);
        let mut task = json!({
            "id": row.new.at.run,
            "agent": graph.strip_prefix(AGENTS).unwrap_or(graph),
            "state": state_of(last_row),
            "mode": member_of(&row.new.input, "mode"),
            "message": message_of(&row.new.input),
            "createdAt": row.new.created_at,
            "endedAt": last_row.ended_at,
            "error": error_of(last_row.outcome.as_ref()),
        });
        if let (RunStatus::Completed, Some(last)) = (last_row.status, last_row.last_checkpoint) {
            // A version of the agent that is gone leaves the task without its result.
            let state = runtime.state_at(who, thread, last).await.ok();
            let answer = state.as_ref().and_then(|state| state.values.get("answer"));
            match answer.and_then(fault_in) {
                // The run ended with the failure of its agent as the answer.
                Some(fault) => {
                    task["state"] = "failed".into();
                    task["error"] = fault.message.into();
                }
                None => {
                    let content = answer.and_then(|answer| answer.get("content"));
                    task["result"] = content.cloned().unwrap_or_default();
                }
            }
        }
        tasks.push(task);
    }
    Ok(tasks)
}

/// Groups runs into tasks: the first run of each, and its last one.
fn tasks_of(runs: &[RunRow]) -> Vec<(&RunRow, &RunRow)> {
    let mut tasks: Vec<(&RunRow, &RunRow)> = Vec::new();
    for row in runs {
        let continues = match (&row.answers, &row.new.input) {
            // A change of the state is no task.
            (None, RunInput::Command(_) | RunInput::Update { .. }) => continue,
            (Some(asked), _) => tasks.iter().rposition(|(_, last)| last.new.at.run == *asked),
            // It goes on where the one before it failed.
            (None, RunInput::Continue) => tasks.len().checked_sub(1),
            (None, _) => None,
        };
        match continues {
            Some(at) => tasks[at].1 = row,
            None => tasks.push((row, row)),
        }
    }
    tasks
}

/// A member of the input of a run.
fn member_of<'a>(input: &'a RunInput, name: &str) -> Option<&'a Value> {
    match input {
        RunInput::Start { input } => input.get(name),
        _ => None,
    }
}

/// The text of the last message of the input of a run.
fn message_of(input: &RunInput) -> Option<String> {
    let messages = member_of(input, "messages")?.as_array()?;
    let message: Message = serde_json::from_value(messages.last()?.clone()).ok()?;
    Some(message.joined_text())
}

fn error_of(outcome: Option<&RunOutcome>) -> Option<String> {
    match outcome? {
        RunOutcome::Failed { fault } => Some(fault.message.clone()),
        _ => None,
    }
}

/// The state of a task, in the words of A2A.
fn state_of(row: &RunRow) -> &'static str {
    match row.status {
        RunStatus::Pending | RunStatus::Queued => "submitted",
        RunStatus::Running => "working",
        RunStatus::Interrupted => "input-required",
        RunStatus::Completed => "completed",
        RunStatus::Cancelled => "canceled",
        _ => "failed",
    }
}
