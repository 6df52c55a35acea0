//! The first action of a run.

use super::claimed::ClaimedRun;
use std::collections::BTreeMap;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Answers, Start, StartCommand, StateUpdate};
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{RunCommand, RunInput};
use weftwork_types::{CheckpointId, InterruptId};

/// First action of a run.
pub(super) enum Begin {
    /// Its input is a change from outside, after which no node runs.
    Update(StateUpdate),
    Run(Start),
    /// An earlier process completed the run.
    Nothing,
}

/// Returns the start of the run, given the checkpoint at which it begins, unless an earlier process
/// performed it.
pub(super) async fn begin(
    run: &ClaimedRun,
    (begun, begins_at): (bool, Option<CheckpointId>),
    answers: &BTreeMap<InterruptId, Answer>,
) -> Result<Begin, RuntimeError> {
    let given = || {
        let given = answers.iter().map(|(id, answer)| (*id, answer.value.clone()));
        let given: BTreeMap<_, _> = given.collect();
        (!given.is_empty()).then_some(Answers::ById(given))
    };
    let resumed = || match given() {
        None => Start::Continue,
        resume => Start::Command(StartCommand { resume, ..StartCommand::default() }),
    };
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
            let mut command = StartCommand::from(command);
            if matches!(command.resume, None | Some(Answers::ById(_))) {
                command.resume = given();
            }
            Begin::Run(Start::Command(command))
        }
        _ if run.is_new().await? => return Err(missing()),
        RunInput::Continue if begins_at.is_some() && !begun => Begin::Run(Start::Continue),
        RunInput::Start { .. } | RunInput::Command(_) | RunInput::Continue => Begin::Run(resumed()),
    })
}

/// Returns `true` if a command does more than answer, or if the thread has a state.
async fn applies(run: &ClaimedRun, command: &RunCommand) -> Result<bool, RuntimeError> {
    Ok(!command.only_answers() || !run.is_new().await?)
}
