//! The first action of a run.

use super::claimed::ClaimedRun;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Start, StartCommand, StateUpdate};
use weftwork_types::run::{Answers, RunCommand, RunInput};

/// First action of a run.
pub(super) enum Begin {
    /// Its input is a change from outside, after which no node runs.
    Update(StateUpdate),
    Run(Start),
    /// An earlier process completed the run.
    Nothing,
}

/// Returns the start of the run; `begun`: an earlier process performed it.
pub(super) async fn begin(run: &ClaimedRun, begun: bool) -> Result<Begin, RuntimeError> {
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
        RunInput::Start { input } if !begun => Begin::Run(Start::Input(input)),
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
