use super::fixture::{
    begin, begin_as, call, checkpoint, commit, fact, finish, key, new_run, record, register,
    settled, these, thread, us, write,
};
use serde_json::json;
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_types::port::{CallRecord, CallState};
use weftwork_types::run::Durability;
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, Timestamp};

const EFFECTS: [Effect; 3] = [Effect::ReadOnly, Effect::StateChange, Effect::ExternalSideEffect];

async fn records(store: &dyn Store) -> Vec<CallRecord> {
    store.calls(&us(), &thread("t")).await.expect("calls")
}

pub(super) async fn calls_are_found_as_they_were_recorded(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let begun: Vec<_> = (1..).zip(EFFECTS).map(|(n, effect)| call(n, effect)).collect();
    record(&*store, &claim, begun.clone()).await;
    assert_eq!(records(&*store).await, begun, "in the order of recording");
    let ended = settled(&call(9, Effect::ReadOnly), json!({"n": [1, 2.5, null]}));
    record(&*store, &claim, vec![ended.clone()]).await;
    assert_eq!(records(&*store).await.last(), Some(&ended));
    for one in begun.iter().chain([&ended]) {
        let found = store.call(&us(), &thread("t"), one.key).await;
        assert_eq!(found.as_ref().map(Option::as_ref), Ok(Some(one)));
    }
    assert_eq!(store.call(&us(), &thread("t"), key(8)).await, Ok(None));
    assert_eq!(store.call(&us(), &thread("none"), key(1)).await, Ok(None));
}

pub(super) async fn a_result_comes_to_a_call_that_was_begun(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    for (n, effect) in (1..).zip(EFFECTS) {
        let begun = call(n, effect);
        record(&*store, &claim, vec![begun.clone()]).await;
        let ended = settled(&CallRecord { made: 2, possibly_paid: 1, ..begun }, json!(n));
        // Recording a call again has no effect.
        for _ in 0..2 {
            record(&*store, &claim, vec![ended.clone()]).await;
            assert_eq!(store.call(&us(), &thread("t"), key(n)).await, Ok(Some(ended.clone())));
        }
    }
    // Start and result in one commit.
    let begun = call(7, Effect::StateChange);
    let ended = settled(&begun, json!(7));
    record(&*store, &claim, vec![begun, ended.clone()]).await;
    assert_eq!(store.call(&us(), &thread("t"), key(7)).await, Ok(Some(ended)));
    assert_eq!(records(&*store).await.len(), 4);
}

pub(super) async fn the_first_result_stays_and_counts_go_up_only(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let first = CallRecord {
        made: 3,
        possibly_paid: 2,
        reused: 1,
        ..settled(&call(1, Effect::ExternalSideEffect), json!(1))
    };
    record(&*store, &claim, vec![first.clone()]).await;
    let mut late = settled(&call(1, Effect::ExternalSideEffect), json!(2));
    late.settled_at = Some(Timestamp(9_000));
    record(&*store, &claim, vec![late.clone(), call(1, Effect::ExternalSideEffect)]).await;
    assert_eq!(records(&*store).await, vec![first.clone()]);
    record(&*store, &claim, vec![CallRecord { reused: 2, ..late }]).await;
    assert_eq!(records(&*store).await, [CallRecord { reused: 2, ..first }]);
}

