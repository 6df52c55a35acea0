//! `weft runs show`: shows a run.

use super::super::question;
use super::super::threads::{NOT_FINISHED, state_of, with_orphans};
use super::find;
use crate::CliError;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::shell;
use crate::terminal::{Style, Terminal, moment, plain, short};
use serde_json::{Value, json};
use weftwork::store::{RunRow, Store};
use weftwork::types::RunId;
use weftwork::types::run::{RunInput, RunOutcome, RunStatus};

/// Maximum length of a displayed value, in characters.
const VALUE_CHARS_MAX: usize = 400;

pub(super) async fn show(
    id: &RunId,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let (store, row) = find(id, context).await?;
    if json {
        context.terminal.line(json!(row))?;
        return Ok(Exit::Done);
    }
    let terminal = &context.terminal;
    terminal.line(terminal.paint(Style::Strong, format_args!("run {id}")))?;
    let unfinished = !row.status.is_final();
    let is_left = unfinished && with_orphans(store.as_ref()).await?.contains(&row.new.at.thread);
    request(&row, terminal)?;
    let status = match row.status {
        RunStatus::Running if is_left => NOT_FINISHED,
        _ => state_of(&row),
    };
    field("status", status, terminal)?;
    progress(&row, terminal)?;
    next(&row, is_left, store.as_ref(), terminal).await?;
    Ok(Exit::Done)
}

fn field(name: &str, value: impl std::fmt::Display, terminal: &Terminal) -> Result<(), CliError> {
    terminal.line(format_args!("{name:<9}{value}"))
}

/// Prints the request: thread, agent, input, and the options that were set.
fn request(row: &RunRow, terminal: &Terminal) -> Result<(), CliError> {
    field("thread", &row.new.at.thread, terminal)?;
    field("agent", &row.new.graph, terminal)?;
    if let Some(model) = &row.new.options.model {
        field("model", plain(model), terminal)?;
    }
    field("created", format_args!("{} UTC", moment(row.new.created_at)), terminal)?;
    let input = match &row.new.input {
        RunInput::Start { input } => short(&input.to_string(), VALUE_CHARS_MAX),
        RunInput::Command(command) => short(&json!(command).to_string(), VALUE_CHARS_MAX),
        RunInput::Continue => "none; continues the thread".to_owned(),
        RunInput::Update { writes, as_node } => {
            let node = as_node.as_deref().unwrap_or("the last node");
            short(&format!("update as {node}: {writes}"), VALUE_CHARS_MAX)
        }
    };
    field("input", input, terminal)?;
    let mut options = json!(row.new.options);
    if let Value::Object(members) = &mut options {
        members.remove("model");
        if !members.is_empty() {
            field("options", short(&options.to_string(), VALUE_CHARS_MAX), terminal)?;
        }
    }
    Ok(())
}

/// Prints the worker, the end and the failure of a run.
fn progress(row: &RunRow, terminal: &Terminal) -> Result<(), CliError> {
    if let Some(worker) = &row.worker {
        let claims = row.fence;
        field("worker", format_args!("{worker}, claim {claims}"), terminal)?;
    }
    if let Some(at) = row.ended_at {
        field("ended", format_args!("{} UTC", moment(at)), terminal)?;
    }
    if row.cancel_requested && !row.status.is_final() {
        field("cancel", "requested", terminal)?;
    }
    match &row.outcome {
        Some(RunOutcome::Failed { fault }) => {
            let message = short(&fault.message, VALUE_CHARS_MAX);
            field("error", format_args!("{} {message}", plain(&fault.code)), terminal)
        }
        _ => Ok(()),
    }
}

/// Prints the open questions at which a run ended, and the commands that apply to it.
async fn next(
    row: &RunRow,
    is_left: bool,
    store: &dyn Store,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let run = &row.new.at.run;
    let thread = &row.new.at.thread;
    let weft = &terminal.weft;
    if let Some(RunOutcome::Interrupted { interrupts, .. }) = &row.outcome {
        let open = question::open(store, thread).await?;
        for interrupt in open.iter().filter(|open| interrupts.contains(&open.id)) {
            question::lines(interrupt, terminal).iter().try_for_each(|line| terminal.line(line))?;
            terminal.line(format_args!(
                "  answer with: {}",
                question::how(interrupt, &open, thread, weft)
            ))?;
        }
    }
    if !row.status.is_final() {
        if is_left {
            terminal.line(format_args!(
                "  no process executes it: {weft} threads resume {}, or start {weft} worker",
                shell::thread(thread)
            ))?;
        }
        terminal.line(format_args!("  watch it: {weft} runs watch {run}"))?;
        terminal.line(format_args!("  cancel it: {weft} runs cancel {run}"))?;
    }
    Ok(())
}
