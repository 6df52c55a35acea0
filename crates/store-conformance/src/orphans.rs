use super::fixture::{
    LEASE_MS, at, begin, call, checkpoint, commit, custom_event, finish, new_run, question, record,
    register, tasks, these, thread, us, worker, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::invariants;
use weftwork_store::{CheckpointBatch, CheckpointNamespace};
use weftwork_store::{Result, Store};
use weftwork_store::{cancel_orphan, has_begun, open_questions};
use weftwork_types::event::{AiEvent, AttemptReset, Piece, PieceAt, PieceKind, Position};
use weftwork_types::run::{Multitask, RunOutcome, RunStatus};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, TaskId, Timestamp};

/// Time at which the lease of `w1` has ended.
const LATER: i64 = 1_000 + LEASE_MS;

async fn cancel(store: &dyn Store, run: &str, now: i64) -> Result<()> {
    let by = worker("who-cancels");
    cancel_orphan(store, &us(), &at("t", run), &by, Timestamp(now)).await
}

async fn log(store: &dyn Store, run: &str) -> Vec<AiEvent> {
    let read = store.events(&us(), &at("t", run), 0, 99).await.expect("reads");
    read.into_iter().map(|told| told.event).collect()
}

fn done() -> AiEvent {
    AiEvent::Done { outcome: RunStatus::Cancelled }
}

pub(super) async fn a_run_that_nobody_has_is_cancelled_without_its_graph(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r0").await;
    let asks = Commit {
        batch: these(vec![checkpoint(1)]).into(),
        interrupts: vec![question(1)],
        finish: super::fixture::interrupted(&[1]),
        ..commit(1_100)
    };
    write(&*store, &first, asks).await;
    let claim = begin(&*store, "t", "r").await;
    record(&*store, &claim, vec![call(1, Effect::ExternalSideEffect)]).await;
    let spoken = PieceAt::new(Position::in_text(1, 3), "writer", TaskId(7));
    let half = Commit {
        batch: CheckpointBatch {
            pending: vec![tasks(1, "half done")],
            ..CheckpointBatch::default()
        }
        .into(),
        interrupts: vec![question(1)],
        events: vec![custom_event(1)],
        pieces: vec![Piece {
            at: spoken.clone(),
            told_at: Timestamp(1),
            kind: PieceKind::Text,
            text: "hal".to_owned(),
        }],
        ..commit(1_200)
    };
    write(&*store, &claim, half).await;

    assert_eq!(cancel(&*store, "r", LATER).await, Ok(()));
    let row = store.run(&us(), &claim.at).await.expect("the run");
    assert_eq!((row.status, row.fence), (RunStatus::Cancelled, 2));
    assert_eq!(
        (row.outcome, row.ended_at),
        (Some(RunOutcome::cancelled()), Some(Timestamp(LATER)))
    );
    let reset = AiEvent::AttemptReset(AttemptReset::of_task(&spoken));
    assert_eq!(log(&*store, "r").await, [custom_event(1), reset, done()]);
    let pieces = store.pieces(&us(), &claim.at, Position::START, 9).await;
    assert_eq!(pieces, Ok(Vec::new()), "what was told of half a message is void");
    // Its results are retained, and the thread is free.
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let found = store.checkpoint(&us(), &root, None).await.expect("reads").expect("a checkpoint");
    assert_eq!(found.tasks, [b"half done".to_vec()]);
    assert_eq!(store.calls(&us(), &thread("t")).await.map(|calls| calls.len()), Ok(1));
    let open = open_questions(store.interrupts(&us(), &thread("t")).await.expect("reads"));
    assert_eq!(open, [question(1)]);
    assert_eq!(cancel(&*store, "r", LATER).await, Err(invariants::missing("run", "r")));
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
}

