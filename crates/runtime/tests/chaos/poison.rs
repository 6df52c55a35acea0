//! A run that ends every process that touches it.

use crate::place::Place;
use crate::report;
use crate::worker::{
    CHAIN, HUNGRY, OVERFLOW, POISON, STEPS, Site, Worker, accept, accept_as, state,
};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use weftwork_types::Principal;
use weftwork_types::run::{Durability, RunOutcome, RunStatus};

async fn poison(name: &str, graph: &str, place: Place, folder: &Path) {
    let who = Principal::local();
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms: 100,
        step_ms: 5,
        attempts_max: 3,
    };
    let store = site.database.open();
    let mut workers = vec![Worker::start(&site), Worker::start(&site)];
    let durability = if graph == POISON { Durability::Exit } else { Durability::Sync };
    let bad = accept_as(&store, graph, "bad", "0", durability).await;
    let mut good = Vec::new();
    for n in 0..4 {
        good.push(accept(&store, CHAIN, &format!("good{n}"), "0").await);
    }
    let mut deaths = 0;
    let ended = loop {
        for worker in &mut workers {
            if worker.is_dead() {
                deaths += 1;
                *worker = Worker::start(&site);
            }
        }
        let row = store.run(&who, &bad).await.expect("reads");
        // The last death may be noticed here after another worker ended the run.
        if row.status.is_final() && deaths >= 3 {
            break row;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let Some(RunOutcome::Failed { fault }) = ended.outcome else { panic!("{ended:?}") };
    assert_eq!((fault.code.as_str(), ended.fence), ("W0130", 4));
    // Three may try, or three more than the one that committed the step before.
    let aborts = site.effects().iter().filter(|line| line.starts_with("aborts")).count();
    assert_eq!((aborts, deaths), (3, 3));
    for at in &good {
        while !store.run(&who, at).await.expect("reads").status.is_final() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let row = store.run(&who, at).await.expect("reads");
        assert_eq!(row.status, RunStatus::Completed, "{row:?}");
        let values = state(&site, CHAIN, at.thread.as_str()).await;
        assert_eq!(values["log"].as_array().map(Vec::len), Some(STEPS as usize));
    }
    report(name, &format!("ended {deaths} processes, then failed with W0130; 4 others completed"));
    let kept = if durability == Durability::Exit { json!(null) } else { json!(["well"]) };
    assert_eq!(state(&site, graph, "bad").await["log"], kept);
}

#[tokio::test]
async fn a_poison_run_on_sqlite_ends_as_failed_and_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    poison("poison-sqlite", POISON, Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn a_poison_run_on_postgres_ends_as_failed_and_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("poison") else { return };
    poison("poison-postgres", POISON, place, folder.path()).await;
}

#[tokio::test]
async fn a_run_that_fills_the_stack_ends_as_failed_and_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    poison("poison-stack", OVERFLOW, Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn a_run_that_wants_all_memory_ends_as_failed_and_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    poison("poison-memory", HUNGRY, Place::sqlite(folder.path()), folder.path()).await;
}
