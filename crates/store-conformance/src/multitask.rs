use super::fixture::{
    answers, at, begin, checkpoint, commit, custom_event, finish, interrupted, keyed, new_run,
    question, register, these, thread, us, worker, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::CheckpointNamespace;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{Base, Claim, Commit, InterruptRow, NewRun, RunRow};
use weftwork_store::{ThreadQuery, ThreadStatus, asking_threads};
use weftwork_types::run::{Multitask, RunInput, RunOutcome, RunStatus};
use weftwork_types::{CheckpointId, Timestamp};

/// A run of the thread `t` with a multitask strategy.
fn how(run: &str, multitask: Multitask) -> NewRun {
    let mut new = new_run("t", run);
    new.options.multitask = multitask;
    new
}

async fn ask(store: &dyn Store, run: &str, multitask: Multitask) -> RunRow {
    store.create_run(&us(), how(run, multitask), BTreeMap::new()).await.expect("a run")
}

async fn row(store: &dyn Store, run: &str) -> RunRow {
    store.run(&us(), &at("t", run)).await.expect("the run")
}

async fn claim(store: &dyn Store, run: &str) -> Result<(Claim, RunRow), StoreError> {
    store.claim(&us(), &at("t", run), &worker("w1"), Timestamp(1_500)).await
}

fn busy<T>(run: &str) -> Result<T, StoreError> {
    Err(invariants::busy(&at("t", run)))
}

async fn keeps(store: &dyn Store, claim: &Claim, id: u128) {
    let batch = these(vec![checkpoint(id)]);
    write(store, claim, Commit { batch: batch.into(), ..commit(1_200) }).await;
}

async fn cancelled(store: &dyn Store, claim: &Claim) {
    write(store, claim, Commit { finish: Some(RunOutcome::cancelled()), ..commit(1_300) }).await;
}

pub(super) async fn a_queued_run_waits_for_those_before_it(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    let before = store.thread(&us(), &thread("t")).await.expect("the thread");
    let queued = ask(store, "r2", Multitask::Enqueue).await;
    assert_eq!((queued.status, queued.fence, queued.base), (RunStatus::Queued, 0, None));
    assert_eq!(row(store, "r2").await, queued);
    assert_eq!(ask(store, "r3", Multitask::Enqueue).await.status, RunStatus::Queued);
    let now = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!(now, before, "the thread is that of the run that goes");
    assert_eq!(claim(store, "r2").await, busy("r1"));
    write(store, &first, Commit { events: vec![custom_event(1)], ..commit(1_100) }).await;
    assert!(store.orphans(Timestamp(1_200), 9).await.expect("reads").is_empty(), "none is due");

    finish(store, &first, 1_300).await;
    let due = store.orphans(Timestamp(1_400), 9).await.expect("reads");
    let due: Vec<_> = due.iter().map(|(_, run)| run.new.at.run.as_str()).collect();
    assert_eq!(due, ["r2"]);
    assert_eq!(claim(store, "r3").await, busy("r2"));
    let (second, begun) = claim(store, "r2").await.expect("its turn");
    assert_eq!((begun.status, second.fence), (RunStatus::Running, 1));
    let now = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!((now.status, now.updated_at), (Some(RunStatus::Running), Timestamp(1_500)));
    write(
        store,
        &second,
        Commit { events: vec![custom_event(2), custom_event(3)], ..commit(1_600) },
    )
    .await;
    let seqs = store.events(&us(), &at("t", "r2"), 0, 9).await.expect("reads");
    let seqs: Vec<_> = seqs.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2], "its log is its own");
    finish(store, &second, 1_700).await;
    assert_eq!(claim(store, "r2").await, Err(invariants::missing("run", "r2")));
    let (third, _) = claim(store, "r3").await.expect("its turn");
    finish(store, &third, 1_800).await;
    assert!(store.orphans(Timestamp(1_900), 9).await.expect("reads").is_empty());
}

