use super::fixture::{begin, call, finish, key, register, result, thread, us};
use crate::record::{Claim, OpenedCall};
use crate::rule;
use crate::table::Store;
use serde_json::json;
use std::sync::Arc;
use weftwork_types::Timestamp;
use weftwork_types::port::{CallRecord, CallState};
use weftwork_types::tool::Effect;

async fn open(store: &dyn Store, claim: &Claim, n: u8, effect: Effect) -> OpenedCall {
    store.open_call(&us(), claim, call(n, effect)).await.expect("opens")
}

async fn settle(store: &dyn Store, claim: &Claim, n: u8, value: i64) {
    let (us, result) = (us(), result(json!(value)));
    let settled = store.settle_call(&us, claim, key(n), result, Timestamp(1_200));
    settled.await.expect("settles");
}

async fn records(store: &dyn Store) -> Vec<CallRecord> {
    store.calls(&us(), &thread("t")).await.expect("calls")
}

/// How often it was made, possibly paid and reused.
fn counts(record: &CallRecord) -> (u32, u32, u32) {
    (record.made, record.possibly_paid, record.reused)
}

pub(super) async fn a_new_call_is_an_intent(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let effects = [Effect::ReadOnly, Effect::StateChange, Effect::ExternalSideEffect];
    for (n, effect) in (1..).zip(effects) {
        assert_eq!(open(&*store, &claim, n, effect).await, OpenedCall::New);
    }
    let found = records(&*store).await;
    let expected: Vec<_> =
        (1..).zip(effects).map(|(n, effect)| rule::first_call(call(n, effect))).collect();
    assert_eq!(found, expected, "in the order of announcing");
    assert_eq!((found[0].state, counts(&found[0])), (CallState::Intent, (1, 0, 0)));
}

pub(super) async fn a_settled_call_is_reused_and_counted(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    for effect in [Effect::ReadOnly, Effect::ExternalSideEffect] {
        let n = if effect == Effect::ReadOnly { 1 } else { 2 };
        open(&*store, &claim, n, effect).await;
        settle(&*store, &claim, n, 42).await;
        for reused in 1..3 {
            let again = open(&*store, &claim, n, effect).await;
            let OpenedCall::Settled(record) = again else { panic!("not settled: {again:?}") };
            assert_eq!(counts(&record), (1, 0, reused));
            assert_eq!(record.result, Some(result(json!(42))));
            assert_eq!(record.settled_at, Some(Timestamp(1_200)));
            assert!(records(&*store).await.contains(&record));
        }
    }
}

pub(super) async fn a_read_without_a_result_is_made_again(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    open(&*store, &claim, 1, Effect::ReadOnly).await;
    for _ in 0..2 {
        assert_eq!(open(&*store, &claim, 1, Effect::ReadOnly).await, OpenedCall::Again);
    }
    assert_eq!(counts(&records(&*store).await[0]), (3, 2, 0));
    settle(&*store, &claim, 1, 7).await;
    let settled = &records(&*store).await[0];
    assert_eq!((settled.state, counts(settled)), (CallState::Settled, (3, 2, 0)));
}

pub(super) async fn a_change_without_a_result_is_unknown(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    for (n, effect) in [(1, Effect::StateChange), (2, Effect::ExternalSideEffect)] {
        open(&*store, &claim, n, effect).await;
        for paid in 1..3 {
            let again = open(&*store, &claim, n, effect).await;
            let OpenedCall::Unknown(record) = again else { panic!("not unknown: {again:?}") };
            assert_eq!((record.state, counts(&record)), (CallState::Intent, (1, paid, 0)));
        }
        // A look-up or a person may still tell what came of it.
        settle(&*store, &claim, n, 1).await;
        let after = open(&*store, &claim, n, effect).await;
        assert!(matches!(after, OpenedCall::Settled(_)), "{after:?}");
    }
}

pub(super) async fn the_first_result_is_kept(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    open(&*store, &claim, 1, Effect::ExternalSideEffect).await;
    settle(&*store, &claim, 1, 1).await;
    let late = store.settle_call(&us(), &claim, key(1), result(json!(2)), Timestamp(9_000)).await;
    assert_eq!(late, Ok(()));
    let record = records(&*store).await.remove(0);
    assert_eq!(record.result, Some(result(json!(1))));
    assert_eq!(record.settled_at, Some(Timestamp(1_200)));
}

pub(super) async fn a_call_never_announced_cannot_be_settled(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let settled = store.settle_call(&us(), &claim, key(1), result(json!(1)), Timestamp(1)).await;
    assert_eq!(settled, Err(rule::missing("call", key(1).0)));
    assert_eq!(records(&*store).await, Vec::new());
}

pub(super) async fn calls_outlive_their_run(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r1").await;
    open(&*store, &first, 1, Effect::ExternalSideEffect).await;
    open(&*store, &first, 2, Effect::ExternalSideEffect).await;
    settle(&*store, &first, 1, 5).await;
    // A takeover and a later run of the thread find what was recorded.
    let w2 = register(&*store, "w2", 10_000).await;
    let (heir, _) = store.claim(&us(), &first.at, &w2, Timestamp(10_000)).await.expect("claims");
    let known = open(&*store, &heir, 2, Effect::ExternalSideEffect).await;
    assert!(matches!(known, OpenedCall::Unknown(_)), "{known:?}");
    finish(&*store, &heir, 10_100).await;
    let second = begin(&*store, "t", "r2").await;
    let known = open(&*store, &second, 1, Effect::ExternalSideEffect).await;
    assert!(matches!(known, OpenedCall::Settled(_)), "{known:?}");
    let elsewhere = begin(&*store, "t2", "r3").await;
    let new = open(&*store, &elsewhere, 1, Effect::ExternalSideEffect).await;
    assert_eq!(new, OpenedCall::New, "another thread has its own journal");
}