pub(super) async fn a_thread_wakes_as_before_a_run_that_got_nowhere(store: Arc<dyn Store>) {
    let wakes_at = async || store.thread(&us(), &thread("t")).await.expect("the thread").wakes_at;
    let claim = begin(&*store, "t", "r").await;
    let sleeps = Commit {
        batch: these(vec![checkpoint(1)]).into(),
        interrupts: vec![question(1)],
        finish: super::fixture::interrupted(&[1]),
        wakes_at: Some(Timestamp(9_000)),
        ..commit(1_100)
    };
    write(&*store, &claim, sleeps).await;
    for run in ["r2", "r3"] {
        store.create_run(&us(), new_run("t", run), BTreeMap::new()).await.expect("a run");
        assert_eq!(wakes_at().await, None);
        assert_eq!(cancel(&*store, run, LATER).await, Ok(()));
        assert_eq!(wakes_at().await, Some(Timestamp(9_000)));
    }
    // A run that reached a checkpoint was cancelled there.
    let claim = begin(&*store, "t", "r4").await;
    let begins = vec![AiEvent::RunStarted { graph: "test:graph".to_owned(), continues: None }];
    let begins = Commit { interrupts: vec![question(1)], events: begins, ..commit(1_200) };
    write(&*store, &claim, begins).await;
    assert_eq!(cancel(&*store, "r4", LATER).await, Ok(()));
    assert_eq!(wakes_at().await, None);
    store.create_run(&us(), new_run("t", "r5"), BTreeMap::new()).await.expect("a run");
    assert_eq!(cancel(&*store, "r5", LATER).await, Ok(()));
    assert_eq!(wakes_at().await, None, "nor after that");
}

pub(super) async fn a_run_that_somebody_has_is_not(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    assert_eq!(cancel(&*store, "r", LATER - 1).await, Err(invariants::busy(&claim.at)));
    let row = store.run(&us(), &claim.at).await.expect("the run");
    assert_eq!((row.status, row.cancel_requested), (RunStatus::Running, false));
    // A run that waits for it cannot be cancelled either.
    let mut waits = new_run("t", "r2");
    waits.options.multitask = Multitask::Enqueue;
    store.create_run(&us(), waits, BTreeMap::new()).await.expect("a run");
    let mut back = new_run("t", "r3");
    back.options.multitask = Multitask::Rollback;
    store.create_run(&us(), back, BTreeMap::new()).await.expect("a run");
    for run in ["r2", "r3"] {
        assert_eq!(cancel(&*store, run, LATER).await, Err(invariants::busy(&claim.at)));
    }
    let waits = store.run(&us(), &at("t", "r3")).await.expect("the run");
    assert!(waits.clears() && !waits.cancel_requested, "it is as it was");
    finish(&*store, &claim, 1_200).await;
    assert_eq!(cancel(&*store, "r", LATER).await, Err(invariants::missing("run", "r")));
    assert_eq!(cancel(&*store, "r2", LATER).await, Ok(()));
    let elsewhere = super::fixture::principal("them");
    let by = worker("who-cancels");
    let others = cancel_orphan(&*store, &elsewhere, &at("t", "r3"), &by, Timestamp(LATER)).await;
    assert_eq!(others, Err(invariants::missing("run", "r3")));
    assert_eq!(cancel(&*store, "r3", LATER).await, Ok(()));
}

pub(super) async fn a_run_that_never_began_is_cancelled_and_takes_nothing_back(
    store: Arc<dyn Store>,
) {
    let claim = begin(&*store, "t", "r").await;
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(1)]).into(), ..commit(1_100) })
        .await;
    let mut back = new_run("t", "r2");
    back.options.multitask = Multitask::Rollback;
    store.create_run(&us(), back, BTreeMap::new()).await.expect("a run");
    assert_eq!(cancel(&*store, "r", LATER).await, Ok(()));
    assert_eq!(cancel(&*store, "r2", LATER).await, Ok(()));
    assert_eq!(log(&*store, "r2").await, [done()]);
    assert_eq!(has_begun(&*store, &us(), &at("t", "r2")).await, Ok(false));
    let row = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!((row.status, row.head), (Some(RunStatus::Cancelled), Some(CheckpointId(1))));
    // The thread continues.
    let w1 = register(&*store, "w1", LATER).await;
    store.create_run(&us(), new_run("t", "r3"), BTreeMap::new()).await.expect("a run");
    let (claim, _) = store.claim(&us(), &at("t", "r3"), &w1, Timestamp(LATER)).await.expect("free");
    let starts = (1..200)
        .map(custom_event)
        .chain([AiEvent::RunStarted { graph: "test:graph".to_owned(), continues: None }]);
    write(&*store, &claim, Commit { events: starts.collect(), ..commit(LATER) }).await;
    assert_eq!(has_begun(&*store, &us(), &claim.at).await, Ok(true));
    finish(&*store, &claim, LATER).await;
}
