//! Runs of commands: their input, their display and their open questions.

use crate::CliError;
use crate::context::CommandContext;
use crate::error::report_fault;
use crate::exit::Exit;
use crate::follow::{Ended, View, follow_run, model_of, tell_end};
use crate::question;
use crate::signals::Signals;
use crate::terminal::{Answer, Terminal};
use serde_json::{Value, json};
use weftwork::App;
use weftwork::runtime::{Selection, StartedRun};
use weftwork::types::Principal;
use weftwork::types::message::Message;
use weftwork::types::run::{RunRef, RunStatus};

/// Returns the input with a message of the user. A repeated request has the same message.
pub fn input_of(app: &App, text: &str, key: Option<&str>) -> Value {
    match key {
        Some(key) => json!({"messages": [Message::user_of_request(text, key)]}),
        None => app.say(text),
    }
}

/// Prints a note if a run is queued, since it has no events until it starts.
pub async fn tell_turn(app: &App, run: &RunRef, terminal: &Terminal) -> Result<(), CliError> {
    let row = app.store().run(&Principal::local(), run).await?;
    if row.status == RunStatus::Queued {
        terminal.note("the thread is busy; the run is queued");
    }
    Ok(())
}

/// Shows a run until its end, as text, as JSON, or as frames with or without the outcome, then its
/// open questions.
pub async fn to_end(
    started: StartedRun,
    app: &App,
    context: &CommandContext,
    frames: Option<Selection>,
    json: bool,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let run = started.run().clone();
    tell_turn(app, &run, terminal).await?;
    let mut view = match (frames, json) {
        (None, false) => View::Text(Box::new(Answer::new(terminal, model_of(app)))),
        (frames, outcome) => View::Json { terminal, frames, outcome },
    };
    let ended = follow_run(app, started, &mut view, &mut Signals::listen()).await?;
    let Ended { outcome, unwritten } = ended;
    let exit = tell_end(app.store().as_ref(), &run, &outcome, terminal).await;
    if exit == Exit::Waiting {
        let open = question::open_questions_of(app.store().as_ref(), &run.thread).await?;
        question::tell_open(&open, &run.thread, terminal);
    }
    match unwritten {
        // A reader that left wanted no more.
        None | Some(CliError::NobodyReads) => Ok(exit),
        Some(error) if exit == Exit::Done => Err(error),
        Some(error) => {
            report_fault(&error.fault(), terminal);
            Ok(exit)
        }
    }
}
