//! `weft threads`: lists, shows, changes, resumes, forks, checks and deletes threads.

mod check;
mod delete;
mod fork;
mod hashes;
mod history;
pub(crate) mod journal;
mod list;
mod prune;
mod resume;
mod show;
mod state;
mod update;

use crate::args::Threads;
use std::sync::Arc;
use weftwork::graph::CompiledGraph;
use weftwork::store::Store;
use weftwork::types::ThreadId;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

pub async fn threads(command: Threads, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Threads::List(args) => list::list(args, context).await,
        Threads::Show { id } => show::show(&ThreadId::new(id)?, context).await,
        Threads::State(args) => state::state(&args, context).await,
        Threads::History(args) => history::history(&args, context).await,
        Threads::Update(args) => Box::pin(update::update(args, context)).await,
        Threads::Journal { id, json, hashes: true } => {
            hashes::hashes(&ThreadId::new(id)?, json, context).await
        }
        Threads::Journal { id, json, hashes: false } => {
            journal::journal(&ThreadId::new(id)?, json, context).await
        }
        Threads::Check { against, all, json } => {
            check::check(against.as_deref(), all, json, context).await
        }
        Threads::Resume(args) => Box::pin(resume::resume(&args, context)).await,
        Threads::Fork { id, new, at } => {
            fork::fork(&ThreadId::new(id)?, &ThreadId::new(new)?, at, context).await
        }
        Threads::Copy { id, new } => {
            fork::copy(&ThreadId::new(id)?, &ThreadId::new(new)?, context).await
        }
        Threads::Prune(args) => Box::pin(prune::prune(&args, context)).await,
        Threads::Delete(args) => delete::delete(&args, context).await,
    }
}

/// Returns the graph of a thread, and its store.
async fn open_for_reading(
    id: &ThreadId,
    context: &CommandContext,
) -> Result<(CompiledGraph, Arc<dyn Store>), CliError> {
    let store = context.store_of(id)?;
    let found = context.thread(store.as_ref(), id).await?;
    Ok((context.graph_of(found.graph())?, store))
}
