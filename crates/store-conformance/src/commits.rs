use super::checkpoints::{
    after, all, blob, found, has_blob, ids, look, parts, put_checkpoints, shelf,
};
use super::fixture::{
    at, begin, checkpoint, commit, completed, custom_event, finish, outside, question, register,
    tasks, these, thread, us, write,
};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{CheckpointBatch, CheckpointNamespace, NewCheckpoint};
use weftwork_store::{Claim, Commit};
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::{CheckpointId, ErrorCode, Timestamp};

pub(super) async fn events_are_gapless_and_in_order(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let mut expected_first = 1;
    for (n, count) in [(0, 1), (1, 3), (4, 0), (4, 2), (6, 0), (6, 1)] {
        let events = (n..n + count).map(custom_event).collect();
        let made = store.commit(&us(), &claim, Commit { events, ..commit(1_100 + n) }).await;
        assert_eq!(made.expect("commits").first_seq, expected_first);
        expected_first += u64::try_from(count).expect("a count");
    }
    let all = store.events(&us(), &at("t", "r"), 0, usize::MAX).await.expect("events");
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    let times: Vec<i64> = all.iter().map(|event| event.at.0).collect();
    assert_eq!(times, [1_100, 1_101, 1_101, 1_101, 1_104, 1_104, 1_106]);
    for (n, event) in (0..).zip(&all) {
        assert_eq!(event.event, custom_event(n));
    }
    // The log can be read from any number, including one within a commit.
    for after in 0..9u64 {
        for limit in 0..9usize {
            let some = store.events(&us(), &at("t", "r"), after, limit).await.expect("events");
            let skipped = usize::try_from(after).expect("a small number");
            let expected: Vec<_> = all.iter().skip(skipped).take(limit).cloned().collect();
            assert_eq!(some, expected, "after {after}, at most {limit}");
        }
    }
    let far = store.events(&us(), &at("t", "r"), u64::MAX, usize::MAX).await;
    assert_eq!(far, Ok(Vec::new()));
}

pub(super) async fn each_run_numbers_its_own_events(store: Arc<dyn Store>) {
    for run in ["r1", "r2"] {
        let claim = begin(&*store, "t", run).await;
        let events = vec![custom_event(1), custom_event(2)];
        let made = store.commit(&us(), &claim, Commit { events, ..commit(1_100) }).await;
        assert_eq!(made.expect("commits").first_seq, 1);
        finish(&*store, &claim, 1_200).await;
        let read = store.events(&us(), &at("t", run), 0, 9).await.expect("events");
        assert_eq!(read.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
    }
}

pub(super) async fn the_head_is_what_was_kept_last(store: Arc<dyn Store>) {
    let head = async || {
        let row = store.thread(&us(), &thread("t")).await.expect("the thread");
        (row.head.map(|id| id.0), row.updated_at.0)
    };
    let claim = begin(&*store, "t", "r1").await;
    let first = these(vec![checkpoint(1), checkpoint(3)]);
    write(&*store, &claim, Commit { batch: first.into(), ..commit(1_100) }).await;
    assert_eq!(head().await, (Some(3), 1_100));
    write(&*store, &claim, Commit { events: vec![custom_event(1)], ..commit(1_200) }).await;
    assert_eq!(head().await, (Some(3), 1_200), "a commit without checkpoints leaves it");
    // A branch may start at any checkpoint, including one with a lower id.
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(2)]).into(), ..commit(1_300) })
        .await;
    assert_eq!(head().await, (Some(2), 1_300));
    finish(&*store, &claim, 1_400).await;
    let claim = begin(&*store, "t", "r2").await;
    assert_eq!(head().await.0, Some(2), "it outlives the run");
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(4)]).into(), ..commit(1_500) })
        .await;
    assert_eq!(head().await, (Some(4), 1_500));
}

