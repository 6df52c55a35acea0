//! `weft runs`: runs by themselves.

use super::run::to_end;
use super::threads::word;
use crate::CliError;
use crate::args::Runs;
use crate::exit::Exit;
use crate::house::House;
use crate::input::Interrupts;
use std::time::Duration;
use weftwork::graph::SystemClock;
use weftwork::store::{RunRow, Store, StoreError, cancel_orphan};
use weftwork::types::port::Clock;
use weftwork::types::run::{Durability, Multitask, RunRef};
use weftwork::types::{Principal, RunId, WorkerId};

/// How often to look whether another process has done what it was asked to.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) async fn runs(command: &Runs, house: &House) -> Result<Exit, CliError> {
    match command {
        Runs::Requeue { run, leave, json } => {
            requeue(&RunId::new(run)?, *leave, *json, house).await
        }
        Runs::Cancel { run } => cancel(&RunId::new(run)?, house).await,
    }
}

/// Puts a run back that failed, and goes on with it here unless others are to.
async fn requeue(id: &RunId, leave: bool, json: bool, house: &House) -> Result<Exit, CliError> {
    let (store, who) = (house.store_there()?, Principal::local());
    let at = store.find_run(&who, id).await?.new.at;
    let found = house.thread(store.as_ref(), &at.thread).await?;
    if leave {
        store.requeue(&who, &at, SystemClock::new().now()).await?;
        house.screen.note(format_args!("run {id} of thread {} waits for a worker", at.thread));
        return Ok(Exit::Done);
    }
    let agent = house.agent(&found.row.graph)?;
    let app = house
        .open(agent, Some(store), found.model(), (Durability::Sync, Multitask::Reject))
        .await?;
    let handle = app.requeue(&at).await?;
    house.screen.note(format_args!("thread {}", at.thread));
    to_end(handle, &app, house, json).await
}

/// Stops a run: here when nobody has it, else by asking the process that has it.
async fn cancel(id: &RunId, house: &House) -> Result<Exit, CliError> {
    let (store, who, screen) = (house.store_there()?, Principal::local(), &house.screen);
    let row = store.find_run(&who, id).await?;
    if row.status.is_final() {
        screen.note(format_args!("run {id} has ended before: {}", word(row.status)));
        return Ok(Exit::Done);
    }
    let at = row.new.at;
    match end(store.as_ref(), &at).await {
        Err(CliError::App(weftwork::Error::Store(StoreError::Busy { run, .. }))) => {
            store.request_cancel(&who, &at).await?;
            if run != id.as_str() {
                screen.note(format_args!(
                    "run {id} waits behind run {run}; it ends once that has ended"
                ));
                return Ok(Exit::Done);
            }
            screen.note(format_args!("asked the process that has run {id} to stop it"));
            ended(store.as_ref(), &at, house).await
        }
        cancelled => {
            cancelled?;
            let thread = &at.thread;
            screen.note(format_args!("run {id} of thread {thread} is cancelled"));
            Ok(Exit::Done)
        }
    }
}

/// Waits until a run has ended that was asked to.
async fn ended(store: &dyn Store, at: &RunRef, house: &House) -> Result<Exit, CliError> {
    let mut interrupts = Interrupts::listen()?;
    loop {
        let row = store.run(&Principal::local(), at).await?;
        if row.status.is_final() {
            house.screen.note(format_args!("run {}: {}", at.run, word(row.status)));
            return Ok(Exit::Done);
        }
        tokio::select! {
            biased;
            () = interrupts.next() => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Ends all runs of a thread that were not finished and that nobody has, the first of them first.
pub(crate) async fn end_all(store: &dyn Store, runs: &[RunRow]) -> Result<(), CliError> {
    for run in runs.iter().filter(|run| !run.status.is_final()) {
        end(store, &run.new.at).await?;
    }
    Ok(())
}

async fn end(store: &dyn Store, at: &RunRef) -> Result<(), CliError> {
    let us = WorkerId::new("weft-cancels")?;
    Ok(cancel_orphan(store, &Principal::local(), at, (&us, SystemClock::new().now())).await?)
}
