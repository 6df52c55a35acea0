//! Ends of runs: their last checkpoints, their cancellation with rollback, and their relation to
//! earlier runs.

use super::fixture::{
    answers, at, begin, checkpoint, commit, finish, interrupted, keyed, new_run, question,
    register, these, thread, us, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::CheckpointNamespace;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{Base, Claim, Commit, NewRun, RunRow};
use weftwork_types::code::{ErrorCode, Fault};
use weftwork_types::run::{Multitask, RunOutcome, RunStatus};
use weftwork_types::{CheckpointId, RunId, Timestamp};

async fn row(store: &dyn Store, run: &str) -> RunRow {
    store.run(&us(), &at("t", run)).await.expect("the run")
}

async fn keeps(store: &dyn Store, claim: &Claim, id: u128) {
    let batch = these(vec![checkpoint(id)]);
    write(store, claim, Commit { batch: batch.into(), ..commit(1_200) }).await;
}

async fn ends(store: &dyn Store, claim: &Claim, outcome: RunOutcome) {
    write(store, claim, Commit { finish: Some(outcome), ..commit(1_300) }).await;
}

/// Creates a run with a checkpoint, which then ends.
async fn ended(store: &dyn Store, run: &str, id: u128) {
    let claim = begin(store, "t", run).await;
    keeps(store, &claim, id).await;
    finish(store, &claim, 1_300).await;
}

fn back(run: &str, over: Option<&str>) -> NewRun {
    let mut new = new_run("t", run);
    new.options.multitask = Multitask::Rollback;
    new.options.roll_back = over.map(|run| RunId::new(run).expect("an id"));
    new
}

async fn ask(store: &dyn Store, new: NewRun) -> Result<RunRow, StoreError> {
    store.create_run(&us(), new, BTreeMap::new()).await
}

async fn claim(store: &dyn Store, run: &str) -> (Claim, RunRow) {
    let worker = register(store, "w1", 1_000).await;
    store.claim(&us(), &at("t", run), &worker, Timestamp(1_500)).await.expect("its turn")
}

/// Reads which run rolls back each run of the thread.
async fn marks(store: &dyn Store) -> Vec<(String, Option<String>)> {
    let rows = store.runs(&us(), &thread("t")).await.expect("reads").into_iter();
    let by = |run: RunId| run.as_str().to_owned();
    rows.map(|row| (by(row.new.at.run), row.rolled_back_by.map(by))).collect()
}

fn marked(runs: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    runs.iter().map(|(run, by)| ((*run).to_owned(), by.map(str::to_owned))).collect()
}

pub(super) async fn a_run_that_ended_has_its_last_checkpoint(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    keeps(store, &first, 1).await;
    assert_eq!(row(store, "r1").await.last_checkpoint, None, "it has not ended");
    // The last checkpoint and the end may be in one commit.
    let batch = these(vec![checkpoint(2)]).into();
    let finish = Some(RunOutcome::cancelled());
    write(store, &first, Commit { batch, finish, ..commit(1_300) }).await;
    assert_eq!(row(store, "r1").await.last_checkpoint, Some(CheckpointId(2)));
    let second = begin(store, "t", "r2").await;
    keeps(store, &second, 3).await;
    let fault = Fault::new(ErrorCode("W0101"), "broken");
    ends(store, &second, RunOutcome::Failed { fault }).await;
    assert_eq!(row(store, "r1").await.last_checkpoint, Some(CheckpointId(2)), "as it was");
    assert_eq!(row(store, "r2").await.last_checkpoint, Some(CheckpointId(3)));
    let requeued = store.requeue(&us(), &at("t", "r2"), Timestamp(1_400)).await.expect("requeues");
    assert_eq!(requeued.last_checkpoint, None, "it goes on");
    assert_eq!(row(store, "r2").await, requeued);
}

pub(super) async fn a_run_names_the_run_that_asked(store: Arc<dyn Store>) {
    let store = &*store;
    let first = begin(store, "t", "r1").await;
    let interrupts = vec![question(7), question(8)];
    let finish = interrupted(&[7, 8]);
    write(store, &first, Commit { interrupts, finish, ..commit(1_200) }).await;
    let given = answers(&[(7, "yes"), (8, "no")]);
    let second = store.create_run(&us(), new_run("t", "r2"), given).await.expect("a run");
    assert_eq!(second.answers, Some(first.at.run));
    assert_eq!(row(store, "r2").await, second);
    assert_eq!(row(store, "r1").await.answers, None);
}

pub(super) async fn a_run_is_created_with_its_claim(store: Arc<dyn Store>) {
    let store = &*store;
    let worker = register(store, "w1", 1_000).await;
    let who = us();
    let make = |new| store.create_claimed(&who, new, BTreeMap::new(), &worker);
    let (made, claimed) = make(keyed(new_run("t", "r1"), "once")).await.expect("a run");
    let claimed = claimed.expect("a claim");
    assert_eq!((claimed.fence, &claimed.worker), (1, &worker));
    assert_eq!((made.status, made.base), (RunStatus::Running, Some(Base::Nothing)));
    assert_eq!(row(store, "r1").await, made);
    let now = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!((now.status, now.updated_at), (Some(RunStatus::Running), Timestamp(1_000)));
    keeps(store, &claimed, 1).await;
    let again = make(keyed(new_run("t", "r9"), "once")).await.expect("the same");
    assert_eq!(again, (made, None), "a repeated request claims nothing");
    assert_eq!(make(new_run("t", "r2")).await, Err(invariants::busy(&at("t", "r1"))));
    let mut new = new_run("t", "r3");
    new.options.multitask = Multitask::Enqueue;
    let (queued, none) = make(new).await.expect("a run");
    assert_eq!((queued.status, queued.fence, none), (RunStatus::Queued, 0, None));
    finish(store, &claimed, 1_300).await;
    let (second, _) = claim(store, "r3").await;
    finish(store, &second, 1_400).await;
    let (fourth, _) = make(new_run("t", "r4")).await.expect("a run");
    assert_eq!(fourth.base, Some(Base::At(CheckpointId(1))));
}

pub(super) async fn runs_that_are_rolled_back_are_marked(store: Arc<dyn Store>) {
    let store = &*store;
    ended(store, "r0", 1).await;
    let first = begin(store, "t", "r1").await;
    keeps(store, &first, 2).await;
    ask(store, back("r2", None)).await.expect("a run");
    let expected = [("r0", None), ("r1", Some("r2")), ("r2", None)];
    assert_eq!(marks(store).await, marked(&expected));
    ends(store, &first, RunOutcome::cancelled()).await;
    let (second, _) = claim(store, "r2").await;
    assert_eq!(marks(store).await, marked(&expected));
    // A rollback that is cancelled before it starts rolls nothing back.
    ask(store, back("r3", None)).await.expect("a run");
    let expected = [("r0", None), ("r1", Some("r2")), ("r2", Some("r3")), ("r3", None)];
    assert_eq!(marks(store).await, marked(&expected));
    store.request_cancel(&us(), &at("t", "r3")).await.expect("asks");
    finish(store, &second, 1_300).await;
    let (third, _) = claim(store, "r3").await;
    let expected = [("r0", None), ("r1", Some("r2")), ("r2", None), ("r3", None)];
    assert_eq!(marks(store).await, marked(&expected));
    ends(store, &third, RunOutcome::cancelled()).await;
}

pub(super) async fn a_run_that_ended_is_rolled_back(store: Arc<dyn Store>) {
    let store = &*store;
    ended(store, "r1", 1).await;
    ended(store, "r2", 2).await;
    ended(store, "r3", 3).await;
    assert_eq!(
        ask(store, back("r4", Some("r9"))).await,
        Err(invariants::missing("run", "r9")),
        "a run that does not exist"
    );
    let fourth = ask(store, back("r4", Some("r2"))).await.expect("a run");
    let one = CheckpointId(1);
    assert_eq!((fourth.status, fourth.back_to()), (RunStatus::Pending, Some(one)));
    assert_eq!(row(store, "r4").await, fourth);
    let expected = [("r1", None), ("r2", Some("r4")), ("r3", Some("r4")), ("r4", None)];
    assert_eq!(marks(store).await, marked(&expected));
    let (claimed, begun) = claim(store, "r4").await;
    assert_eq!(begun.back_to(), Some(one));
    // The first run had no state before it.
    let fifth = ask(store, back("r5", Some("r1"))).await.expect("a run");
    assert_eq!((fifth.status, fifth.base), (RunStatus::Queued, Some(Base::Nothing)));
    assert!(row(store, "r4").await.cancel_requested, "later runs are cancelled");
    ends(store, &claimed, RunOutcome::cancelled()).await;
    let (_, begun) = claim(store, "r5").await;
    assert!(begun.clears());
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    assert_eq!(store.checkpoint(&us(), &root, None).await, Ok(None));
}

pub(super) async fn a_run_behind_others_has_nothing_to_roll_back(store: Arc<dyn Store>) {
    let store = &*store;
    begin(store, "t", "r1").await;
    let mut queued = new_run("t", "r2");
    queued.options.multitask = Multitask::Enqueue;
    ask(store, queued).await.expect("a run");
    let refused = ask(store, back("r3", Some("r2"))).await;
    assert_eq!(refused, Err(invariants::busy(&at("t", "r1"))));
    assert!(!row(store, "r1").await.cancel_requested);
    assert_eq!(marks(store).await, marked(&[("r1", None), ("r2", None)]));
}
