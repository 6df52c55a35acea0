//! `weft runs show`: shows a run.

use super::find_run;
use serde_json::{Value, json};
use weftwork::store::{RunRow, Store};
use weftwork::types::run::{RunInput, RunOutcome, RunStatus};
use weftwork::types::{Principal, RunId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::question;
use weftwork_cli_base::shell;
use weftwork_cli_base::states::{NOT_FINISHED, state_of, with_orphans};
use weftwork_cli_base::terminal::{Style, Terminal, format_moment, shorten, to_plain};

/// Maximum length of a displayed value, in characters.
const VALUE_CHARS_MAX: usize = 400;

pub(super) async fn show(
    id: &RunId,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let (store, row) = find_run(id, context).await?;
    if json {
        context.terminal.line(json!(row))?;
        return Ok(Exit::Done);
    }
    let terminal = &context.terminal;
    terminal.line(terminal.paint(Style::Strong, format_args!("run {id}")))?;
    let unfinished = !row.status.is_final();
    let is_left = unfinished && with_orphans(store.as_ref()).await?.contains(&row.new.at.thread);
    write_request(&row, terminal)?;
    let questions = store.interrupts(&Principal::local(), &row.new.at.thread).await?;
    let status = match row.status {
        RunStatus::Running if is_left => NOT_FINISHED,
        _ => state_of(&row, &questions),
    };
    write_field("status", status, terminal)?;
    write_progress(&row, terminal)?;
    write_next_steps(&row, is_left, store.as_ref(), terminal).await?;
    Ok(Exit::Done)
}

fn write_field(
    name: &str,
    value: impl std::fmt::Display,
    terminal: &Terminal,
) -> Result<(), CliError> {
    terminal.line(format_args!("{name:<9}{value}"))
}

/// Prints the request: thread, agent, input, and the options that were set.
fn write_request(row: &RunRow, terminal: &Terminal) -> Result<(), CliError> {
    write_field("thread", &row.new.at.thread, terminal)?;
    write_field("agent", &row.new.graph, terminal)?;
    if let Some(model) = &row.new.options.model {
        write_field("model", to_plain(model), terminal)?;
    }
    write_field("created", format_args!("{} UTC", format_moment(row.new.created_at)), terminal)?;
    let input = match &row.new.input {
        RunInput::Start { input } => shorten(&input.to_string(), VALUE_CHARS_MAX),
        RunInput::Command(command) => shorten(&json!(command).to_string(), VALUE_CHARS_MAX),
        RunInput::Continue => "none; continues the thread".to_owned(),
        RunInput::Update { writes, as_node } => {
            let node = as_node.as_deref().unwrap_or("the last node");
            shorten(&format!("update as {node}: {writes}"), VALUE_CHARS_MAX)
        }
    };
    write_field("input", input, terminal)?;
    let mut options = json!(row.new.options);
    if let Value::Object(members) = &mut options {
        members.remove("model");
        if !members.is_empty() {
            write_field("options", shorten(&options.to_string(), VALUE_CHARS_MAX), terminal)?;
        }
    }
    Ok(())
}

/// Prints the worker, the end and the failure of a run.
fn write_progress(row: &RunRow, terminal: &Terminal) -> Result<(), CliError> {
    if let Some(worker) = &row.worker {
        let claims = row.fence;
        write_field("worker", format_args!("{worker}, claim {claims}"), terminal)?;
    }
    if let Some(at) = row.ended_at {
        write_field("ended", format_args!("{} UTC", format_moment(at)), terminal)?;
    }
    if row.cancel_requested && !row.status.is_final() {
        write_field("cancel", "requested", terminal)?;
    }
    match &row.outcome {
        Some(RunOutcome::Failed { fault }) => {
            let message = shorten(&fault.message, VALUE_CHARS_MAX);
            write_field("error", format_args!("{} {message}", to_plain(&fault.code)), terminal)
        }
        _ => Ok(()),
    }
}

/// Prints the open questions at which a run ended, and the commands that apply to it.
async fn write_next_steps(
    row: &RunRow,
    is_left: bool,
    store: &dyn Store,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let run = &row.new.at.run;
    let thread = &row.new.at.thread;
    let weft = &terminal.weft;
    if let Some(RunOutcome::Interrupted { interrupts, .. }) = &row.outcome {
        let open = question::open_questions_of(store, thread).await?;
        for interrupt in open.iter().filter(|open| interrupts.contains(&open.id)) {
            question::question_lines(interrupt, terminal)
                .iter()
                .try_for_each(|line| terminal.line(line))?;
            terminal.line(format_args!(
                "  answer with: {}",
                question::how_to_answer(interrupt, &open, thread, weft)
            ))?;
        }
    }
    if !row.status.is_final() {
        if is_left {
            terminal.line(format_args!(
                "  no process executes it: {weft} threads resume {}, or start {weft} worker",
                shell::quote_thread(thread)
            ))?;
        }
        terminal.line(format_args!("  watch it: {weft} runs watch {run}"))?;
        terminal.line(format_args!("  cancel it: {weft} runs cancel {run}"))?;
    }
    Ok(())
}
