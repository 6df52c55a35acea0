use super::fixture::{
    at, checkpoint, commit, completed, finish, interrupted, new_run, principal, question, register,
    these, thread, us, worker, write,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::mailbox::{INSTANCE, TERMINATED};
use weftwork_store::{
    ActivityCounts, IfExists, NewThread, StoreError, Untouched, Waiting, cancel_orphan, end_asking,
    invariants,
};
use weftwork_store::{Claim, Commit, NewRun, RunRow};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Answer;
use weftwork_types::run::{
    Answers, Mailbox, Multitask, RunCommand, RunInput, RunOptions, RunOutcome, RunStatus,
};
use weftwork_types::store_error::RefusedByInstance;
use weftwork_types::{CheckpointId, ErrorCode, InterruptId, Timestamp};

const NOW: Timestamp = Timestamp(1_500);

async fn instance(store: &dyn Store) {
    let metadata = Map::from_iter([(INSTANCE.to_owned(), Value::Bool(true))]);
    let id = thread("t");
    let graph = Some("test:graph".to_owned());
    let created_at = Timestamp(900);
    let if_exists = IfExists::Refuse;
    let new = NewThread { id, graph, metadata, created_at, if_exists };
    store.create_thread(&us(), new).await.expect("a thread");
}

fn activity(run: &str, priority: i32, not_before: Option<i64>) -> NewRun {
    let mut new = new_run("t", run);
    new.options.mailbox = Some(Mailbox { priority, ..Mailbox::of_capacity(4) });
    new.options.not_before = not_before.map(Timestamp);
    new
}

async fn send(store: &dyn Store, new: NewRun) -> Result<RunRow, StoreError> {
    store.create_run(&us(), new, BTreeMap::new()).await
}

fn continuation(run: &str) -> NewRun {
    NewRun { input: RunInput::Continue, ..activity(run, 0, None) }
}

async fn sent(store: &dyn Store, run: &str, priority: i32) {
    let row = send(store, activity(run, priority, None)).await.expect("accepted");
    assert_eq!(row.status, RunStatus::Queued, "also as the only run");
}

/// The run whose turn it is, as a worker and as recovery find it.
async fn next(store: &dyn Store, now: Timestamp) -> Option<String> {
    let next = store.next_run(&us(), &thread("t"), now).await.expect("reads");
    let next = next.map(|(by, run)| {
        assert_eq!(by, us());
        run
    });
    let orphans = store.orphans(now, 9).await.expect("reads");
    let claimable = next.as_ref().filter(|run| !run.waits_in_mailbox(now) && run.worker.is_none());
    let found = orphans.first().map(|(_, run)| &run.new.at.run);
    assert_eq!(found, claimable.map(|run| &run.new.at.run));
    next.map(|run| run.new.at.run.to_string())
}

async fn claim(store: &dyn Store, run: &str) -> Result<Claim, StoreError> {
    let worker = register(store, "w1", 1_500).await;
    Ok(store.claim(&us(), &at("t", run), &worker, NOW).await?.0)
}

pub(super) async fn activities_take_turns_by_priority_then_arrival(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    assert_eq!(next(store, NOW).await, None);
    for (run, priority) in [("r1", 0), ("r2", 7), ("r3", 0)] {
        sent(store, run, priority).await;
    }
    let mut order = Vec::new();
    while let Some(run) = next(store, NOW).await {
        if order.is_empty() {
            let early = claim(store, "r1").await;
            assert_eq!(early, Err(invariants::busy(&at("t", "r2"))));
        }
        let claim = claim(store, &run).await.expect("its turn");
        // The one that is claimed stays the first.
        if order.is_empty() {
            sent(store, "r4", 9).await;
        }
        assert_eq!(next(store, NOW).await.as_ref(), Some(&run));
        finish(store, &claim, 1_600).await;
        order.push(run);
    }
    assert_eq!(order, ["r2", "r4", "r1", "r3"]);
    let counts = store.count_activities(&us(), &thread("t")).await.expect("reads");
    assert_eq!(counts, ActivityCounts { succeeded: 4, ..ActivityCounts::default() });
    let others = store.count_activities(&principal("others"), &thread("t")).await;
    assert_eq!(others, Ok(ActivityCounts::default()));
}

pub(super) async fn an_activity_waits_for_its_time_alone(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    send(store, activity("r1", 9, Some(2_000))).await.expect("accepted");
    assert_eq!(next(store, NOW).await.as_deref(), Some("r1"), "there is no other");
    sent(store, "r2", 0).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
    assert_eq!(next(store, Timestamp(2_000)).await.as_deref(), Some("r1"));
}

pub(super) async fn a_mailbox_is_bounded_and_closed_by_termination(store: Arc<dyn Store>) {
    let store = &*store;
    let missing = send(store, activity("r0", 0, None)).await;
    assert_eq!(missing, Err(invariants::missing("instance", thread("t"))));
    instance(store).await;
    for run in ["r1", "r2", "r3", "r4"] {
        sent(store, run, 0).await;
    }
    let full = StoreError::MailboxFull { thread: "t".to_owned(), capacity: 4 };
    assert_eq!(send(store, activity("r5", 0, None)).await, Err(full));
    let claimed = claim(store, "r1").await.expect("its turn");
    finish(store, &claimed, 1_600).await;
    sent(store, "r5", 0).await;

    let running = claim(store, "r2").await.expect("its turn");
    let mark = Map::from_iter([(TERMINATED.to_owned(), Value::Bool(true))]);
    store.update_metadata(&us(), &thread("t"), mark, NOW).await.expect("marks");
    let closed = StoreError::MailboxClosed { thread: "t".to_owned() };
    assert_eq!(send(store, activity("r6", 0, None)).await, Err(closed.clone()));
    // Also a run that is no activity, although another run is unfinished.
    assert_eq!(send(store, new_run("t", "r7")).await, Err(closed.clone()));
    assert_eq!(send(store, continuation("r8")).await, Err(closed.clone()));
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
    finish(store, &running, 1_700).await;
    // The others wait, and can be cancelled.
    assert_eq!(next(store, NOW).await, None);
    assert_eq!(claim(store, "r3").await, Err(closed));
    store.request_cancel(&us(), &at("t", "r4")).await.expect("waits");
    assert_eq!(next(store, NOW).await.as_deref(), Some("r4"));
    cancel_orphan(store, &us(), &at("t", "r4"), &worker("w2"), NOW).await.expect("is cancelled");
    let counts = store.count_activities(&us(), &thread("t")).await.expect("reads");
    let expected = ActivityCounts { waiting: 2, succeeded: 2, cancelled: 1, ..counts };
    assert_eq!((counts, counts.running, counts.failed), (expected, 0, 0));
}

pub(super) async fn what_waits_and_what_ended_last_are_found(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    let id = |run: RunRow| run.new.at.run.to_string();
    let unfinished = async || {
        let runs = store.unfinished_runs(&us(), &thread("t")).await.expect("reads");
        runs.into_iter().map(id).collect::<Vec<_>>()
    };
    let last = async || store.last_ended(&us(), &thread("t")).await.expect("reads").map(id);
    assert_eq!((unfinished().await, last().await), (Vec::new(), None));
    for (run, priority) in [("r1", 0), ("r2", 5), ("r3", 9), ("r4", 0)] {
        sent(store, run, priority).await;
    }
    let first = claim(store, "r3").await.expect("its turn");
    assert_eq!((unfinished().await.join(" "), last().await), ("r1 r2 r3 r4".to_owned(), None));
    finish(store, &first, 1_600).await;
    let second = claim(store, "r2").await.expect("its turn");
    finish(store, &second, 1_700).await;
    assert_eq!(last().await.as_deref(), Some("r2"));
    let third = claim(store, "r1").await.expect("its turn");
    let batch = these(vec![checkpoint(1)]).into();
    write(store, &third, Commit { batch, finish: completed(), ..commit(1_700) }).await;
    assert_eq!(last().await.as_deref(), Some("r1"), "of equal times, the one with a checkpoint");
    assert_eq!(unfinished().await, ["r4"]);
}

pub(super) async fn a_continuation_begins_at_once_or_is_refused(store: Arc<dyn Store>) {
    let store = &*store;
    let missing = send(store, continuation("r0")).await;
    assert_eq!(missing, Err(invariants::missing("instance", thread("t"))));
    instance(store).await;
    let row = send(store, continuation("r1")).await.expect("accepted");
    assert_eq!(row.status, RunStatus::Pending);
    sent(store, "r2", 9).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r1"), "before activities of any priority");
    let busy = send(store, continuation("r3")).await;
    assert_eq!(busy, Err(invariants::busy(&at("t", "r1"))));
    let claimed = claim(store, "r1").await.expect("its turn");
    finish(store, &claimed, 1_600).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
}

pub(super) async fn a_terminated_instance_does_not_try_again(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    sent(store, "r1", 0).await;
    let claimed = claim(store, "r1").await.expect("its turn");
    let fault = Fault::new(ErrorCode("W0109"), "no luck");
    let finish = Some(RunOutcome::Failed { fault });
    write(store, &claimed, Commit { finish, ..commit(1_600) }).await;
    let mark = Map::from_iter([(TERMINATED.to_owned(), Value::Bool(true))]);
    store.update_metadata(&us(), &thread("t"), mark, NOW).await.expect("marks");
    let requeued = store.requeue(&us(), &at("t", "r1"), Timestamp(1_700)).await;
    assert_eq!(requeued, Err(StoreError::MailboxClosed { thread: "t".to_owned() }));
    let row = store.run(&us(), &at("t", "r1")).await.expect("the run");
    assert_eq!(row.status, RunStatus::Failed);
}

pub(super) async fn a_terminated_instance_does_not_resume_by_itself(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    sent(store, "r1", 0).await;
    let claimed = claim(store, "r1").await.expect("its turn");
    let finish = interrupted(&[1]);
    let interrupts = vec![question(1)];
    let wakes_at = Some(Timestamp(2_000));
    write(store, &claimed, Commit { interrupts, finish, wakes_at, ..commit(1_600) }).await;
    let due = async || {
        let due = store.due(Timestamp(2_000), vec!["test:graph".to_owned()], 9).await;
        due.expect("reads").len()
    };
    assert_eq!(due().await, 1);
    let mark = Map::from_iter([(TERMINATED.to_owned(), Value::Bool(true))]);
    store.update_metadata(&us(), &thread("t"), mark, NOW).await.expect("marks");
    assert_eq!(due().await, 0);
}

pub(super) async fn the_last_of_two_runs_of_one_time_is_due(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    // By the order in which they ended, and not in which they were sent.
    sent(store, "asks", 0).await;
    sent(store, "first", 9).await;
    let with = |id| these(vec![checkpoint(id)]);
    let claimed = claim(store, "first").await.expect("its turn");
    let ends = Commit { batch: with(1).into(), finish: completed(), ..commit(1_600) };
    write(store, &claimed, ends).await;
    let claimed = claim(store, "asks").await.expect("its turn");
    let interrupts = vec![question(1)];
    let wakes_at = Some(NOW);
    let finish = interrupted(&[1]);
    let asks = Commit { batch: with(2).into(), interrupts, finish, wakes_at, ..commit(1_600) };
    write(store, &claimed, asks).await;
    let due = store.due(Timestamp(2_000), vec!["test:graph".to_owned()], 9).await.expect("reads");
    assert_eq!(due.iter().map(|(_, run)| &run.new.at).collect::<Vec<_>>(), [&at("t", "asks")]);
}

/// Executes an activity up to a question.
async fn asks(store: &dyn Store, run: &str, wakes_at: Option<Timestamp>) {
    sent(store, run, 0).await;
    let claimed = claim(store, run).await.expect("its turn");
    let commit =
        Commit { interrupts: vec![question(1)], finish: interrupted(&[1]), ..commit(1_600) };
    write(store, &claimed, Commit { wakes_at, ..commit }).await;
}

async fn counts(store: &dyn Store) -> ActivityCounts {
    store.count_activities(&us(), &thread("t")).await.expect("reads")
}

fn answer(run: &str) -> NewRun {
    let answers = BTreeMap::from([(InterruptId(1), Value::Bool(true))]);
    let command = RunCommand { answers: Some(Answers::ById(answers)), ..RunCommand::default() };
    NewRun { input: RunInput::Command(command), ..continuation(run) }
}

async fn answered(store: &dyn Store, run: &str) -> Result<RunRow, StoreError> {
    let value =
        Answer { value: Value::Bool(true), answered_by: "ada".to_owned(), answered_at: NOW };
    store.create_run(&us(), answer(run), BTreeMap::from([(InterruptId(1), value)])).await
}

pub(super) async fn an_open_question_holds_the_mailbox(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", None).await;
    sent(store, "r2", 9).await;
    assert_eq!(next(store, NOW).await, None);
    assert_eq!(claim(store, "r2").await, Err(invariants::busy(&at("t", "r1"))));
    assert_eq!(
        counts(store).await,
        ActivityCounts { waiting: 1, asking: 1, ..counts(store).await }
    );
    // The answer precedes the activities that wait.
    let row = answered(store, "r3").await.expect("accepted");
    assert_eq!((row.status, row.answers), (RunStatus::Pending, Some(at("t", "r1").run)));
    assert_eq!(next(store, NOW).await.as_deref(), Some("r3"));
    assert!(claim(store, "r2").await.is_err());
    let claimed = claim(store, "r3").await.expect("its turn");
    finish(store, &claimed, 1_700).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
    let expected = ActivityCounts { waiting: 1, succeeded: 1, ..ActivityCounts::default() };
    assert_eq!(counts(store).await, expected);
}

pub(super) async fn a_question_stays_that_of_the_run_that_asked_it(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", None).await;
    sent(store, "r2", 0).await;
    sent(store, "r3", 0).await;
    // An activity that is cancelled passes the question, and does not become its run.
    store.request_cancel(&us(), &at("t", "r2")).await.expect("waits");
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
    cancel_orphan(store, &us(), &at("t", "r2"), &worker("w2"), NOW).await.expect("is cancelled");
    let asked = store.interrupts(&us(), &thread("t")).await.expect("reads");
    assert_eq!(
        asked.iter().map(|row| (&row.run, row.is_open())).collect::<Vec<_>>(),
        [(&at("t", "r1").run, true)]
    );
    assert_eq!(next(store, NOW).await, None);
    let expected = ActivityCounts { waiting: 1, asking: 1, cancelled: 1, ..Default::default() };
    assert_eq!(counts(store).await, expected);
    answered(store, "r4").await.expect("accepted");
    let claimed = claim(store, "r4").await.expect("its turn");
    finish(store, &claimed, 1_700).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r3"));
}

pub(super) async fn a_timer_resumes_the_activity_that_waits_for_it(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", Some(Timestamp(2_000))).await;
    sent(store, "r2", 0).await;
    let due = store.due(Timestamp(2_000), vec!["test:graph".to_owned()], 9).await.expect("reads");
    assert_eq!(due.iter().map(|(_, run)| &run.new.at).collect::<Vec<_>>(), [&at("t", "r1")]);
    let row = send(store, continuation("r3")).await.expect("accepted");
    assert_eq!(row.status, RunStatus::Pending, "before the activity that waits");
    let claimed = claim(store, "r3").await.expect("its turn");
    finish(store, &claimed, 1_700).await;
    assert_eq!(next(store, NOW).await.as_deref(), Some("r2"));
}

pub(super) async fn an_activity_counts_once_with_its_continuations(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    sent(store, "r1", 0).await;
    let claimed = claim(store, "r1").await.expect("its turn");
    let fails = || {
        let fault = Fault::new(ErrorCode("W0109"), "no disk");
        Commit { finish: Some(RunOutcome::Failed { fault }), ..commit(1_600) }
    };
    write(store, &claimed, fails()).await;
    for (run, ends, expected) in [
        ("r2", fails(), ActivityCounts { failed: 1, ..Default::default() }),
        (
            "r3",
            Commit { finish: completed(), ..commit(1_600) },
            ActivityCounts { succeeded: 1, ..Default::default() },
        ),
    ] {
        let mut again = continuation(run);
        again.options.activity = Some(at("t", "r1"));
        send(store, again).await.expect("accepted");
        let claimed = claim(store, run).await.expect("its turn");
        write(store, &claimed, ends).await;
        assert_eq!(counts(store).await, expected, "{run}");
    }
}

pub(super) async fn a_deadline_passes_an_open_question(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", None).await;
    let mut limited = activity("r2", 9, None);
    limited.options.deadline = Some(Timestamp(1_700));
    send(store, limited).await.expect("accepted");
    sent(store, "r3", 0).await;
    assert_eq!(next(store, Timestamp(1_699)).await, None);
    assert_eq!(next(store, Timestamp(1_700)).await.as_deref(), Some("r2"));
    let late = Timestamp(1_700);
    let worker = register(store, "w1", 1_700).await;
    let claimed = store.claim(&us(), &at("t", "r2"), &worker, late).await.expect("its turn").0;
    let fault = Fault::new(ErrorCode("W0135"), "too late");
    let finish = Some(RunOutcome::Failed { fault });
    let interrupts = vec![question(1)];
    let ends = Commit { interrupts, finish, is_unbegun: true, ..commit(1_700) };
    write(store, &claimed, ends).await;
    let rows = store.interrupts(&us(), &thread("t")).await.expect("reads");
    assert_eq!((&rows[0].run, rows[0].is_open()), (&at("t", "r1").run, true));
    let expected = ActivityCounts { waiting: 1, asking: 1, failed: 1, ..Default::default() };
    assert_eq!(counts(store).await, expected);
    assert_eq!(next(store, late).await, None, "the others wait");
}

pub(super) async fn an_activity_that_asks_ends_with_its_instance(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", Some(Timestamp(2_000))).await;
    let mut limited = activity("r2", 0, None);
    limited.options.deadline = Some(Timestamp(1_600));
    send(store, limited).await.expect("accepted");
    let mark = Map::from_iter([(TERMINATED.to_owned(), Value::Bool(true))]);
    store.update_metadata(&us(), &thread("t"), mark, NOW).await.expect("is marked");
    let answer = answered(store, "r3").await;
    assert!(matches!(answer, Err(StoreError::MailboxClosed { .. })), "{answer:?}");
    let worker = register(store, "w1", 1_500).await;
    let end = async |run| end_asking(store, &us(), &at("t", run), &worker, NOW).await;
    assert_eq!(end("r4").await, Ok(Some(at("t", "r1"))));
    let rows = store.interrupts(&us(), &thread("t")).await.expect("reads");
    assert!(rows.iter().all(|row| !row.is_open()), "{rows:?}");
    let expected = ActivityCounts { waiting: 1, cancelled: 1, ..Default::default() };
    assert_eq!(counts(store).await, expected);
    let due = store.due(Timestamp(2_000), vec!["test:graph".to_owned()], 9).await.expect("reads");
    assert_eq!(due, [], "no timer");
    assert_eq!(next(store, Timestamp(9_000)).await, None, "what is kept does not end");
    assert_eq!(end("r5").await, Ok(None));
}

pub(super) async fn the_mailbox_is_the_only_door(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    asks(store, "r1", None).await;
    let refused = |refused| Err(StoreError::BelongsToInstance { thread: "t".to_owned(), refused });
    let beside = new_run("t", "r2");
    assert_eq!(send(store, beside.clone()).await, refused(RefusedByInstance::Input));
    for multitask in [Multitask::Enqueue, Multitask::Interrupt, Multitask::Rollback] {
        let options = RunOptions { multitask, ..beside.options.clone() };
        let new = NewRun { options, ..beside.clone() };
        assert_eq!(send(store, new).await, refused(RefusedByInstance::Input));
    }
    let update = vec![("x".to_owned(), Value::Null)];
    let command = RunCommand { update, ..RunCommand::default() };
    let change = RunInput::Update { writes: json!({}), as_node: None };
    for input in [RunInput::Command(command), change] {
        let new = NewRun { input, ..beside.clone() };
        assert_eq!(send(store, new).await, refused(RefusedByInstance::Input));
    }
    let options = RunOptions { at: Some(CheckpointId(1)), ..beside.options.clone() };
    let new = NewRun { input: RunInput::Continue, options, ..beside };
    assert_eq!(send(store, new).await, refused(RefusedByInstance::Checkpoint));
    for multitask in [Multitask::Interrupt, Multitask::Rollback] {
        let new = continuation("r2");
        let options = RunOptions { multitask, ..new.options.clone() };
        let sent = send(store, NewRun { options, ..new }).await;
        assert_eq!(sent, refused(RefusedByInstance::Cancellation));
    }
    assert_eq!(counts(store).await, ActivityCounts { asking: 1, ..ActivityCounts::default() });
    answered(store, "r3").await.expect("an answer is a continuation");
}

pub(super) async fn the_thread_of_a_living_instance_is_not_deleted(store: Arc<dyn Store>) {
    let store = &*store;
    instance(store).await;
    sent(store, "r1", 0).await;
    let claimed = claim(store, "r1").await.expect("its turn");
    finish(store, &claimed, 1_600).await;
    let refused = RefusedByInstance::Deletion;
    let refused = StoreError::BelongsToInstance { thread: "t".to_owned(), refused };
    assert_eq!(store.delete_thread(&us(), &thread("t")).await, Err(refused));
    let old = Untouched { before: Timestamp(9_000), waiting: Waiting::Included, limit: 9 };
    assert_eq!(store.untouched(&us(), old).await, Ok(Vec::new()));
    assert_eq!(store.delete_untouched(&us(), old).await, Ok(Vec::new()));
    let mark = Map::from_iter([(TERMINATED.to_owned(), Value::Bool(true))]);
    store.update_metadata(&us(), &thread("t"), mark, NOW).await.expect("marks");
    assert_eq!(store.untouched(&us(), old).await.expect("reads").len(), 1);
    store.delete_thread(&us(), &thread("t")).await.expect("is terminated");
    assert!(store.thread(&us(), &thread("t")).await.is_err());
}
