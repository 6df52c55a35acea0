//! `weft runs`: runs by themselves.

use super::run::to_end;
use crate::CliError;
use crate::args::Runs;
use crate::exit::Exit;
use crate::house::House;
use weftwork::graph::SystemClock;
use weftwork::types::port::Clock;
use weftwork::types::run::{Durability, Multitask};
use weftwork::types::{Principal, RunId};

pub(crate) async fn runs(command: &Runs, house: &House) -> Result<Exit, CliError> {
    match command {
        Runs::Requeue { run, leave, json } => {
            requeue(&RunId::new(run)?, *leave, *json, house).await
        }
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
