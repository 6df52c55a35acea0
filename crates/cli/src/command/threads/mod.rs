//! `weft threads`: lists, shows, resumes, forks, checks and deletes threads.

mod check;
mod delete;
mod fork;
pub(crate) mod journal;
mod list;
mod prune;
mod resume;
mod show;

use crate::CliError;
use crate::args::Threads;
use crate::context::CommandContext;
use crate::exit::Exit;
pub(super) use list::word;
use weftwork::types::ThreadId;

pub(crate) async fn threads(command: Threads, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Threads::List(args) => list::list(args, context).await,
        Threads::Show { id } => show::show(&ThreadId::new(id)?, context).await,
        Threads::State { id } => show::state(&ThreadId::new(id)?, context).await,
        Threads::Journal { id, json } => journal::journal(&ThreadId::new(id)?, json, context).await,
        Threads::Check { against, all, json } => {
            check::check(against.as_deref(), all, json, context).await
        }
        Threads::Resume(args) => Box::pin(resume::resume(&args, context)).await,
        Threads::Fork { id, new, at } => {
            fork::fork(&ThreadId::new(id)?, &ThreadId::new(new)?, at, context).await
        }
        Threads::Prune(args) => Box::pin(prune::prune(&args, context)).await,
        Threads::Delete { id, yes } => delete::delete(&ThreadId::new(id)?, yes, context).await,
    }
}
