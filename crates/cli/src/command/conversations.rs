//! `weft conversations`, `weft tasks`, `weft plans`, `weft deliverables`: what agents that are defined in
//! files have made.

use crate::args::{Conversations, RecordCommand};
use serde_json::{Value, json};
use weftwork::App;
use weftwork::graph::RuntimeError;
use weftwork::types::code::Fault;
use weftwork::types::port::Platform as _;
use weftwork::types::task::{Mode, Payload};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, to_plain};

/// Maximum number of conversations of a list.
const LISTED_MAX: usize = 1_000;

pub(crate) async fn conversations(
    command: Conversations,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let app = open(context).await?;
    let platform = app.platform();
    let who = app.principal();
    let terminal = &context.terminal;
    match command {
        Conversations::List { agent } => {
            let found = platform.conversations(who, agent.as_deref(), None, LISTED_MAX).await;
            let found = found.map_err(failed)?;
            let columns = [("ID", "id"), ("AGENT", "agent"), ("TITLE", "title")];
            table(&found["conversations"], &columns, context)?;
        }
        Conversations::Show { id } => {
            let found = platform.conversation(who, &id, false).await.map_err(failed)?;
            terminal.line(format_args!("{found:#}"))?;
        }
        Conversations::Export { id } => {
            let found = platform.conversation(who, &id, true).await.map_err(failed)?;
            terminal.line(format_args!("{found:#}"))?;
        }
        Conversations::Delete { id, yes } => {
            if !yes {
                let what = format!("the deletion of conversation {id}");
                return Err(CliError::NotConfirmed { what });
            }
            platform.erase(who, &id).await.map_err(failed)?;
            terminal
                .line(format_args!("conversation {id} is deleted, with all that belongs to it"))?;
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn tasks(conversation: &str, context: &CommandContext) -> Result<Exit, CliError> {
    let app = open(context).await?;
    let found = app.platform().conversation(app.principal(), conversation, false).await;
    let found = found.map_err(failed)?;
    let columns = [
        ("ID", "id"),
        ("AGENT", "agent"),
        ("MODE", "mode"),
        ("STATE", "state"),
        ("MESSAGE", "message"),
    ];
    table(&found["tasks"], &columns, context)?;
    Ok(Exit::Done)
}

/// Lists the plans or deliverables of a conversation, or prints the content of one.
pub(crate) async fn records(
    mode: Mode,
    command: RecordCommand,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let app = open(context).await?;
    let RecordCommand { conversation, id, version, json: as_json } = command;
    let action = if id.is_some() { "read" } else { "list" };
    let payload = Payload { action: Some(action.to_owned()), version, ..Payload::default() };
    let is_one = id.is_some();
    let payload = match mode {
        Mode::Plan => Payload { plan_id: id, ..payload },
        _ => Payload { deliverable_id: id, ..payload },
    };
    let answer = app.platform().record(app.principal(), mode, &conversation, &payload).await;
    if let Some(error) = answer.error {
        return Err(CliError::BadInput { reason: error });
    }
    let content = answer.content.unwrap_or_default();
    let terminal = &context.terminal;
    match (is_one, as_json) {
        (_, true) => terminal.line(format_args!("{content:#}"))?,
        (true, false) => {
            terminal.line(to_plain(content["content"].as_str().unwrap_or_default()))?
        }
        (false, false) => {
            let rows = content.as_array().into_iter().flatten().map(|record| {
                let versions = record["versions"].as_array().map_or(&[][..], Vec::as_slice);
                let current = versions.iter().find(|of| of["number"] == record["current"]);
                let current = current.cloned().unwrap_or_default();
                json!({
                    "id": record["id"],
                    "title": current["title"],
                    "current": record["current"],
                    "versions": versions.len(),
                })
            });
            let columns = [
                ("ID", "id"),
                ("TITLE", "title"),
                ("CURRENT", "current"),
                ("VERSIONS", "versions"),
            ];
            table(&rows.collect(), &columns, context)?;
        }
    }
    Ok(Exit::Done)
}

/// Opens the store, which must exist, with all agents.
async fn open(context: &CommandContext) -> Result<App, CliError> {
    context.is_there()?;
    Box::pin(context.open_all("scripted", None)).await
}

fn failed(fault: Fault) -> CliError {
    CliError::App(weftwork::Error::Runtime(RuntimeError::Node(fault)))
}

/// Prints members of objects as a table, with headings for them.
fn table(
    rows: &Value,
    columns: &[(&'static str, &str)],
    context: &CommandContext,
) -> Result<(), CliError> {
    let headings: Vec<&'static str> = columns.iter().map(|(heading, _)| *heading).collect();
    let mut table = Table::new(&headings);
    for row in rows.as_array().into_iter().flatten() {
        let cell = |(_, member): &(&str, &str)| match &row[*member] {
            Value::Null => String::new(),
            Value::String(text) => {
                text.lines().next().unwrap_or_default().chars().take(60).collect()
            }
            other => other.to_string(),
        };
        table.row(columns.iter().map(cell));
    }
    table.write(&context.terminal)
}
