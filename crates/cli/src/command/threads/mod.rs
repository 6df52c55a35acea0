//! `weft threads`: lists, shows, resumes, checks and deletes threads.

mod check;
mod delete;
pub(crate) mod journal;
mod list;
mod prune;
mod resume;
mod show;

use crate::CliError;
use crate::args::Threads;
use crate::exit::Exit;
use crate::house::House;
pub(super) use list::word;
use weftwork::types::ThreadId;

pub(crate) async fn threads(command: Threads, house: &House) -> Result<Exit, CliError> {
    match command {
        Threads::List(args) => list::list(args, house).await,
        Threads::Show { id } => show::show(&ThreadId::new(id)?, house).await,
        Threads::State { id } => show::state(&ThreadId::new(id)?, house).await,
        Threads::Journal { id, json } => journal::journal(&ThreadId::new(id)?, json, house).await,
        Threads::Check { against, all, json } => {
            check::check(against.as_deref(), all, json, house).await
        }
        Threads::Resume(args) => Box::pin(resume::resume(&args, house)).await,
        Threads::Prune(args) => Box::pin(prune::prune(&args, house)).await,
        Threads::Delete { id, yes } => delete::delete(&ThreadId::new(id)?, yes, house).await,
    }
}
