use super::fixture::{
    at, begin, call, checkpoint, commit, custom_event, fact, finish, interrupted, keyed, new_run,
    question, record, register, tasks, these, thread, us, worker, write,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{CheckpointBatch, CheckpointNamespace};
use weftwork_types::Timestamp;
use weftwork_types::run::{RunInput, RunStatus};
use weftwork_types::tool::Effect;

pub(super) async fn a_run_makes_its_thread(store: Arc<dyn Store>) {
    let row = store.create_run(&us(), new_run("t", "r"), BTreeMap::new()).await.expect("a run");
    assert_eq!(row.new, new_run("t", "r"));
    assert_eq!(
        (row.status, row.fence, row.worker.clone(), row.cancel_requested),
        (RunStatus::Pending, 0, None, false)
    );
    assert_eq!((&row.outcome, row.ended_at), (&None, None));
    assert_eq!(store.run(&us(), &at("t", "r")).await, Ok(row));
    let made = store.thread(&us(), &thread("t")).await.expect("a thread");
    assert_eq!((made.status, made.head), (Some(RunStatus::Pending), None));
    assert_eq!((made.created_at, made.updated_at), (Timestamp(1_000), Timestamp(1_000)));
    assert_eq!(made.graph.as_deref(), Some("test:graph"));
}

pub(super) async fn threads_are_listed_by_last_change(store: Arc<dyn Store>) {
    for (name, created) in [("a", 10), ("b", 30), ("c", 20), ("d", 20)] {
        let mut run = new_run(name, &format!("r-{name}"));
        run.created_at = Timestamp(created);
        store.create_run(&us(), run, BTreeMap::new()).await.expect("a run");
    }
    let names = |rows: Vec<weftwork_store::ThreadRow>| -> Vec<String> {
        rows.iter().map(|row| row.id.to_string()).collect()
    };
    let all = store.threads(&us(), 0, usize::MAX).await.expect("threads");
    assert_eq!(names(all), ["b", "d", "c", "a"]);
    let some = store.threads(&us(), 1, 2).await.expect("threads");
    assert_eq!(names(some), ["d", "c"]);
    assert_eq!(store.threads(&us(), 4, 2).await, Ok(Vec::new()));
    assert_eq!(store.threads(&us(), 0, 0).await, Ok(Vec::new()));
    assert_eq!(store.threads(&us(), usize::MAX, usize::MAX).await, Ok(Vec::new()));

    let w = register(&*store, "w1", 0).await;
    store.claim(&us(), &at("a", "r-a"), &w, Timestamp(40)).await.expect("a claim");
    let all = store.threads(&us(), 0, 1).await.expect("threads");
    assert_eq!((all[0].id.as_str(), all[0].status), ("a", Some(RunStatus::Running)));
    assert_eq!(all[0].created_at, Timestamp(10));
}

pub(super) async fn runs_are_listed_oldest_first(store: Arc<dyn Store>) {
    for run in ["r2", "r1", "r3"] {
        let claim = begin(&*store, "t", run).await;
        finish(&*store, &claim, 1_500).await;
    }
    let runs = store.runs(&us(), &thread("t")).await.expect("runs");
    let names: Vec<_> = runs.iter().map(|row| row.new.at.run.as_str()).collect();
    assert_eq!(names, ["r2", "r1", "r3"]);
    assert!(runs.iter().all(|row| row.status == RunStatus::Completed));
}

pub(super) async fn the_same_key_and_request_give_the_first_run(store: Arc<dyn Store>) {
    let first = keyed(new_run("t", "r1"), "once");
    let made = store.create_run(&us(), first.clone(), BTreeMap::new()).await.expect("a run");
    let mut again = keyed(new_run("t", "r2"), "once");
    again.created_at = Timestamp(9_000);
    again.caller = weftwork_types::caller::Caller::local("request-2").expect("an id");
    // Both are computed from the time of the request.
    again.options.deadline = Some(Timestamp(19_000));
    again.options.not_before = Some(Timestamp(9_001));
    // They have no effect on the run.
    again.options.stream_modes = vec!["updates".to_owned()];
    // While the first run is unfinished and after it has ended, the result is the first run.
    let repeated = store.create_run(&us(), again.clone(), BTreeMap::new()).await;
    assert_eq!(repeated, Ok(made));
    let w = register(&*store, "w1", 1_000).await;
    let (claim, _) = store.claim(&us(), &first.at, &w, Timestamp(1_001)).await.expect("a claim");
    finish(&*store, &claim, 1_500).await;
    let repeated = store.create_run(&us(), again, BTreeMap::new()).await.expect("the first run");
    assert_eq!((repeated.new, repeated.status), (first, RunStatus::Completed));
    assert_eq!(store.runs(&us(), &thread("t")).await.map(|runs| runs.len()), Ok(1));
    let changed = store.thread(&us(), &thread("t")).await.expect("the thread").updated_at;
    assert_eq!(changed, Timestamp(1_500), "a repeated request changes nothing");
}

pub(super) async fn the_same_key_with_another_request_is_refused(store: Arc<dyn Store>) {
    let first = keyed(new_run("t", "r1"), "once");
    store.create_run(&us(), first, BTreeMap::new()).await.expect("a run");
    let mut others = vec![keyed(new_run("t", "r2"), "once"); 3];
    others[0].input = RunInput::Start { input: json!({"text": "other"}) };
    others[1].graph = "test:other".to_owned();
    others[2].options.step_limit = Some(3);
    others.push(keyed(new_run("t2", "r2"), "once"));
    for other in others {
        let refused = store.create_run(&us(), other, BTreeMap::new()).await;
        assert_eq!(refused, Err(StoreError::KeyReused { key: "once".to_owned() }));
    }
    assert_eq!(store.threads(&us(), 0, 9).await.map(|rows| rows.len()), Ok(1));
}

pub(super) async fn the_same_run_id_gives_the_first_run_or_is_refused(store: Arc<dyn Store>) {
    let made = store.create_run(&us(), new_run("t", "r"), BTreeMap::new()).await.expect("a run");
    let repeated = store.create_run(&us(), new_run("t", "r"), BTreeMap::new()).await;
    assert_eq!(repeated, Ok(made));
    let elsewhere = store.create_run(&us(), new_run("t2", "r"), BTreeMap::new()).await;
    assert_eq!(elsewhere, Err(invariants::run_id_reused(&at("t2", "r"))));
    let mut other = new_run("t", "r");
    other.input = RunInput::Continue;
    let refused = store.create_run(&us(), other, BTreeMap::new()).await;
    assert_eq!(refused, Err(invariants::run_id_reused(&at("t", "r"))));
}

pub(super) async fn a_thread_has_one_unfinished_run(store: Arc<dyn Store>) {
    store.create_run(&us(), new_run("t", "r1"), BTreeMap::new()).await.expect("a run");
    let second = new_run("t", "r2");
    let busy = || Err(invariants::busy(&at("t", "r1")));
    assert_eq!(store.create_run(&us(), second.clone(), BTreeMap::new()).await, busy());
    let w = register(&*store, "w1", 1_000).await;
    let claimed = store.claim(&us(), &at("t", "r1"), &w, Timestamp(1_001)).await;
    assert_eq!(store.create_run(&us(), second.clone(), BTreeMap::new()).await, busy());
    let deleted = store.delete_thread(&us(), &thread("t")).await;
    assert_eq!(deleted, Err(invariants::busy(&at("t", "r1"))));
    finish(&*store, &claimed.expect("a claim").0, 1_500).await;
    store.create_run(&us(), second, BTreeMap::new()).await.expect("the thread is free again");
}

pub(super) async fn cancel_is_a_flag_that_the_next_commit_returns(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let before = store.commit(&us(), &claim, commit(1_100)).await.expect("commits");
    assert!(!before.cancel_requested);
    for _ in 0..2 {
        store.request_cancel(&us(), &at("t", "r")).await.expect("asks it to stop");
    }
    assert!(store.run(&us(), &at("t", "r")).await.expect("the run").cancel_requested);
    let after = store.commit(&us(), &claim, commit(1_200)).await.expect("commits");
    assert!(after.cancel_requested);
    finish(&*store, &claim, 1_300).await;
    let late = store.request_cancel(&us(), &at("t", "r")).await;
    assert_eq!(late, Err(invariants::missing("run", "r")));
}

pub(super) async fn what_does_not_exist_is_reported_missing(store: Arc<dyn Store>) {
    let us = us();
    let t = thread("t");
    let no_thread = || invariants::missing("thread", "t");
    assert_eq!(store.thread(&us, &t).await, Err(no_thread()));
    assert_eq!(store.runs(&us, &t).await, Err(no_thread()));
    assert_eq!(store.unfinished_runs(&us, &t).await, Err(no_thread()));
    assert_eq!(store.last_ended(&us, &t).await, Err(no_thread()));
    assert_eq!(store.interrupts(&us, &t).await, Err(no_thread()));
    assert_eq!(store.calls(&us, &t).await, Err(no_thread()));
    assert_eq!(store.usage_of_thread(&us, &t).await, Err(no_thread()));
    assert_eq!(store.delete_thread(&us, &t).await, Err(no_thread()));
    assert_eq!(store.threads(&us, 0, 9).await, Ok(Vec::new()));
    // A run is only found in its own thread.
    begin(&*store, "t", "r").await;
    for wrong in [at("t", "r2"), at("t2", "r")] {
        let no_run = || invariants::missing("run", &wrong.run);
        assert_eq!(store.run(&us, &wrong).await, Err(no_run()));
        assert_eq!(store.events(&us, &wrong, 0, 9).await, Err(no_run()));
        assert_eq!(store.request_cancel(&us, &wrong).await, Err(no_run()));
        let claimed = store.claim(&us, &wrong, &worker("w1"), Timestamp(1)).await;
        assert_eq!(claimed, Err(no_run()));
    }
}

pub(super) async fn delete_thread_leaves_nothing(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    record(&*store, &claim, vec![call(1, Effect::ExternalSideEffect)]).await;
    store.record_usage(&us(), fact("i", "r", 1_100)).await.expect("records");
    let all = Commit {
        batch: CheckpointBatch {
            pending: vec![tasks(2, "left behind")],
            ..these(vec![checkpoint(2)])
        }
        .into(),
        interrupts: vec![question(1)],
        events: vec![custom_event(1), custom_event(2)],
        finish: interrupted(&[1]),
        ..commit(1_200)
    };
    write(&*store, &claim, all).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    let dumped = super::dump(&*store, &[us()]).await.expect("reads");
    assert_eq!(dumped, Vec::<String>::new());
    assert_eq!(store.run(&us(), &at("t", "r")).await, Err(invariants::missing("run", "r")));

    // The same ids can be used again, and no old data is visible.
    let keyed_run = keyed(new_run("t", "r"), "once");
    let claim = super::fixture::begin_as(&*store, &us(), keyed_run.clone()).await;
    assert_eq!(claim.fence, 1);
    assert_eq!(store.thread(&us(), &thread("t")).await.map(|row| row.head), Ok(None));
    assert_eq!(store.events(&us(), &at("t", "r"), 0, 9).await, Ok(Vec::new()));
    assert_eq!(store.calls(&us(), &thread("t")).await, Ok(Vec::new()));
    assert_eq!(store.interrupts(&us(), &thread("t")).await, Ok(Vec::new()));
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(2)]).into(), ..commit(1_300) })
        .await;
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let found = store.checkpoint(&us(), &root, None).await.expect("reads").expect("a checkpoint");
    assert_eq!(found.tasks, Vec::<Vec<u8>>::new());
    finish(&*store, &claim, 1_400).await;

    // A key is deleted with its thread.
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    let other = keyed(new_run("t2", "r2"), "once");
    let made = store.create_run(&us(), other.clone(), BTreeMap::new()).await.expect("a run");
    assert_eq!(made.new, other);
}
