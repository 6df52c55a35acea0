//! `weft runs requeue`: executes a failed run again.

use weftwork::graph::SystemClock;
use weftwork::types::port::Clock;
use weftwork::types::run::{Durability, Multitask};
use weftwork::types::{Principal, RunId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::run::to_end;

/// Requeues a failed run, and executes it here unless `leave` is set.
pub(super) async fn requeue(
    id: &RunId,
    leave: bool,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_there()?;
    let who = Principal::local();
    let at = store.find_run(&who, id).await?.new.at;
    let found = context.thread(store.as_ref(), &at.thread).await?;
    if leave {
        store.requeue(&who, &at, SystemClock::new().now()).await?;
        let thread = &at.thread;
        context.terminal.note(format_args!("requeued run {id} of thread {thread} for a worker"));
        return Ok(Exit::Done);
    }
    let agent = context.agent(found.graph())?;
    let settings = RunSettings { durability: Durability::Sync, multitask: Multitask::Reject };
    let app = context.open(&agent, Some(store), found.model(), settings).await?;
    let started = app.requeue(&at).await?;
    context.terminal.note(format_args!("thread {}", at.thread));
    to_end(started, &app, context, None, json).await
}
