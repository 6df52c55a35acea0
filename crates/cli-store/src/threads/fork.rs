//! `weft threads fork` and `weft threads copy`: create a thread from another one.

use weftwork::graph::SystemClock;
use weftwork::runtime::{ForkSource, copy_thread, fork_thread};
use weftwork::types::port::Clock;
use weftwork::types::{CheckpointId, Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

pub(crate) async fn fork(
    id: &ThreadId,
    new: &ThreadId,
    at: Option<CheckpointId>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    context.thread(store.as_ref(), id).await?;
    let now = SystemClock::new().now();
    let from = ForkSource { thread: id, checkpoint: at };
    let forked = fork_thread(store.as_ref(), &Principal::local(), from, new, now).await;
    forked.map_err(weftwork::Error::from)?;
    context.terminal.note(format_args!("created thread {new} from {id}"));
    Ok(Exit::Done)
}

pub(super) async fn copy(
    id: &ThreadId,
    new: &ThreadId,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    let clock = SystemClock::new();
    let copied = copy_thread(store.as_ref(), &Principal::local(), id, new, &clock).await;
    copied.map_err(weftwork::Error::from)?;
    context.terminal.note(format_args!("created thread {new} from {id}"));
    Ok(Exit::Done)
}