pub(super) async fn a_refused_commit_changes_nothing(store: Arc<dyn Store>) {
    let old = begin(&*store, "t", "r").await;
    let first = Commit {
        batch: CheckpointBatch { pending: vec![tasks(1, "left")], ..these(vec![checkpoint(1)]) }
            .into(),
        interrupts: vec![question(1)],
        events: vec![custom_event(1)],
        ..commit(1_100)
    };
    write(&*store, &old, first).await;
    let w2 = register(&*store, "w2", 50_000).await;
    let new = store.claim(&us(), &old.at, &w2, Timestamp(50_000)).await.expect("takes over").0;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let elsewhere = Claim { at: at("t", "r9"), ..new.clone() };
    let fenced = StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 1 };
    for (claim, error) in [(&old, fenced), (&elsewhere, invariants::missing("run", "r9"))] {
        let bad = Commit {
            batch: CheckpointBatch {
                pending: vec![tasks(1, "more"), outside(1, "other")],
                ..these(vec![checkpoint(1), checkpoint(2)])
            }
            .into(),
            interrupts: vec![question(2)],
            events: vec![custom_event(2)],
            finish: completed(),
            ..commit(50_100)
        };
        assert_eq!(store.commit(&us(), claim, bad).await, Err(error));
        assert_eq!(super::dump(&*store, &[us()]).await.as_ref(), Ok(&before));
    }
    let next = Commit { events: vec![custom_event(3)], ..commit(50_200) };
    let next = store.commit(&us(), &new, next).await.expect("the run goes on");
    assert_eq!(next.first_seq, 2, "a refused event leaves no gap");
}

pub(super) async fn the_thread_follows_the_outcome_of_the_run(store: Arc<dyn Store>) {
    let fault = Fault::new(ErrorCode("W0101"), "it broke").retriable(true);
    let outcomes = [
        (RunOutcome::Completed { output: json!({"a": [1]}) }, RunStatus::Completed),
        (RunOutcome::interrupted(Vec::new()), RunStatus::Interrupted),
        (RunOutcome::LimitReached { step_limit: 3 }, RunStatus::LimitReached),
        (RunOutcome::cancelled(), RunStatus::Cancelled),
        (RunOutcome::Failed { fault }, RunStatus::Failed),
    ];
    for (n, (outcome, status)) in (0..).zip(outcomes) {
        let claim = begin(&*store, "t", &format!("r{n}")).await;
        let running = store.thread(&us(), &thread("t")).await.expect("the thread");
        assert_eq!(running.status, Some(RunStatus::Running));
        let end = AiEvent::Done { outcome: status };
        let last = Commit { events: vec![end], finish: Some(outcome.clone()), ..commit(5_000 + n) };
        write(&*store, &claim, last).await;
        let run = store.run(&us(), &claim.at).await.expect("the run");
        assert_eq!((run.status, run.outcome), (status, Some(outcome)));
        assert_eq!((run.ended_at, run.worker), (Some(Timestamp(5_000 + n)), Some(claim.worker)));
        let ended = store.thread(&us(), &thread("t")).await.expect("the thread");
        assert_eq!((ended.status, ended.updated_at), (Some(status), Timestamp(5_000 + n)));
    }
}

pub(super) async fn values_read_back_as_they_were_written(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let values = [
        json!({"b": 1, "a": {"z": [], "": null}}),
        json!([0.1, 1e300, -5e-324, 0.700_000_000_000_000_1, 2.2250738585072014e-308, 1.0]),
        json!([i64::MIN, u64::MAX, true, "\u{0}\u{1f}\u{10ffff} \"quoted\" \\ line\nend"]),
        Value::String("x".repeat(100_000)),
    ];
    let events: Vec<AiEvent> = values.iter().map(|value| AiEvent::custom(value.clone())).collect();
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(200_000).collect();
    let big = NewCheckpoint { body: bytes.clone(), ..checkpoint(1) };
    let empty = NewCheckpoint { body: Vec::new(), ..checkpoint(u128::MAX) };
    let batch = these(vec![big, empty]);
    write(
        &*store,
        &claim,
        Commit { batch: batch.into(), events: events.clone(), ..commit(i64::MAX) },
    )
    .await;
    let shelf = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let page = store.page(&us(), &shelf, None, 9).await.expect("reads");
    let read: Vec<_> = page.into_iter().map(|found| (found.id.0, found.body)).collect();
    assert_eq!(read, [(u128::MAX, Vec::new()), (1, bytes)]);
    let read = store.events(&us(), &claim.at, 0, 99).await.expect("events");
    assert!(read.iter().all(|row| row.at == Timestamp(i64::MAX)));
    assert_eq!(read.into_iter().map(|row| row.event).collect::<Vec<_>>(), events);
}

