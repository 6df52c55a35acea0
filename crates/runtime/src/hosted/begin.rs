//! The first action of a run.

use super::claimed::ClaimedRun;
use super::left_behind::with_calls_left_behind;
use weftwork_graph::run_loop::{Start, StartCommand, StateUpdate};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::CheckpointId;
use weftwork_types::run::{Answers, RunCommand, RunInput};

/// First action of a run.
pub(super) enum Begin {
    /// Its input is a change from outside, after which no node runs.
    Update(StateUpdate),
    Run(Start),
    /// An earlier process completed the run.
    Nothing,
}

/// Returns the start of the run, given the checkpoint at which it begins if that may be another than
/// the newest; `begun`: an earlier process performed it.
pub(super) async fn begin(
    run: &ClaimedRun,
    graph: &CompiledGraph,
    begins_at: Option<CheckpointId>,
    begun: bool,
) -> Result<Begin, RuntimeError> {
    let missing = || RuntimeError::NothingToContinue { thread: run.claim.at.thread.to_string() };
    Ok(match run.row.new.input.clone() {
        RunInput::Update { .. } if begun => Begin::Nothing,
        // The state before the runs that it rolls back is that of a new thread.
        RunInput::Update { .. }
            if run.row.new.options.roll_back.is_some() && run.is_new().await? =>
        {
            Begin::Nothing
        }
        RunInput::Update { writes, as_node } => {
            Begin::Update(StateUpdate::read(writes, as_node.into())?)
        }
        RunInput::Start { input } if !begun => {
            let input = with_calls_left_behind(run, graph, begins_at, input).await?;
            Begin::Run(Start::Input(input))
        }
        RunInput::Command(command) if !begun && applies(run, &command).await? => {
            Begin::Run(Start::Command(StartCommand::from(command)))
        }
        _ if run.is_new().await? => return Err(missing()),
        RunInput::Command(RunCommand { answers: Some(Answers::ById(answers)), .. })
            if begun && run.row.new.options.at.is_some() =>
        {
            Begin::Run(Start::Resumed(answers))
        }
        // Questions take the answers on record, each by the id of its question.
        RunInput::Start { .. } | RunInput::Command(_) | RunInput::Continue => {
            Begin::Run(Start::Continue)
        }
    })
}

/// Returns `true` if a command does more than answer, or if the thread has a state.
async fn applies(run: &ClaimedRun, command: &RunCommand) -> Result<bool, RuntimeError> {
    Ok(!command.only_answers() || !run.is_new().await?)
}
