//! `weft runs watch`: prints the events of a run, or its frames in stream modes, in whichever process it is executed.

use super::find_run;
use crate::args::{After, Watch};
use futures_util::StreamExt;
use serde::Serialize;
use weftwork::runtime::{Runtime, StartedRun};
use weftwork::store::{RunRow, Store, StoreError};
use weftwork::types::event::{Position, RunEvent};
use weftwork::types::port::RunHandle;
use weftwork::types::run::{RunOutcome, RunRef};
use weftwork::types::{Principal, RunId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::{Last, tell_end, to_json_line, usage_unread};
use weftwork_cli_base::frames::frame_to_json;
use weftwork_cli_base::position;
use weftwork_cli_base::question;
use weftwork_cli_base::shell;
use weftwork_cli_base::signals::{Signal, Signals};
use weftwork_cli_base::spent::Spent;
use weftwork_cli_base::states::with_orphans;
use weftwork_cli_base::terminal::{Terminal, summarize_event};

/// An event with its position in text form.
#[derive(Debug, Serialize)]
struct EventLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    #[serde(flatten)]
    event: &'a RunEvent,
}

/// Prints the events of a run. The run continues if the reader of standard output leaves.
pub(super) async fn watch(args: &Watch, context: &CommandContext) -> Result<Exit, CliError> {
    Box::pin(print_all(args, context)).await.map_err(CliError::of_unfinished)
}

async fn print_all(args: &Watch, context: &CommandContext) -> Result<Exit, CliError> {
    let id = RunId::new(&args.run)?;
    let (store, row) = find_run(&id, context).await?;
    let terminal = &context.terminal;
    let thread = &row.new.at.thread;
    let weft = &terminal.weft;
    let runtime = context.reader(&row.new.graph, store.clone()).await?;
    if !row.status.is_final() && with_orphans(store.as_ref()).await?.contains(thread) {
        terminal.note(format_args!(
            "no process executes the run; continue it with: {weft} threads resume {}, or {weft} worker",
            shell::quote_thread(thread)
        ));
    }
    let mut signals = Signals::listen();
    let run = runtime.follow_run(&Principal::local(), &row.new.at).await?;
    let mut at = match (args.frames.options(), args.after) {
        (Some(select), after) => {
            let after = match after {
                None => Position::START,
                Some(After::Frame(after)) => after,
                Some(After::Event(_)) => return Err(wrong_position("a frame, such as 12-3")),
            };
            let mut run = run.after(after.into()).select(select);
            if let Some(signal) = print_frames(&mut run, after, &mut signals, terminal).await? {
                return Ok(signal.exit());
            }
            return print_end(&runtime, &row, run.await.outcome(), args.json, terminal).await;
        }
        (None, None) => Position::START,
        (None, Some(After::Event(after))) => after,
        (None, Some(After::Frame(_))) => return Err(wrong_position("an event, such as 12")),
    };
    let RunHandle { run, mut events, outcome } = run.after(at.into()).into_handle();
    if row.status.is_final() && is_after_end(store.as_ref(), &run, at).await? {
        events = futures_util::stream::empty().boxed();
    }
    loop {
        let event = tokio::select! {
            biased;
            signal = signals.next() => {
                let after = position::show(at);
                terminal.note(format_args!(
                    "the run continues; watch it again with: {weft} runs watch {id} --after {after}"
                ));
                return Ok(signal.exit());
            }
            event = events.next() => event,
        };
        let Some(event) = event else { break };
        at = event.position().unwrap_or(at);
        print_event(&event, args.json, terminal)?;
    }
    print_end(&runtime, &row, &outcome.await, args.json, terminal).await
}

/// Prints the frames of a run, up to the signal that stopped the command.
async fn print_frames(
    run: &mut StartedRun,
    mut at: Position,
    signals: &mut Signals,
    terminal: &Terminal,
) -> Result<Option<Signal>, CliError> {
    loop {
        let next = tokio::select! {
            biased;
            signal = signals.next() => {
                terminal.note(format_args!(
                    "the run continues; watch it again with the same modes and --after {at}"
                ));
                return Ok(Some(signal));
            }
            next = run.next() => next.transpose()?,
        };
        let Some(next) = next else { return Ok(None) };
        let Some(found) = next.into_frame() else { continue };
        at = found.position;
        terminal.line(frame_to_json(&found))?;
    }
}

/// Prints the end of a run.
async fn print_end(
    runtime: &Runtime,
    row: &RunRow,
    outcome: &RunOutcome,
    as_json: bool,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let run = &row.new.at;
    let thread = &row.new.at.thread;
    let store = runtime.store().as_ref();
    if as_json {
        let model = row.new.options.model.clone();
        // The outcome is reported even if the usage cannot be read.
        let spent = Spent::read(runtime, run).await.unwrap_or_else(|error| {
            terminal.note(usage_unread(&error));
            None
        });
        let last = Last::new(run, model, None, outcome).used(spent.map(|spent| spent.used));
        terminal.line(to_json_line(&last)?)?;
    }
    let exit = tell_end(store, run, outcome, terminal).await;
    if exit == Exit::Waiting {
        let open = question::open_questions_of(store, thread).await?;
        let asked = outcome.questions();
        let open: Vec<_> =
            open.into_iter().filter(|open| asked.iter().any(|one| one.id == open.id)).collect();
        question::tell_open(&open, thread, terminal);
    }
    Ok(exit)
}

fn wrong_position(expected: &str) -> CliError {
    CliError::BadInput { reason: format!("--after expects the position of {expected}") }
}

/// Returns `true` if a run that has ended has no event after a position.
async fn is_after_end(store: &dyn Store, run: &RunRef, at: Position) -> Result<bool, CliError> {
    match store.events(&Principal::local(), run, at.seq, 1).await {
        Ok(events) => Ok(events.is_empty()),
        Err(StoreError::Dropped { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn print_event(event: &RunEvent, as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let position = event.position().map(position::show);
    if as_json {
        return terminal.line(to_json_line(&EventLine { position, event })?);
    }
    let position = position.as_deref().unwrap_or("-");
    terminal.line(format_args!("{position:<8} {}", summarize_event(event)))
}
