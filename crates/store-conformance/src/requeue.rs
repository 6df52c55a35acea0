use super::fixture::{
    at, begin, checkpoint, commit, completed, custom_event, finish, interrupted, new_run,
    principal, question, register, these, thread, us, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{Commit, StoredEvent};
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::{ErrorCode, Timestamp};

fn failed() -> Option<RunOutcome> {
    Some(RunOutcome::Failed { fault: Fault::new(ErrorCode("W0109"), "no luck") })
}

fn released(claim: u64) -> AiEvent {
    AiEvent::Released { claim }
}

async fn events(store: &dyn Store) -> Vec<(u64, Timestamp, AiEvent)> {
    let events = store.events(&us(), &at("t", "r"), 0, 99).await.expect("reads");
    events.into_iter().map(|StoredEvent { seq, at, event }| (seq, at, event)).collect()
}

pub(super) async fn a_released_run_is_pending_again(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    write(&*store, &claim, Commit { events: vec![custom_event(1)], ..commit(1_100) }).await;
    assert_eq!(store.release(&us(), &claim, Timestamp(1_200)).await, Ok(2));
    let row = store.run(&us(), &at("t", "r")).await.expect("the run");
    assert_eq!((row.status, row.worker, row.fence), (RunStatus::Pending, None, 1));
    let row = store.thread(&us(), &claim.at.thread).await.expect("the thread");
    assert_eq!((row.status, row.updated_at), (Some(RunStatus::Pending), Timestamp(1_200)));
    // Orphaned immediately, although the worker is alive.
    let orphans = store.orphans(Timestamp(1_200), 9).await.expect("orphans");
    assert_eq!(orphans.len(), 1);
    let w2 = register(&*store, "w2", 1_200).await;
    let (heir, _) = store.claim(&us(), &claim.at, &w2, Timestamp(1_201)).await.expect("free");
    assert_eq!(heir.fence, 2);
    write(&*store, &heir, Commit { events: vec![custom_event(2)], ..commit(1_300) }).await;
    let expected =
        [(1, 1_100, custom_event(1)), (2, 1_200, released(1)), (3, 1_300, custom_event(2))];
    assert_eq!(events(&*store).await, expected.map(|(seq, at, event)| (seq, Timestamp(at), event)));
}

pub(super) async fn only_the_newest_claim_releases(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    store.release(&us(), &claim, Timestamp(1_100)).await.expect("releases");
    let fenced = |newest| StoreError::Fenced { run: "r".to_owned(), newest, ours: 1 };
    let again = store.release(&us(), &claim, Timestamp(1_101)).await;
    assert_eq!(again, Err(fenced(1)), "it has none any more");
    assert_eq!(store.commit(&us(), &claim, commit(1_102)).await, Err(fenced(1)));
    let w2 = register(&*store, "w2", 1_100).await;
    let (heir, _) = store.claim(&us(), &claim.at, &w2, Timestamp(1_103)).await.expect("free");
    assert_eq!(store.release(&us(), &claim, Timestamp(1_104)).await, Err(fenced(2)));
    finish(&*store, &heir, 1_105).await;
    let late = store.release(&us(), &heir, Timestamp(1_106)).await;
    assert_eq!(late, Err(StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 2 }));
    assert_eq!(events(&*store).await.len(), 1);
}

