//! The first action of a run.

use super::claimed::ClaimedRun;
use super::left_behind::with_calls_left_behind;
use crate::thread_snapshot::ThreadSnapshot;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{AsNode, Start, StartCommand, StateUpdate};
use weftwork_types::CheckpointId;
use weftwork_types::run::{Answers, RunCommand, RunInput};

/// First action of a run.
pub(super) enum FirstAction {
    /// Its input is a change from outside, after which no node runs.
    Update(StateUpdate),
    Run(Start),
    /// An earlier process completed the run.
    Nothing,
}

impl FirstAction {
    /// Returns `true` if the action may execute functions of the graph, which take dependencies. A
    /// change beside what is due routes and closes nothing.
    pub(super) fn executes(&self) -> bool {
        match self {
            Self::Update(update) => update.as_node != AsNode::Beside,
            Self::Run(_) => true,
            Self::Nothing => false,
        }
    }
}

/// Returns the start of the run, given the checkpoint at which it begins if that may be another than
/// the newest; `begun`: an earlier process performed it.
pub(super) async fn first_action(
    run: &ClaimedRun,
    thread: &ThreadSnapshot,
    begins_at: Option<CheckpointId>,
    begun: bool,
) -> Result<FirstAction, RuntimeError> {
    let missing = || RuntimeError::NothingToContinue { thread: run.claim.at.thread.to_string() };
    Ok(match run.row.new.input.clone() {
        // The change was committed with the start of the run: a second one would write it twice.
        RunInput::Update { .. } if begun => FirstAction::Nothing,
        // The state before the runs that it rolls back is that of a new thread.
        RunInput::Update { .. }
            if run.row.new.options.roll_back.is_some() && thread.is_new().await? =>
        {
            FirstAction::Nothing
        }
        RunInput::Update { writes, as_node } => {
            FirstAction::Update(StateUpdate::read(writes, as_node.into())?)
        }
        RunInput::Start { input } if !begun => {
            let input = with_calls_left_behind(run, thread, begins_at, input).await?;
            FirstAction::Run(Start::Input(input))
        }
        RunInput::Command(command) if !begun && command_applies(thread, &command).await? => {
            FirstAction::Run(Start::Command(StartCommand::from(command)))
        }
        _ if thread.is_new().await? => return Err(missing()),
        RunInput::Command(RunCommand { answers: Some(Answers::ById(answers)), .. })
            if begun && run.row.new.options.at.is_some() =>
        {
            FirstAction::Run(Start::Resumed(answers))
        }
        // Questions take the answers on record, each by the id of its question.
        RunInput::Start { .. } | RunInput::Command(_) | RunInput::Continue => {
            FirstAction::Run(Start::Continue)
        }
    })
}

/// Returns `true` if a command does more than answer, or if the thread has a state.
async fn command_applies(
    thread: &ThreadSnapshot,
    command: &RunCommand,
) -> Result<bool, RuntimeError> {
    Ok(!command.only_answers() || !thread.is_new().await?)
}
