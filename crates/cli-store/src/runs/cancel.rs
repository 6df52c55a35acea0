//! `weft runs cancel`: cancels a run, in whichever process it is executed.

use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::store::{Store, StoreError, cancel_orphan, invariants};
use weftwork::types::port::Clock;
use weftwork::types::run::{CancelAction, RunOutcome, RunRef};
use weftwork::types::{Principal, RunId, WorkerId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::signals::Signals;
use weftwork_cli_base::states::status_word;

/// Interval for polling the status of a run in another process.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Cancels a run: directly if no live process executes it, else by a request to its process.
pub(super) async fn cancel(id: &RunId, context: &CommandContext) -> Result<Exit, CliError> {
    if context.is_new() {
        return Err(invariants::missing("run", id).into());
    }
    let store = context.store_there()?;
    let who = Principal::local();
    let terminal = &context.terminal;
    let row = store.find_run(&who, id).await?;
    let at = row.new.at;
    if row.status.is_final() {
        terminal.note(format_args!("run {id} has already ended: {}", status_word(row.status)));
        return Ok(Exit::Done);
    }
    let before = match end_orphan(store.as_ref(), &at).await {
        Err(CliError::App(weftwork::Error::Store(StoreError::Busy { run, .. }))) => run,
        ended => return tell_ended(store.as_ref(), &at, ended, context).await,
    };
    match store.request_cancel(&who, &at).await {
        Err(StoreError::NotFound { .. }) => {}
        asked => asked?,
    }
    if before == id.as_str() {
        terminal.note(format_args!("requested cancellation of run {id} from its process"));
        return cancel_stopped(store.as_ref(), &at, context).await;
    }
    let orphans = store.orphans(SystemClock::new().now(), usize::MAX).await?;
    terminal.note(match orphans.iter().any(|(_, row)| row.new.at.run.as_str() == before) {
        true => format!(
            "run {id} will be cancelled after run {before}, which no process executes; end that one with: {} runs cancel {before}",
            terminal.weft
        ),
        false => format!("run {id} will be cancelled when run {before}, ahead of it, has ended"),
    });
    Ok(Exit::Done)
}

/// Cancels a run if it has not ended, and takes its thread back to its state before the run. Later
/// runs of the thread are rolled back with it.
pub(super) async fn roll_back(id: &RunId, context: &CommandContext) -> Result<Exit, CliError> {
    let (store, row) = super::find_run(id, context).await?;
    let at = row.new.at;
    let terminal = &context.terminal;
    let runtime = context.reader(&row.new.graph, store).await?;
    let mut signals = Signals::listen();
    let rollback = runtime.cancel_run(&Principal::local(), &at, CancelAction::Rollback).await?;
    let Some(rollback) = rollback else {
        terminal
            .note(format_args!("run {id} of thread {} had not begun; it is cancelled", at.thread));
        return Ok(Exit::Done);
    };
    let run = rollback.run().clone();
    let ended = tokio::select! {
        biased;
        signal = signals.next() => {
            terminal.note(format_args!("run {} rolls it back when it has ended", run.run));
            return Ok(signal.exit());
        }
        ended = rollback.into_future() => ended,
    };
    if let RunOutcome::Failed { fault } = ended.outcome() {
        let reason = format!("run {id} is not rolled back: {}", fault.message);
        return Err(CliError::BadInput { reason });
    }
    terminal.note(format_args!("run {id} of thread {}: rolled back", at.thread));
    Ok(Exit::Done)
}

/// Waits for a run to end after a cancellation request; cancels it here if its process dies.
async fn cancel_stopped(
    store: &dyn Store,
    at: &RunRef,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let mut signals = Signals::listen();
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(signal.exit()),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match end_orphan(store, at).await {
            Err(CliError::App(weftwork::Error::Store(StoreError::Busy { .. }))) => {}
            ended => return tell_ended(store, at, ended, context).await,
        }
    }
}

/// Prints how a run ended.
async fn tell_ended(
    store: &dyn Store,
    at: &RunRef,
    ended: Result<(), CliError>,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    match ended {
        // The run ended before the cancellation.
        Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => {}
        ended => ended?,
    }
    let row = store.run(&Principal::local(), at).await?;
    let run = &at.run;
    let thread = &at.thread;
    context
        .terminal
        .note(format_args!("run {run} of thread {thread}: {}", status_word(row.status)));
    Ok(Exit::Done)
}

/// Ends a run without a live worker as cancelled.
pub(crate) async fn end_orphan(store: &dyn Store, at: &RunRef) -> Result<(), CliError> {
    let us = WorkerId::new("weft-cancels")?;
    Ok(cancel_orphan(store, &Principal::local(), at, &us, SystemClock::new().now()).await?)
}
