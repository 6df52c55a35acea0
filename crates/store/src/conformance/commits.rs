use super::fixture::{
    at, begin, commit, finish, principal, question, step, thread, told, us, write, writes,
};
use crate::error::StoreError;
use crate::record::{Commit, Head, Source, StepRow, TaskWrites};
use crate::rule;
use crate::table::Store;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::run::{RunFinal, RunStatus};
use weftwork_types::{CheckpointId, ErrorCode, Timestamp};

async fn head(store: &dyn Store) -> Head {
    store.head(&us(), &thread("t")).await.expect("reads").expect("a head")
}

async fn pending(store: &dyn Store) -> Vec<TaskWrites> {
    head(store).await.pending
}

fn ids(head: &Head) -> Vec<u128> {
    head.steps.iter().map(|step| step.id.0).collect()
}

pub(super) async fn events_are_gapless_and_in_order(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let mut expected_first = 1;
    for (n, count) in [(0, 1), (1, 3), (4, 0), (4, 2), (6, 0), (6, 1)] {
        let events = (n..n + count).map(told).collect();
        let made = store.commit(&us(), &claim, Commit { events, ..commit(1_100 + n) }).await;
        assert_eq!(made.expect("commits").first_seq, expected_first);
        expected_first += u64::try_from(count).expect("a count");
    }
    let all = store.events(&us(), &at("t", "r"), 0, usize::MAX).await.expect("events");
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    let times: Vec<i64> = all.iter().map(|event| event.at.0).collect();
    assert_eq!(times, [1_100, 1_101, 1_101, 1_101, 1_104, 1_104, 1_106]);
    for (n, event) in (0..).zip(&all) {
        assert_eq!(event.event, told(n));
    }
    // Any place in the log can be read from, also one in the middle of a commit.
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
        let events = vec![told(1), told(2)];
        let made = store.commit(&us(), &claim, Commit { events, ..commit(1_100) }).await;
        assert_eq!(made.expect("commits").first_seq, 1);
        finish(&*store, &claim, 1_200).await;
        let read = store.events(&us(), &at("t", run), 0, 9).await.expect("events");
        assert_eq!(read.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
    }
}

pub(super) async fn steps_lead_from_the_root_to_the_head(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r1").await;
    let steps = vec![step(1, None), step(2, Some(1))];
    write(&*store, &claim, Commit { steps: steps.clone(), ..commit(1_100) }).await;
    write(&*store, &claim, Commit { steps: vec![step(3, Some(2))], ..commit(1_200) }).await;
    finish(&*store, &claim, 1_300).await;
    let claim = begin(&*store, "t", "r2").await;
    write(&*store, &claim, Commit { steps: vec![step(4, Some(3))], ..commit(1_400) }).await;
    let read = head(&*store).await;
    let written = [steps, vec![step(3, Some(2)), step(4, Some(3))]].concat();
    assert_eq!(read, Head { steps: written, pending: Vec::new() });
    let row = store.thread(&us(), &thread("t")).await.expect("the thread");
    assert_eq!((row.head, row.updated_at), (Some(CheckpointId(4)), Timestamp(1_400)));
}

pub(super) async fn the_head_follows_a_fork(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let steps = vec![step(1, None), step(2, Some(1)), step(3, Some(2))];
    write(&*store, &claim, Commit { steps, ..commit(1_100) }).await;
    write(&*store, &claim, Commit { writes: vec![writes(3, 1, "old")], ..commit(1_200) }).await;
    let fork = StepRow { source: Source::Fork, ..step(4, Some(1)) };
    write(&*store, &claim, Commit { steps: vec![fork], ..commit(1_300) }).await;
    assert_eq!(ids(&head(&*store).await), [1, 4]);
    assert_eq!(head(&*store).await.steps[1].source, Source::Fork);
    write(&*store, &claim, Commit { steps: vec![step(5, Some(4))], ..commit(1_400) }).await;
    assert_eq!(ids(&head(&*store).await), [1, 4, 5]);
    // A new root starts a branch of its own.
    write(&*store, &claim, Commit { steps: vec![step(6, None)], ..commit(1_500) }).await;
    assert_eq!(ids(&head(&*store).await), [6]);
}