pub(super) async fn calls_and_usage_commit_with_their_step(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let ended = settled(&call(1, Effect::ReadOnly), json!("answer"));
    let batch = these(vec![checkpoint(1)]);
    let bill = fact("i", "r", 1_150);
    let calls = vec![ended.clone().into()];
    let usage = vec![bill.clone().into(); 2];
    let step = Commit { batch: batch.into(), calls, usage, ..commit(1_200) };
    write(&*store, &claim, step.clone()).await;
    assert_eq!(records(&*store).await, [ended]);
    let mut other = bill.clone();
    other.fact.latency_ms = 99;
    write(&*store, &claim, Commit { usage: vec![other.into()], ..commit(1_210) }).await;
    assert_eq!(store.usage_of_run(&us(), &claim.at.run).await, Ok(vec![bill]));
    // A refused commit leaves no record.
    finish(&*store, &claim, 1_300).await;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let late = settled(&call(2, Effect::ReadOnly), json!("late"));
    let step = Commit { calls: vec![late.into()], usage: vec![fact("j", "r", 1).into()], ..step };
    let refused = store.commit(&us(), &claim, step).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    assert_eq!(super::dump(&*store, &[us()]).await, Ok(before));
}

pub(super) async fn calls_outlive_their_run(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r1").await;
    let done = settled(&call(1, Effect::ReadOnly), json!(5));
    let open = call(2, Effect::ExternalSideEffect);
    record(&*store, &first, vec![done.clone(), open.clone()]).await;
    // A takeover and a later run of the thread find the recorded calls.
    let w2 = register(&*store, "w2", 10_000).await;
    let (heir, _) = store.claim(&us(), &first.at, &w2, Timestamp(10_000)).await.expect("claims");
    let found = store.call(&us(), &thread("t"), key(2)).await;
    assert_eq!(found, Ok(Some(open.clone())));
    let known = settled(&CallRecord { possibly_paid: 1, ..open }, json!(6));
    record(&*store, &heir, vec![known.clone()]).await;
    finish(&*store, &heir, 10_100).await;
    begin(&*store, "t", "r2").await;
    assert_eq!(records(&*store).await, [done, known]);
    begin(&*store, "t2", "r3").await;
    let elsewhere = store.call(&us(), &thread("t2"), key(1)).await;
    assert_eq!(elsewhere, Ok(None), "another thread has its own journal");
}

pub(super) async fn calls_are_found_from_a_checkpoint_on(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r1").await;
    let begun = |n| call(n, Effect::ExternalSideEffect);
    let step = |n: u8| Commit {
        batch: these(vec![checkpoint(n.into())]).into(),
        calls: vec![begun(n * 10).into()],
        ..commit(1_200 + i64::from(n))
    };
    for n in 1..=3 {
        write(&*store, &claim, step(n)).await;
        record(&*store, &claim, vec![begun(n * 10 + 1)]).await;
        record(&*store, &claim, vec![settled(&begun(n * 10 + 1), json!(n))]).await;
    }
    finish(&*store, &claim, 1_300).await;
    // A run that stores its checkpoints at its end.
    let mut run = new_run("t", "r2");
    run.options.durability = Durability::Exit;
    let claim = begin_as(&*store, &us(), run).await;
    record(&*store, &claim, vec![begun(40)]).await;
    write(&*store, &claim, Commit { calls: Vec::new(), ..step(4) }).await;
    finish(&*store, &claim, 1_400).await;
    let claim = begin(&*store, "t", "r3").await;
    record(&*store, &claim, vec![settled(&begun(40), json!(4)), begun(41)]).await;

    let found = async |n: u8, since: u128| {
        let since = CheckpointId(since);
        let found = store.call_since(&us(), &thread("t"), key(n), since).await.expect("reads");
        found.map(|found| (found.state, found.made))
    };
    let open = Some((CallState::Intent, 1));
    let over = Some((CallState::Settled, 1));
    for (since, first) in [(1, 10), (2, 20), (3, 30), (4, 40), (99, 10)] {
        for n in (10..=41).filter(|n| *n >= first && n % 10 < 2) {
            let expected = if n % 10 == 1 && n != 41 || n == 40 { over } else { open };
            assert_eq!(found(n, since).await, expected, "{n} since {since}");
        }
        assert_eq!(found(42, since).await, None);
    }
    let none = store.call_since(&us(), &thread("none"), key(10), CheckpointId(1)).await;
    assert_eq!(none, Ok(None));
}