pub(super) async fn a_commit_keeps_checkpoints_and_moves_the_head(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let head = async || store.thread(&us(), &thread("t")).await.map(|row| row.head);
    let inner = NewCheckpoint { ns: "in".to_owned(), ..checkpoint(9) };
    let kept = CheckpointBatch {
        pending: vec![tasks(2, "a")],
        blobs: vec![blob("b")],
        layouts: vec![blob("l")],
        ..these(vec![checkpoint(1), after(1, 2), inner])
    };
    write(&*store, &claim, Commit { batch: kept.into(), ..commit(1_100) }).await;
    assert_eq!(head().await, Ok(Some(CheckpointId(2))));
    assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(2), &["a"])));
    assert_eq!(ids(&*store, &shelf("t", "in"), None, 9).await, [9]);
    assert!(has_blob(&*store, "b").await);
    assert_eq!(store.layout(&us(), blob("l").0).await, Ok(Some(b"l".to_vec())));
    // Open parts and checkpoints of subgraphs do not move the head.
    let inner = NewCheckpoint { ns: "in".to_owned(), ..checkpoint(10) };
    let kept = CheckpointBatch { pending: vec![tasks(1, "b")], ..these(vec![inner]) };
    write(&*store, &claim, Commit { batch: kept.into(), ..commit(1_200) }).await;
    assert_eq!(head().await, Ok(Some(CheckpointId(2))));
    // Removing checkpoints does.
    let rest = these(vec![checkpoint(1)]);
    store.rewrite(&us(), &shelf("t", ""), CheckpointId(2), rest).await.expect("rewrites");
    assert_eq!(head().await, Ok(Some(CheckpointId(1))));
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(head().await, Ok(None));
    put_checkpoints(&*store, "from", these(vec![checkpoint(4)])).await;
    store.copy_checkpoints(&us(), &thread("from"), &thread("t")).await.expect("copies");
    assert_eq!(head().await, Ok(Some(CheckpointId(4))));
    finish(&*store, &claim, 1_300).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(all(&*store, "t").await, []);
}

pub(super) async fn a_kept_checkpoint_closes_questions(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let closed = async || {
        let rows = store.interrupts(&us(), &thread("t")).await.expect("reads");
        rows.iter().map(|row| row.closed).collect::<Vec<_>>()
    };
    let asked = vec![question(1), question(2)];
    write(&*store, &claim, Commit { interrupts: asked, ..commit(1_100) }).await;
    let open = parts(vec![tasks(1, "a")]);
    write(&*store, &claim, Commit { batch: open.into(), ..commit(1_200) }).await;
    assert_eq!(closed().await, [false, false]);
    let next = these(vec![checkpoint(1)]);
    let again = vec![question(2)];
    write(&*store, &claim, Commit { batch: next.into(), interrupts: again, ..commit(1_300) }).await;
    assert_eq!(closed().await, [true, false]);
}

pub(super) async fn an_old_claim_keeps_nothing(store: Arc<dyn Store>) {
    let old = begin(&*store, "t", "r").await;
    let kept = || CheckpointBatch {
        pending: vec![tasks(1, "late"), outside(1, "late")],
        blobs: vec![blob("late")],
        layouts: vec![blob("names")],
        ..these(vec![after(1, 2)])
    };
    write(&*store, &old, Commit { batch: these(vec![checkpoint(1)]).into(), ..commit(1_100) })
        .await;
    let w2 = register(&*store, "w2", 50_000).await;
    let new = store.claim(&us(), &old.at, &w2, Timestamp(50_000)).await.expect("takes over").0;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let refused = async |claim| {
        let made =
            store.commit(&us(), claim, Commit { batch: kept().into(), ..commit(50_100) }).await;
        assert!(matches!(made, Err(StoreError::Fenced { .. })), "{made:?}");
        assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(1), &[])));
        assert!(!has_blob(&*store, "late").await);
        assert_eq!(store.layout(&us(), blob("names").0).await, Ok(None));
    };
    refused(&old).await;
    assert_eq!(super::dump(&*store, &[us()]).await, Ok(before));
    finish(&*store, &new, 50_200).await;
    refused(&new).await;
}