pub(super) async fn who_does_not_wait_is_refused(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    let refused = store.create_run(&us(), how("r2", Multitask::Reject), BTreeMap::new()).await;
    assert_eq!(refused, busy("r1"));
    for (_, multitask) in [(1, Multitask::Enqueue), (2, Multitask::Rollback)] {
        let mut new = how("r2", multitask);
        new.input = RunInput::answers(BTreeMap::<weftwork_types::InterruptId, _>::new());
        let refused = store.create_run(&us(), new, BTreeMap::new()).await;
        assert_eq!(refused, busy("r1"), "answers do not wait");
    }
    assert!(!row(store, "r1").await.cancel_requested, "a refused run stops nobody");
    ask(store, "r3", Multitask::Enqueue).await;
    finish(store, &first, 1_300).await;
    // Between two runs the thread belongs to the next one.
    let refused = store.create_run(&us(), how("r4", Multitask::Reject), BTreeMap::new()).await;
    assert_eq!(refused, busy("r3"));
    assert_eq!(ask(store, "r4", Multitask::Enqueue).await.status, RunStatus::Queued);
    assert_eq!(store.delete_thread(&us(), &thread("t")).await, busy("r3"));
    let requeued = store.requeue(&us(), &at("t", "r1"), Timestamp(1_400)).await;
    assert_eq!(requeued.map(|row| row.status), busy("r3"));
}

pub(super) async fn a_queued_run_is_the_one_of_its_key(store: Arc<dyn Store>) {
    let store = &*store;
    begin(store, "t", "r1").await;
    let new = keyed(how("r2", Multitask::Enqueue), "once");
    let made = store.create_run(&us(), new.clone(), BTreeMap::new()).await.expect("a run");
    let mut again = new;
    again.at = at("t", "r3");
    assert_eq!(store.create_run(&us(), again, BTreeMap::new()).await, Ok(made.clone()));
    assert_eq!(store.find_run(&us(), &made.new.at.run).await, Ok(made));
    assert_eq!(store.runs(&us(), &thread("t")).await.expect("reads").len(), 2);
}

pub(super) async fn those_before_it_are_asked_to_stop(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    ask(store, "r2", Multitask::Enqueue).await;
    assert!(!row(store, "r1").await.cancel_requested, "who waits stops nobody");
    store.request_cancel(&us(), &at("t", "r2")).await.expect("asks");
    assert!(row(store, "r2").await.cancel_requested, "one that waits may be cancelled");
    let third = ask(store, "r3", Multitask::Interrupt).await;
    assert!(!third.cancel_requested);
    assert_eq!(third.status, RunStatus::Queued);
    for (run, asked) in [("r1", true), ("r2", true), ("r3", false)] {
        assert_eq!(row(store, run).await.cancel_requested, asked, "{run}");
    }
    let told = store.commit(&us(), &first, commit(1_200)).await.expect("commits");
    assert!(told.cancel_requested, "its worker learns of it");
    cancelled(store, &first).await;
    let (second, begun) = claim(store, "r2").await.expect("its turn");
    assert!(begun.cancel_requested);
    cancelled(store, &second).await;
    let (_, begun) = claim(store, "r3").await.expect("its turn");
    assert_eq!((begun.cancel_requested, begun.back_to()), (false, None));
}

pub(super) async fn a_worker_finds_what_it_is_asked_to_stop(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    ask(store, "r2", Multitask::Interrupt).await;
    let others = begin(store, "t2", "r3").await;
    let found = store.to_stop(&first.worker).await.expect("reads");
    assert_eq!(found, [(us().org, at("t", "r1"))]);
    store.request_cancel(&us(), &others.at).await.expect("asks");
    let found = store.to_stop(&first.worker).await.expect("reads");
    assert_eq!(found, [(us().org, at("t", "r1")), (us().org, at("t2", "r3"))]);
    assert_eq!(store.to_stop(&worker("w2")).await, Ok(Vec::new()));
    cancelled(store, &first).await;
    store.release(&us(), &others, Timestamp(1_400)).await.expect("releases");
    assert_eq!(store.to_stop(&first.worker).await, Ok(Vec::new()));
}

pub(super) async fn a_run_that_takes_back_begins_where_the_first_did(store: Arc<dyn Store>) {
    let store = &*store;
    let before = begin(store, "t", "r0").await;
    keeps(store, &before, 1).await;
    finish(store, &before, 1_250).await;
    assert_eq!(row(store, "r0").await.base, Some(Base::Nothing));

    let first = begin(store, "t", "r1").await;
    keeps(store, &first, 2).await;
    ask(store, "r2", Multitask::Enqueue).await;
    let new = keyed(how("r3", Multitask::Rollback), "once");
    let third = store.create_run(&us(), new.clone(), BTreeMap::new()).await.expect("a run");
    let one = CheckpointId(1);
    assert_eq!((third.base, third.back_to()), (Some(Base::At(one)), Some(one)));
    assert_eq!(store.create_run(&us(), new, BTreeMap::new()).await, Ok(third), "the same");
    assert_eq!(row(store, "r1").await.base, Some(Base::At(one)));
    cancelled(store, &first).await;
    let (second, begun) = claim(store, "r2").await.expect("its turn");
    assert_eq!(begun.base, Some(Base::At(CheckpointId(2))), "it goes on after the first");
    cancelled(store, &second).await;
    let (_, begun) = claim(store, "r3").await.expect("its turn");
    assert_eq!((begun.back_to(), begun.clears()), (Some(one), false));
    assert_eq!(row(store, "r3").await, begun);
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let page = store.page(&us(), &root, None, 9).await.expect("reads");
    let page: Vec<_> = page.iter().map(|found| found.id.0).collect();
    assert_eq!(page, [2, 1], "what was taken back stays in the history");
}

