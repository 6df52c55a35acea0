//! `weft run`: one non-interactive run.

use super::question;
use crate::CliError;
use crate::args::Run;
use crate::context::{CommandContext, RunSettings};
use crate::error::report_fault;
use crate::exit::Exit;
use crate::follow::{Ended, View, follow_run, model_of, tell_end};
use crate::signals::Signals;
use crate::terminal::{Answer, Terminal};
use serde_json::{Value, json};
use std::io::Read;
use uuid::Uuid;
use weftwork::App;
use weftwork::runtime::Selection;
use weftwork::store::StoreError;
use weftwork::types::canonical;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::json;
use weftwork::types::port::RunHandle;
use weftwork::types::run::{RunInput, RunOptions, RunRef, RunStatus};
use weftwork::types::{Principal, ThreadId};

/// Maximum size of the input, in bytes.
const INPUT_BYTES_MAX: u64 = 16 << 20;

pub(crate) async fn run(args: &Run, context: &CommandContext) -> Result<Exit, CliError> {
    let agent = context.agent(&args.agent)?;
    let named = args.thread.as_deref().map(ThreadId::new).transpose()?;
    let text =
        read_input(args.input.as_deref().or(args.input_json.as_deref()).unwrap_or_default())?;
    let json = args.input_json.is_some().then(|| parse_object(&text)).transpose()?;
    let settings =
        RunSettings { durability: args.keeping.durability(), multitask: args.busy.multitask() };
    let app = context.open(agent, None, None, settings).await?;
    let key = args.options.idempotency_key.as_deref();
    let thread = named.unwrap_or_else(|| thread_of(&app, key));
    context.terminal.note(format_args!("thread {thread}"));
    let input = json.unwrap_or_else(|| input_of(&app, &text, key));
    let before = open_questions_of(&app, &thread).await?;
    let options = args.options.apply(RunOptions {
        model: Some(app.model_setting().value.clone()),
        durability: settings.durability,
        multitask: settings.multitask,
        ..RunOptions::default()
    });
    let run = app.runtime().thread(agent.id(), thread.as_str())?.start(RunInput::Start { input });
    let run = run.options(options);
    let run = match args.options.limits.deadline {
        Some(limit) => run.deadline(limit),
        None => run,
    };
    let handle = run.begin().await?;
    let exit = to_end(handle, &app, context, args.frames.options(), args.json).await?;
    if !before.is_empty() {
        // A read error here must not change the exit status of the run.
        let open = open_questions_of(&app, &thread).await.unwrap_or_else(|_| before.clone());
        let closed = before.iter().filter(|one| open.iter().all(|other| other.id != one.id));
        for interrupt in closed {
            let terminal = &context.terminal;
            terminal.note("the input replaced this open question:");
            question::question_lines(interrupt, terminal)
                .iter()
                .for_each(|line| terminal.note(line));
        }
    }
    Ok(exit)
}

/// Returns a new thread, and the same one for a repeated request.
fn thread_of(app: &App, key: Option<&str>) -> ThreadId {
    let repeated = |key| ThreadId::from_uuid(Uuid::from_u128(canonical::first_128(key)));
    key.map_or_else(|| app.new_thread(), repeated)
}

/// Returns the input with a message of the user. A repeated request has the same message.
pub(super) fn input_of(app: &App, text: &str, key: Option<&str>) -> Value {
    let mut input = app.say(text);
    if let Some(key) = key {
        input["messages"][0]["id"] = json!(canonical::hash(&json!(key)));
    }
    input
}

/// Reads the open questions of a thread, none if the thread does not exist.
async fn open_questions_of(app: &App, thread: &ThreadId) -> Result<Vec<Interrupt>, CliError> {
    match question::open_questions_of(app.store().as_ref(), thread).await {
        Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => Ok(Vec::new()),
        open => open,
    }
}

/// Prints a note if a run is queued, since it has no events until it starts.
pub(crate) async fn tell_turn(
    app: &App,
    run: &RunRef,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let row = app.store().run(&Principal::local(), run).await?;
    if row.status == RunStatus::Queued {
        terminal.note("the thread is busy; the run is queued");
    }
    Ok(())
}

/// Shows a run until its end, as text, as JSON, or as frames with or without the outcome, then its
/// open questions.
pub(crate) async fn to_end(
    handle: RunHandle,
    app: &App,
    context: &CommandContext,
    frames: Option<Selection>,
    json: bool,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let run = handle.run.clone();
    tell_turn(app, &run, terminal).await?;
    let mut view = match (frames, json) {
        (None, false) => View::Text(Box::new(Answer::new(terminal, model_of(app)))),
        (frames, outcome) => View::Json { terminal, frames, outcome },
    };
    let ended = follow_run(app, handle, &mut view, &mut Signals::listen()).await?;
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

/// Returns the given text, or all of standard input for `-`.
fn read_input(given: &str) -> Result<String, CliError> {
    let bad = |reason: String| CliError::BadInput { reason };
    let text = if given == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| CliError::Input(error.to_string()))?;
        if bytes.len() as u64 > INPUT_BYTES_MAX {
            return Err(bad(format!("more than {INPUT_BYTES_MAX} bytes")));
        }
        String::from_utf8(bytes).map_err(|error| bad(format!("not UTF-8: {error}")))?
    } else {
        given.to_owned()
    };
    if text.trim().is_empty() {
        return Err(bad("empty, expected a message for the agent".to_owned()));
    }
    Ok(text)
}

fn parse_object(text: &str) -> Result<Value, CliError> {
    let bad = |reason: String| CliError::BadInput { reason };
    let value: Value = json::read(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad(
            "expected a JSON object of channel values, such as {\"messages\": [...]}".to_owned()
        ));
    }
    Ok(value)
}
