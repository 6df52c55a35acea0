use crate::CliError;
use crate::exit::Exit;
use crate::house::House;
use weftwork::graph::SystemClock;
use weftwork::runtime::fork_thread;
use weftwork::types::port::Clock;
use weftwork::types::{CheckpointId, Principal, ThreadId};

pub(crate) async fn fork(
    id: &ThreadId,
    new: &ThreadId,
    at: Option<CheckpointId>,
    house: &House,
) -> Result<Exit, CliError> {
    let store = house.store_of(id)?;
    house.thread(store.as_ref(), id).await?;
    let now = SystemClock::new().now();
    let forked = fork_thread(store.as_ref(), &Principal::local(), (id, at), new, now).await;
    forked.map_err(weftwork::Error::from)?;
    house.screen.note(format_args!("created thread {new} from {id}"));
    Ok(Exit::Done)
}