pub(super) async fn a_run_that_takes_all_back_begins_anew(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    let batch = these(vec![checkpoint(1), checkpoint(2)]);
    let asks = vec![question(7)];
    let held = Commit {
        batch: batch.into(),
        interrupts: asks,
        events: vec![custom_event(1)],
        ..commit(1_200)
    };
    write(store, &first, held).await;
    let third = ask(store, "r3", Multitask::Rollback).await;
    assert_eq!((third.base, third.back_to()), (Some(Base::Nothing), None));
    cancelled(store, &first).await;
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let found = store.checkpoint(&us(), &root, None).await.expect("reads");
    assert!(found.is_some(), "nothing is forgotten before it begins");
    let (claimed, begun) = claim(store, "r3").await.expect("its turn");
    assert!(begun.clears());
    assert_eq!(store.checkpoint(&us(), &root, None).await, Ok(None));
    let now = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!(now.head, None);
    let told = store.events(&us(), &at("t", "r1"), 0, 9).await.expect("reads");
    assert_eq!(told.len(), 1, "its log stays");
    // Another worker continues the run: its checkpoints since the claim are retained.
    keeps(store, &claimed, 3).await;
    store.release(&us(), &claimed, Timestamp(1_600)).await.expect("releases");
    claim(store, "r3").await.expect("free");
    let found = store.checkpoint(&us(), &root, None).await.expect("reads");
    assert_eq!(found.map(|found| found.id), Some(CheckpointId(3)));
}

pub(super) async fn a_run_that_was_cancelled_takes_nothing_back(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    keeps(store, &first, 1).await;
    ask(store, "r2", Multitask::Rollback).await;
    store.request_cancel(&us(), &at("t", "r2")).await.expect("asks");
    cancelled(store, &first).await;
    let (second, begun) = claim(store, "r2").await.expect("its turn");
    assert!(!begun.clears());
    cancelled(store, &second).await;
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let found = store.checkpoint(&us(), &root, None).await.expect("reads");
    assert_eq!(found.map(|found| found.id), Some(CheckpointId(1)));
}

pub(super) async fn a_run_that_nobody_began_is_taken_back_as_well(store: Arc<dyn Store>) {
    let store = &*store;
    register(store, "w1", 1_000).await;
    ask(store, "r1", Multitask::Enqueue).await;
    assert_eq!(row(store, "r1").await.status, RunStatus::Pending, "the thread was at rest");
    let second = ask(store, "r2", Multitask::Rollback).await;
    assert_eq!(second.base, Some(Base::Nothing));
    let (first, begun) = claim(store, "r1").await.expect("its turn");
    assert!(begun.cancel_requested);
    cancelled(store, &first).await;
    claim(store, "r2").await.expect("its turn");
}

pub(super) async fn a_queued_run_follows_one_that_asks(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    ask(store, "r2", Multitask::Enqueue).await;
    let asks = Commit {
        interrupts: vec![question(7)],
        finish: interrupted(&[7]),
        wakes_at: Some(Timestamp(1_400)),
        ..commit(1_300)
    };
    write(store, &first, asks).await;
    claim(store, "r2").await.expect("its turn");
    let now = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!(now.wakes_at, None, "it goes on now");
    let refused = store.create_run(&us(), answering("r3"), answers(&[(7, "yes")])).await;
    assert_eq!(refused, busy("r2"), "an answer after the run has begun");
}

fn answering(run: &str) -> NewRun {
    let input = RunInput::answers(BTreeMap::<weftwork_types::InterruptId, _>::new());
    NewRun { input, ..how(run, Multitask::Interrupt) }
}

async fn status(store: &dyn Store) -> ThreadStatus {
    let found = store.search_threads(&us(), ThreadQuery::default()).await.expect("reads");
    found.threads[0].status
}

