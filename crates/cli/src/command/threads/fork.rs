//! `weft threads fork` and `weft threads copy`: create a thread from another one.

use crate::CliError;
use crate::context::CommandContext;
use crate::exit::Exit;
use weftwork::graph::SystemClock;
use weftwork::runtime::fork_thread;
use weftwork::types::port::Clock;
use weftwork::types::{CheckpointId, Principal, ThreadId};

pub(crate) async fn fork(
    id: &ThreadId,
    new: &ThreadId,
    at: Option<CheckpointId>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    context.thread(store.as_ref(), id).await?;
    let now = SystemClock::new().now();
    let forked = fork_thread(store.as_ref(), &Principal::local(), (id, at), new, now).await;
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
    let graph = context.thread(store.as_ref(), id).await?.graph().to_owned();
    let runtime = context.reader(&graph, store).await?;
    let thread = runtime.thread(context.agent(&graph)?.id(), id.as_str())?;
    thread.copy(new.as_str()).await?;
    context.terminal.note(format_args!("created thread {new} from {id}"));
    Ok(Exit::Done)
}