pub(super) async fn a_failed_run_is_requeued_and_goes_on_to_another_end(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    store.request_cancel(&us(), &at("t", "r")).await.expect("asks it to stop");
    let done = AiEvent::Done { outcome: RunStatus::Failed };
    let asked = Commit { interrupts: vec![question(1)], ..commit(1_100) };
    write(&*store, &claim, Commit { events: vec![done.clone()], finish: failed(), ..asked }).await;
    let row = store.requeue(&us(), &at("t", "r"), Timestamp(1_200)).await.expect("it failed");
    assert_eq!((row.status, row.fence, row.worker.as_ref()), (RunStatus::Pending, 1, None));
    assert_eq!((&row.outcome, row.ended_at, row.cancel_requested), (&None, None, false));
    assert_eq!(row.new, new_run("t", "r"));
    assert_eq!(store.run(&us(), &at("t", "r")).await, Ok(row));
    let row = store.thread(&us(), &claim.at.thread).await.expect("the thread");
    assert_eq!((row.status, row.updated_at), (Some(RunStatus::Pending), Timestamp(1_200)));
    let open = store.interrupts(&us(), &claim.at.thread).await.expect("reads");
    assert!(!open[0].closed, "the thread stands where it stood");
    let busy = store.create_run(&us(), new_run("t", "r2"), BTreeMap::new()).await;
    assert_eq!(busy, Err(invariants::busy(&at("t", "r"))));
    let (heir, _) =
        store.claim(&us(), &at("t", "r"), &claim.worker, Timestamp(1_300)).await.expect("free");
    assert_eq!(heir.fence, 2);
    write(&*store, &heir, Commit { finish: completed(), ..commit(1_400) }).await;
    let row = store.run(&us(), &at("t", "r")).await.expect("reads");
    assert_eq!((row.status, row.ended_at), (RunStatus::Completed, Some(Timestamp(1_400))));
    let by = AiEvent::Requeued { by: us().subject };
    assert_eq!(events(&*store).await, [(1, Timestamp(1_100), done), (2, Timestamp(1_200), by)]);
}

pub(super) async fn a_requeued_run_finds_the_head_that_its_thread_has(store: Arc<dyn Store>) {
    let head = async || {
        let row = store.thread(&us(), &thread("t")).await.expect("the thread");
        row.head.map(|id| id.0)
    };
    let claim = begin(&*store, "t", "r").await;
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(1)]).into(), ..commit(1_100) })
        .await;
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(head().await, None, "while it goes");
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(2)]).into(), ..commit(1_200) })
        .await;
    write(&*store, &claim, Commit { finish: failed(), ..commit(1_300) }).await;
    assert_eq!(head().await, Some(2));
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    store.requeue(&us(), &at("t", "r"), Timestamp(1_400)).await.expect("it failed");
    assert_eq!(head().await, None, "and not the one it had");
}

pub(super) async fn only_the_last_run_is_requeued_once_it_failed(store: Arc<dyn Store>) {
    let requeue = async |run: &str| {
        let put = store.requeue(&us(), &at("t", run), Timestamp(2_000)).await;
        put.expect_err("it is refused")
    };
    let refused = |run: &str, why| StoreError::NotRequeued {
        run: run.to_owned(),
        thread: "t".to_owned(),
        why,
    };
    store.create_run(&us(), new_run("t", "r0"), BTreeMap::new()).await.expect("a run");
    assert_eq!(requeue("r0").await, invariants::busy(&at("t", "r0")));
    let w1 = register(&*store, "w1", 1_000).await;
    let claimed = store.claim(&us(), &at("t", "r0"), &w1, Timestamp(1_001)).await;
    assert_eq!(requeue("r0").await, invariants::busy(&at("t", "r0")));
    let ended = Commit { finish: failed(), ..commit(1_100) };
    write(&*store, &claimed.expect("free").0, ended.clone()).await;
    let ends = [
        ("r1", completed(), "completed"),
        ("r2", interrupted(&[]), "ended at open questions"),
        ("r3", Some(RunOutcome::LimitReached { step_limit: 1 }), "reached its step limit"),
        ("r4", Some(RunOutcome::cancelled()), "was cancelled"),
    ];
    for (run, end, why) in ends {
        let claim = begin(&*store, "t", run).await;
        assert_eq!(requeue("r0").await, invariants::busy(&at("t", run)), "the thread is busy");
        write(&*store, &claim, Commit { finish: end, ..ended.clone() }).await;
        assert_eq!(requeue(run).await, refused(run, why));
    }
    assert_eq!(requeue("r0").await, refused("r0", "has runs after it"));
    assert_eq!(requeue("r9").await, invariants::missing("run", "r9"));
    let elsewhere = store.requeue(&principal("them"), &at("t", "r0"), Timestamp(1)).await;
    assert_eq!(elsewhere, Err(invariants::missing("run", "r0")));
    assert_eq!(store.orphans(Timestamp(2_000), 9).await, Ok(Vec::new()), "nothing was changed");
}

pub(super) async fn a_run_is_found_by_its_id_alone(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let row = store.run(&us(), &claim.at).await;
    assert_eq!(store.find_run(&us(), &claim.at.run).await, row);
    let missing = invariants::missing("run", "r");
    assert_eq!(store.find_run(&principal("them"), &claim.at.run).await, Err(missing));
}
