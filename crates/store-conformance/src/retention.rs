use super::fixture::{
    at, begin, begin_as, checkpoint, commit, completed, custom_event, finish, interrupted, new_run,
    principal, question, register, these, thread, us, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::memory::MemoryStore;
use weftwork_store::{Commit, StoredEvent};
use weftwork_store::{Untouched, Waiting};
use weftwork_types::code::Fault;
use weftwork_types::run::{Multitask, RunOutcome, RunRef};
use weftwork_types::{ErrorCode, Timestamp};

fn before(time: i64) -> Untouched {
    Untouched { before: Timestamp(time), waiting: Waiting::Spared, limit: 99 }
}

fn failed() -> Option<RunOutcome> {
    Some(RunOutcome::Failed { fault: Fault::new(ErrorCode("W0109"), "no luck") })
}

async fn untouched(store: &dyn Store, which: Untouched) -> Vec<String> {
    let found = store.untouched(&us(), which).await.expect("reads");
    found.into_iter().map(|row| row.id.to_string()).collect()
}

async fn forget(store: &dyn Store, which: Untouched) -> Vec<String> {
    let gone = store.delete_untouched(&us(), which).await.expect("forgets");
    gone.into_iter().map(|id| id.to_string()).collect()
}

async fn read(store: &dyn Store, at: &RunRef, after: u64) -> weftwork_store::Result<Vec<u64>> {
    let events = store.events(&us(), at, after, 99).await?;
    Ok(events.into_iter().map(|StoredEvent { seq, .. }| seq).collect())
}

pub(super) async fn threads_that_nothing_changed_for_long_are_forgotten(store: Arc<dyn Store>) {
    for (name, ended) in [("a", 2_000), ("b", 3_000), ("c", 2_000), ("d", 4_000)] {
        let claim = begin(&*store, name, name).await;
        let batch = these(vec![checkpoint(2)]);
        let events = vec![custom_event(1), custom_event(2)];
        let end = Commit { batch: batch.into(), events, finish: completed(), ..commit(ended) };
        write(&*store, &claim, end).await;
    }
    let claim = begin_as(&*store, &principal("them"), new_run("a", "x")).await;
    let end = Commit { finish: completed(), ..commit(1_500) };
    store.commit(&principal("them"), &claim, end).await.expect("commits");
    assert_eq!(untouched(&*store, before(4_000)).await, ["a", "c", "b"]);
    assert_eq!(untouched(&*store, Untouched { limit: 2, ..before(4_000) }).await, ["a", "c"]);
    assert_eq!(untouched(&*store, before(2_000)).await, Vec::<String>::new());
    assert_eq!(forget(&*store, Untouched { limit: 1, ..before(3_000) }).await, ["a"]);
    assert_eq!(forget(&*store, before(3_000)).await, ["c"]);
    assert_eq!(forget(&*store, before(3_000)).await, Vec::<String>::new());
    assert_eq!(store.thread(&us(), &thread("a")).await, Err(invariants::missing("thread", "a")));
    assert_eq!(super::dump_checkpoints(&*store, &us(), &thread("a")).await, Ok(Vec::new()));
    assert_eq!(store.find_run(&us(), &claim.at.run).await, Err(invariants::missing("run", "x")));
    let left = store.threads(&us(), 0, 9).await.expect("reads");
    assert_eq!(left.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["d", "b"]);
    // Data of another organisation is not affected, and the ids can be used again.
    assert!(store.thread(&principal("them"), &thread("a")).await.is_ok());
    assert_eq!(begin(&*store, "a", "a").await.fence, 1);
}

pub(super) async fn threads_that_go_or_wait_are_kept(store: Arc<dyn Store>) {
    store.create_run(&us(), new_run("pending", "p"), BTreeMap::new()).await.expect("a run");
    begin(&*store, "running", "r").await;
    let claim = begin(&*store, "waits", "w").await;
    let asks = Commit { interrupts: vec![question(1)], finish: interrupted(&[1]), ..commit(1_100) };
    write(&*store, &claim, asks).await;
    let claim = begin(&*store, "failed", "f").await;
    write(&*store, &claim, Commit { finish: failed(), ..commit(1_200) }).await;
    // A run asked a question, and a later run failed and left the question open.
    let claim = begin(&*store, "asks", "a1").await;
    let asks = Commit { interrupts: vec![question(2)], finish: interrupted(&[2]), ..commit(1_100) };
    write(&*store, &claim, asks).await;
    let claim = begin(&*store, "asks", "a2").await;
    let fails = Commit { interrupts: vec![question(2)], finish: failed(), ..commit(1_150) };
    write(&*store, &claim, fails).await;
    // The earlier run has ended, and another one is queued.
    let claim = begin(&*store, "queued", "q1").await;
    let mut waits = new_run("queued", "q2");
    waits.options.multitask = Multitask::Enqueue;
    store.create_run(&us(), waits, BTreeMap::new()).await.expect("a run");
    finish(&*store, &claim, 1_300).await;
    assert_eq!(untouched(&*store, before(9_000)).await, ["failed"]);
    let all = Untouched { waiting: Waiting::Included, ..before(9_000) };
    assert_eq!(untouched(&*store, all).await, ["waits", "asks", "failed"]);
    assert_eq!(forget(&*store, before(9_000)).await, ["failed"]);
    assert_eq!(forget(&*store, all).await, ["waits", "asks"]);
    assert_eq!(store.threads(&us(), 0, 9).await.map(|left| left.len()), Ok(3));
}

pub(super) async fn events_of_runs_that_ended_are_dropped_but_for_the_last(store: Arc<dyn Store>) {
    for (run, ended) in [("r1", 2_000), ("r2", 3_000)] {
        let claim = begin(&*store, "t", run).await;
        write(
            &*store,
            &claim,
            Commit { events: vec![custom_event(1), custom_event(2)], ..commit(1_100) },
        )
        .await;
        let end = Commit {
            events: vec![custom_event(3), custom_event(4)],
            finish: completed(),
            ..commit(ended)
        };
        write(&*store, &claim, end).await;
    }
    let going = begin(&*store, "other", "r3").await;
    write(
        &*store,
        &going,
        Commit { events: vec![custom_event(1), custom_event(2)], ..commit(1_100) },
    )
    .await;
    let first = at("t", "r1");
    let second = at("t", "r2");
    let row = store.run(&us(), &first).await;
    let whole = store.events(&us(), &first, 3, 9).await;
    let drop = async |time| store.drop_events(&us(), Timestamp(time), 9).await;
    assert_eq!(drop(2_000).await, Ok(0), "it ended then, not before");
    assert_eq!(drop(2_001).await, Ok(1));
    assert_eq!(drop(2_001).await, Ok(0), "there is nothing more to drop");
    let dropped = |after| Err(StoreError::Dropped { run: "r1".to_owned(), after, oldest: 4 });
    for after in [0, 1, 2] {
        assert_eq!(read(&*store, &first, after).await, dropped(after));
    }
    assert_eq!(read(&*store, &first, 3).await, Ok(vec![4]));
    assert_eq!(store.events(&us(), &first, 3, 9).await, whole, "as it was");
    assert_eq!(read(&*store, &first, 4).await, Ok(Vec::new()));
    assert_eq!(store.run(&us(), &first).await, row, "the run stays");
    assert_eq!(read(&*store, &second, 0).await, Ok(vec![1, 2, 3, 4]));
    let elsewhere = store.drop_events(&principal("them"), Timestamp(9_000), 9).await;
    assert_eq!(elsewhere, Ok(0));
    assert_eq!(store.drop_events(&us(), Timestamp(9_000), 0).await, Ok(0));
    assert_eq!(drop(9_000).await, Ok(1));
    assert_eq!(read(&*store, &going.at, 0).await, Ok(vec![1, 2]), "it goes on");
    write(&*store, &going, Commit { events: vec![custom_event(3)], ..commit(1_200) }).await;
    assert_eq!(read(&*store, &going.at, 0).await, Ok(vec![1, 2, 3]));
}

pub(super) async fn a_failed_run_that_can_be_requeued_keeps_its_events(store: Arc<dyn Store>) {
    for run in ["r1", "r2"] {
        let claim = begin(&*store, "t", run).await;
        let end = Commit {
            events: vec![custom_event(1), custom_event(2)],
            finish: failed(),
            ..commit(1_100)
        };
        write(&*store, &claim, end).await;
    }
    assert_eq!(store.drop_events(&us(), Timestamp(9_000), 9).await, Ok(1));
    assert!(matches!(
        read(&*store, &at("t", "r1"), 0).await,
        Err(StoreError::Dropped { oldest: 2, .. })
    ));
    assert_eq!(read(&*store, &at("t", "r2"), 0).await, Ok(vec![1, 2]));
    store.requeue(&us(), &at("t", "r2"), Timestamp(1_200)).await.expect("it failed");
    let w1 = register(&*store, "w1", 1_200).await;
    let (claim, _) = store.claim(&us(), &at("t", "r2"), &w1, Timestamp(1_201)).await.expect("free");
    finish(&*store, &claim, 1_300).await;
    assert_eq!(store.drop_events(&us(), Timestamp(9_000), 9).await, Ok(1));
    assert_eq!(read(&*store, &at("t", "r2"), 2).await, Ok(vec![3]));
}

pub(super) async fn a_thread_without_its_events_goes_to_another_store(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let end = Commit {
        events: vec![custom_event(1), custom_event(2)],
        finish: completed(),
        ..commit(1_100)
    };
    write(&*store, &claim, end).await;
    assert_eq!(store.drop_events(&us(), Timestamp(9_000), 9).await, Ok(1));
    let whole = store.export_thread(&us(), &thread("t")).await.expect("reads");
    let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
    other.import_thread(&us(), whole.clone()).await.expect("puts");
    assert_eq!(other.export_thread(&us(), &thread("t")).await.as_ref(), Ok(&whole));
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    store.import_thread(&us(), whole.clone()).await.expect("puts");
    assert_eq!(store.export_thread(&us(), &thread("t")).await, Ok(whole));
    assert_eq!(read(&*store, &at("t", "r"), 1).await, Ok(vec![2]));
}
