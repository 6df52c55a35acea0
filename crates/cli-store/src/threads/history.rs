//! `weft threads history`: lists the checkpoints of a thread.

use super::open_for_reading;
use crate::args::History;
use weftwork::graph::HistoryFilter;
use weftwork::runtime::thread_history;
use weftwork::types::{Principal, RunId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::snapshot::{snapshot_to_json, source_word};
use weftwork_cli_base::terminal::Table;

pub(super) async fn history(args: &History, context: &CommandContext) -> Result<Exit, CliError> {
    let id = ThreadId::new(&args.id)?;
    let (graph, store) = open_for_reading(&id, context).await?;
    let filter = HistoryFilter {
        before: args.before,
        limit: args.limit.get(),
        source: args.source,
        step: args.step,
        run: args.run.as_deref().map(RunId::new).transpose()?,
        metadata: args.metadata.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect(),
    };
    let found = thread_history(&graph, &store, &Principal::local(), &id, &filter).await?;
    if args.json {
        for found in &found {
            context.terminal.line(snapshot_to_json(found))?;
        }
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        context.terminal.note(format_args!("thread {id} has no such checkpoints"));
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["CHECKPOINT", "STEP", "SOURCE", "DUE", "ASKS", "PARENT"]);
    for found in found {
        let place = |config: Option<weftwork::graph::CheckpointRef>| {
            config.and_then(|config| config.id).map(|id| id.to_string()).unwrap_or_default()
        };
        let metadata = found.metadata.unwrap_or_default();
        table.row([
            place(found.config),
            metadata.step.to_string(),
            source_word(metadata.source).to_owned(),
            found.next.join(","),
            found.interrupts.len().to_string(),
            place(found.parent),
        ]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}
