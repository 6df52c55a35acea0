use super::super::runs::end_all;
use crate::CliError;
use crate::exit::Exit;
use crate::house::House;
use crate::input::one_line;
use weftwork::store::{WriteCheckpoints, WriteThreads};
use weftwork::types::{Principal, ThreadId};

pub(crate) async fn delete(id: &ThreadId, yes: bool, house: &House) -> Result<Exit, CliError> {
    let (store, screen) = (house.store_of(id)?, &house.screen);
    let found = house.thread(store.as_ref(), id).await?;
    if !yes {
        let what = format!("deleting thread `{id}` with its runs, journal and questions");
        if !screen.typed {
            return Err(CliError::NotConfirmed { what });
        }
        screen.piece(format_args!("{what} cannot be undone. Delete it? [y/n] "))?;
        if !matches!(one_line()?.trim().to_lowercase().as_str(), "y" | "yes") {
            screen.note("nothing was deleted");
            return Ok(Exit::Cancelled);
        }
    }
    let who = Principal::local();
    end_all(store.as_ref(), &found.runs).await?;
    WriteThreads::delete_thread(store.as_ref(), &who, id).await?;
    // Long texts lie apart from their threads, since several may speak of one.
    WriteCheckpoints::collect_blobs(store.as_ref(), &who).await?;
    screen.note(format_args!("deleted thread {id}"));
    Ok(Exit::Done)
}
