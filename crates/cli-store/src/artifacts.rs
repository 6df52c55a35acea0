//! `weft artifacts`: results of tools that are stored by reference.

use crate::args::Artifacts;
use serde_json::json;
use weftwork::graph::SystemClock;
use weftwork::store::artifact::{self, Artifact, artifact, delete_lapsed};
use weftwork::store::invariants;
use weftwork::types::port::Clock;
use weftwork::types::{Principal, RunId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, format_moment};

pub async fn artifacts(command: Artifacts, context: &CommandContext) -> Result<Exit, CliError> {
    let who = Principal::local();
    let now = SystemClock::new().now();
    match command {
        Artifacts::List { thread, run, json } => {
            let thread = ThreadId::new(thread)?;
            let run = run.map(RunId::new).transpose()?;
            let store = context.store_of(&thread)?;
            store.thread(&who, &thread).await?;
            let mut found = artifact::artifacts(store.as_ref(), &who, &thread, now).await?;
            found.retain(|artifact| run.as_ref().is_none_or(|run| artifact.run == *run));
            list_artifacts(found, json, context)?;
        }
        Artifacts::Get { id } => {
            if context.is_new() {
                return Err(invariants::missing("artifact", &id).into());
            }
            let store = context.store_there()?;
            let found = artifact(store.as_ref(), &who, &id, now).await?;
            context.terminal.line(found.value)?;
        }
        Artifacts::Prune => {
            let store = context.store_there()?;
            let deleted = delete_lapsed(store.as_ref(), &who, now).await?;
            context.terminal.note(format_args!("deleted {deleted} lapsed artifacts"));
        }
    }
    Ok(Exit::Done)
}

fn list_artifacts(
    found: Vec<Artifact>,
    as_json: bool,
    context: &CommandContext,
) -> Result<(), CliError> {
    if !as_json && found.is_empty() {
        context.terminal.note("no artifacts");
        return Ok(());
    }
    let mut table = Table::new(&["ID", "TOOL", "BYTES", "STORED (UTC)", "LAPSES (UTC)"]);
    for artifact in found {
        if as_json {
            let mut line = json!(artifact);
            if let Some(members) = line.as_object_mut() {
                members.remove("value");
            }
            context.terminal.line(line)?;
            continue;
        }
        table.row([
            artifact.id,
            artifact.tool,
            artifact.bytes.to_string(),
            format_moment(artifact.stored_at),
            format_moment(artifact.expires_at),
        ]);
    }
    if as_json { Ok(()) } else { table.write(&context.terminal) }
}
