use super::*;
use serde_json::json;
use weftwork_types::Timestamp;
use weftwork_types::canonical::Hash;
use weftwork_types::port::{CallKind, CallResult};
use weftwork_types::tool::Effect;

fn call(number: u8, state: CallState, reused: u32) -> Arc<CallRecord> {
    let settled = state == CallState::Settled;
    Arc::new(CallRecord {
        key: CallKey(Hash([number; 32])),
        kind: CallKind::Model,
        name: "model".to_owned(),
        node: "a".to_owned(),
        step: 1,
        effect: Effect::ReadOnly,
        state,
        result: settled.then(|| CallResult { value: json!(number) }),
        made: 1,
        possibly_paid: 0,
        reused,
        opened_at: Timestamp(1),
        settled_at: settled.then_some(Timestamp(2)),
    })
}

fn taken(calls: &TaskCalls) -> Vec<Arc<CallRecord>> {
    calls.take_fresh().map(|calls| calls.0).unwrap_or_default()
}

#[test]
fn few_calls_and_many_are_found_and_taken_once() {
    for count in [1u8, 8, 9, 10, 100] {
        let begun: Vec<_> = (0..count).map(|n| call(n, CallState::Intent, 0)).collect();
        let calls = TaskCalls::known(&CallList::of(begun));
        assert_eq!(taken(&calls), [], "what is on record is not kept again");
        let ended: Vec<_> = (0..count * 2).map(|n| call(n, CallState::Settled, 0)).collect();
        for call in ended.iter().chain(&ended) {
            calls.put(Arc::clone(call));
            assert_eq!(calls.find(call.key).as_ref(), Some(call));
        }
        assert_eq!(calls.find(CallKey(Hash([255; 32]))), None);
        assert_eq!(taken(&calls), ended, "each of them once, as it stands");
        assert_eq!(taken(&calls), []);
        calls.give_back(&CallList::of(ended[..1].to_vec()));
        assert_eq!(taken(&calls), ended[..1], "it was not kept after all");
    }
}

#[test]
fn calls_that_were_not_kept_are_taken_along_next() {
    let calls = TaskCalls::default();
    calls.put(call(1, CallState::Intent, 0));
    drop(CallsInFlight { of: &calls, calls: calls.take_fresh() });
    assert_eq!(taken(&calls).len(), 1, "whoever was to keep it was cut off");
}

#[test]
fn of_each_call_what_got_further_stays() {
    let begun = call(1, CallState::Intent, 0);
    let ended = call(1, CallState::Settled, 0);
    let reused = call(1, CallState::Settled, 1);
    let other = call(2, CallState::Settled, 0);
    let all = [&begun, &ended, &reused];
    for (older, first) in all.iter().enumerate() {
        for (newer, second) in all.iter().enumerate() {
            let mut list = CallList(vec![Arc::clone(first)]);
            list.merge(CallList(vec![Arc::clone(&other), Arc::clone(second)]));
            let further = Arc::clone(all[older.max(newer)]);
            assert_eq!(list.0, [further, Arc::clone(&other)], "{older} and {newer}");
        }
    }
}
