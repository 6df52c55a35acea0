//! `weft runs`: lists, shows, watches, cancels and requeues runs.

mod cancel;
mod list;
mod requeue;
mod show;
mod watch;

pub(crate) use cancel::end_orphan;

use crate::args::Runs;
use std::sync::Arc;
use weftwork::store::{RunRow, Store, invariants};
use weftwork::types::{Principal, RunId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

pub async fn runs(command: Runs, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Runs::List(args) => list::list(&args, context).await,
        Runs::Show { run, json } => show::show(&RunId::new(run)?, json, context).await,
        Runs::Watch(args) => Box::pin(watch::watch(&args, context)).await,
        Runs::Requeue { run, leave, json } => {
            requeue::requeue(&RunId::new(run)?, leave, json, context).await
        }
        Runs::Cancel { run, rollback: true } => cancel::roll_back(&RunId::new(run)?, context).await,
        Runs::Cancel { run, rollback: false } => cancel::cancel(&RunId::new(run)?, context).await,
    }
}

/// Opens the store and reads a run by its id, without creating files.
async fn find_run(
    id: &RunId,
    context: &CommandContext,
) -> Result<(Arc<dyn Store>, RunRow), CliError> {
    if context.is_new() {
        return Err(invariants::missing("run", id).into());
    }
    let store = context.store_there()?;
    let row = store.find_run(&Principal::local(), id).await?;
    Ok((store, row))
}