pub(super) async fn every_checkpoint_can_be_read_on_its_branch(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let steps = vec![step(1, None), step(2, Some(1)), step(3, Some(2)), step(4, Some(1))];
    let inner = StepRow { ns: "inner:1".to_owned(), ..step(5, None) };
    let steps = [steps, vec![inner]].concat();
    write(&*store, &claim, Commit { steps, ..commit(1_100) }).await;
    write(&*store, &claim, Commit { writes: vec![writes(3, 1, "open")], ..commit(1_200) }).await;
    let old = store.lineage(&us(), &thread("t"), CheckpointId(3)).await.expect("lineage");
    assert_eq!((ids(&old), old.pending), (vec![1, 2, 3], vec![writes(3, 1, "open")]));
    let missing = store.lineage(&us(), &thread("t"), CheckpointId(9)).await;
    assert!(matches!(missing, Err(StoreError::NotFound { kind: "checkpoint", .. })));
    let page = async |before: Option<u128>, limit| {
        let rows = store.checkpoints(&us(), &thread("t"), before.map(CheckpointId), limit).await;
        rows.expect("checkpoints").iter().map(|row| row.id.0).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9).await, [4, 3, 2, 1], "the root graph's only, newest first");
    assert_eq!(page(Some(4), 2).await, [3, 2]);
    let other = store.checkpoints(&principal("other"), &thread("t"), None, 9).await;
    assert!(matches!(other, Err(StoreError::NotFound { kind: "thread", .. })));
}

pub(super) async fn subgraph_steps_leave_the_head_alone(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let inner = |id, parent| StepRow { ns: "inner:1".to_owned(), ..step(id, parent) };
    write(&*store, &claim, Commit { steps: vec![step(1, None)], ..commit(1_100) }).await;
    let left = vec![writes(1, 1, "of the root"), writes(2, 2, "of the subgraph")];
    let both = Commit { steps: vec![inner(2, None)], writes: left, ..commit(1_200) };
    write(&*store, &claim, both).await;
    assert_eq!(ids(&head(&*store).await), [1]);
    write(&*store, &claim, Commit { steps: vec![inner(3, Some(2))], ..commit(1_300) }).await;
    assert_eq!(pending(&*store).await, [writes(1, 1, "of the root")]);
    let steps = vec![step(4, Some(1)), inner(5, Some(3))];
    write(&*store, &claim, Commit { steps, ..commit(1_400) }).await;
    assert_eq!(ids(&head(&*store).await), [1, 4], "the last step of the root graph is the head");
}

pub(super) async fn pending_writes_are_replaced_and_vanish_with_the_step(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    write(&*store, &claim, Commit { steps: vec![step(1, None)], ..commit(1_100) }).await;
    let left = vec![writes(1, 9, "nine"), writes(1, 2, "two"), writes(1, 2, "two again")];
    write(&*store, &claim, Commit { writes: left, ..commit(1_200) }).await;
    let read = pending(&*store).await;
    assert_eq!(read, [writes(1, 2, "two again"), writes(1, 9, "nine")], "by task");
    write(&*store, &claim, Commit { writes: vec![writes(1, 9, "")], ..commit(1_300) }).await;
    assert_eq!(pending(&*store).await, [writes(1, 2, "two again"), writes(1, 9, "")]);
    // A step takes the writes of its parent away, also those of its own commit, and keeps those
    // of the new open superstep.
    let next = Commit {
        steps: vec![step(2, Some(1))],
        writes: vec![writes(1, 3, "closed"), writes(2, 1, "open")],
        ..commit(1_400)
    };
    write(&*store, &claim, next).await;
    assert_eq!(pending(&*store).await, [writes(2, 1, "open")]);
    finish(&*store, &claim, 1_500).await;
    assert_eq!(pending(&*store).await, [writes(2, 1, "open")], "they outlive the run");
}