pub(super) async fn queued_runs_change_nothing_before_they_begin(store: Arc<dyn Store>) {
    let store = &*store;
    let delayed = |run: &str| {
        let mut new = how(run, Multitask::Enqueue);
        new.graph = "test:other".to_owned();
        new.options.not_before = Some(Timestamp(9_000));
        new
    };
    let first = store.create_run(&us(), delayed("r0"), BTreeMap::new()).await.expect("accepted");
    assert_eq!((first.status, status(store).await), (RunStatus::Queued, ThreadStatus::Busy));
    let (first, _) = claim(store, "r0").await.expect("also before its time, if it is asked to");
    let asks = Commit {
        interrupts: vec![question(7)],
        finish: interrupted(&[7]),
        wakes_at: Some(Timestamp(1_400)),
        ..commit(1_300)
    };
    write(store, &first, asks).await;
    let before = store.thread(&us(), &thread("t")).await.expect("the thread");
    store.create_run(&us(), delayed("r1"), BTreeMap::new()).await.expect("accepted");
    ask(store, "r2", Multitask::Enqueue).await;
    assert_eq!(store.thread(&us(), &thread("t")).await, Ok(before));
    assert_eq!(status(store).await, ThreadStatus::Interrupted);
    let open = store.interrupts(&us(), &thread("t")).await.expect("reads");
    assert!(open.iter().all(InterruptRow::is_open));
    let due = store.due(Timestamp(1_400), vec!["test:other".to_owned()], 9).await.expect("reads");
    let due: Vec<_> = due.iter().map(|(_, run)| run.new.at.run.as_str()).collect();
    assert_eq!(due, ["r0"], "the run that asks");
    let asking = asking_threads(store, &us()).await.expect("reads");
    assert_eq!(asking[0].open, open);
    let refused = store.create_run(&us(), how("r3", Multitask::Reject), BTreeMap::new()).await;
    assert_eq!(refused, busy("r1"), "a run with input of its own");

    // An answer comes before them, and cancels none.
    let row = store.create_run(&us(), answering("r3"), answers(&[(7, "yes")])).await;
    let row = row.expect("the question is open");
    assert_eq!((row.status, row.answers), (RunStatus::Pending, Some(at("t", "r0").run)));
    assert_eq!(claim(store, "r1").await, busy("r3"));
    assert_eq!(status(store).await, ThreadStatus::Busy);
    let second = store.create_run(&us(), answering("r4"), answers(&[(7, "no")])).await;
    assert_eq!(second, busy("r3"));
    let (answer, _) = claim(store, "r3").await.expect("its turn");
    assert_eq!(
        store.next_run(&us(), &thread("t"), Timestamp(1_500)).await.map(named),
        Ok("r3".into())
    );
    finish(store, &answer, 1_600).await;

    // A timer comes before them too, and a run that is cancelled before it begins has not run here.
    let mut timer = how("r5", Multitask::Reject);
    timer.input = RunInput::Continue;
    let row = store.create_run(&us(), timer, BTreeMap::new()).await.expect("accepted");
    assert_eq!(row.status, RunStatus::Pending);
    let (timer, _) = claim(store, "r5").await.expect("its turn");
    finish(store, &timer, 1_700).await;
    store.request_cancel(&us(), &at("t", "r1")).await.expect("waits");
    let (unbegun, _) = claim(store, "r1").await.expect("its turn");
    cancelled(store, &unbegun).await;
    let graph = store.thread(&us(), &thread("t")).await.expect("the thread").graph;
    assert_eq!(graph.as_deref(), Some("test:graph"));
    // One that waits for nothing makes the thread busy, and may be overtaken until it begins.
    assert_eq!(status(store).await, ThreadStatus::Busy);
    claim(store, "r2").await.expect("its turn");
    assert_eq!(asking_threads(store, &us()).await, Ok(Vec::new()));
}

fn named(next: Option<(weftwork_types::Principal, RunRow)>) -> String {
    next.map(|(_, run)| run.new.at.run.to_string()).unwrap_or_default()
}

pub(super) async fn a_queue_moves_with_its_thread(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    keeps(store, &first, 1).await;
    ask(store, "r2", Multitask::Rollback).await;
    ask(store, "r3", Multitask::Enqueue).await;
    let whole = store.export_thread(&us(), &thread("t")).await.expect("reads");
    let other = super::fixture::principal("them");
    store.import_thread(&other, whole.clone()).await.expect("fits");
    let moved = store.export_thread(&other, &thread("t")).await.expect("reads");
    assert_eq!(moved.runs, whole.runs);
    let statuses: Vec<_> = moved.runs.iter().map(|run| run.row.status).collect();
    assert_eq!(statuses, [RunStatus::Running, RunStatus::Queued, RunStatus::Queued]);
    assert_eq!(moved.runs[1].row.base, Some(Base::Nothing));
}