pub(super) async fn a_refused_commit_changes_nothing(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let first = Commit {
        steps: vec![step(1, None), step(2, Some(1))],
        writes: vec![writes(2, 1, "left")],
        interrupts: vec![question(1)],
        events: vec![told(1)],
        ..commit(1_100)
    };
    write(&*store, &claim, first).await;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let t = thread("t");
    let exists = |id| rule::checkpoint_exists(&t, CheckpointId(id));
    let orphan = |id, parent| rule::parent_missing(&t, CheckpointId(id), CheckpointId(parent));
    let refused = [
        (vec![step(3, Some(2)), step(1, Some(3))], exists(1)),
        (vec![step(3, Some(2)), step(3, Some(3))], exists(3)),
        (vec![step(3, Some(8))], orphan(3, 8)),
        (vec![step(3, Some(4)), step(4, Some(2))], orphan(3, 4)),
        (vec![step(3, Some(3))], orphan(3, 3)),
    ];
    for (steps, error) in refused {
        let bad = Commit {
            steps,
            writes: vec![writes(2, 1, "other"), writes(2, 2, "more")],
            interrupts: vec![question(2)],
            events: vec![told(2)],
            finish: super::fixture::completed(),
            ..commit(1_200)
        };
        assert_eq!(store.commit(&us(), &claim, bad).await, Err(error));
        assert_eq!(super::dump(&*store, &[us()]).await.as_ref(), Ok(&before));
    }
    let next = store.commit(&us(), &claim, Commit { events: vec![told(3)], ..commit(1_300) }).await;
    assert_eq!(next.expect("the run goes on").first_seq, 2, "a refused event leaves no gap");
}

pub(super) async fn the_thread_follows_the_outcome_of_the_run(store: Arc<dyn Store>) {
    let fault = Fault::new(ErrorCode("W0101"), "it broke").retriable(true);
    let outcomes = [
        (RunFinal::Completed { output: json!({"a": [1]}) }, RunStatus::Completed),
        (RunFinal::Interrupted { interrupts: Vec::new() }, RunStatus::Interrupted),
        (RunFinal::LimitReached { step_limit: 3 }, RunStatus::LimitReached),
        (RunFinal::Cancelled, RunStatus::Cancelled),
        (RunFinal::Failed { fault }, RunStatus::Failed),
    ];
    for (n, (outcome, status)) in (0..).zip(outcomes) {
        let claim = begin(&*store, "t", &format!("r{n}")).await;
        let running = store.thread(&us(), &thread("t")).await.expect("the thread");
        assert_eq!(running.status, RunStatus::Running);
        let end = AiEvent::Done { outcome: status };
        let last = Commit { events: vec![end], finish: Some(outcome.clone()), ..commit(5_000 + n) };
        write(&*store, &claim, last).await;
        let run = store.run(&us(), &claim.at).await.expect("the run");
        assert_eq!((run.status, run.outcome), (status, Some(outcome)));
        assert_eq!((run.ended_at, run.worker), (Some(Timestamp(5_000 + n)), Some(claim.worker)));
        let ended = store.thread(&us(), &thread("t")).await.expect("the thread");
        assert_eq!((ended.status, ended.updated_at), (status, Timestamp(5_000 + n)));
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
    let events: Vec<AiEvent> =
        values.iter().map(|value| AiEvent::Custom { value: value.clone() }).collect();
    let big = StepRow { body: (0..=u8::MAX).cycle().take(200_000).collect(), ..step(1, None) };
    let empty = StepRow { body: Vec::new(), step: i64::MIN, ..step(2, Some(1)) };
    let steps = vec![big, empty];
    let written = Commit { steps: steps.clone(), events: events.clone(), ..commit(i64::MAX) };
    write(&*store, &claim, written).await;
    assert_eq!(head(&*store).await.steps, steps);
    let read = store.events(&us(), &claim.at, 0, 99).await.expect("events");
    assert!(read.iter().all(|row| row.at == Timestamp(i64::MAX)));
    assert_eq!(read.into_iter().map(|row| row.event).collect::<Vec<_>>(), events);
}
