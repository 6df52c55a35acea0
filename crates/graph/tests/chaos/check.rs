//! What must be true of threads whatever became of the workers that had them.

use crate::worker::{PAIR, STEPS, Site, state};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_types::event::AiEvent;
use weftwork_types::port::CallState;
use weftwork_types::run::RunRef;
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, ThreadId};

/// Looks at everything that is left of threads whose runs are these, and says how many runs there
/// were and how many calls were made twice because nobody knew what came of them.
pub(crate) async fn check(site: &Site, graph: &str, threads: &[Vec<RunRef>]) -> (usize, usize) {
    let store = site.place.open();
    let mut made = BTreeMap::<String, Vec<String>>::new();
    for line in site.effects() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["made", name, key, _] = words.as_slice() {
            made.entry((*name).to_owned()).or_default().push((*key).to_owned());
        }
    }
    let (mut runs, mut again) = (0, 0);
    for refs in threads {
        let id = refs.first().expect("each has one").thread.clone();
        let expected: Vec<_> = refs
            .iter()
            .flat_map(|at| (1..=STEPS).map(move |n| format!("{}:{n}", tag(at))))
            .collect();
        let values = state(site, graph, id.as_str()).await;
        assert_eq!(values["log"], json!(expected), "nothing lost, doubled or out of order");
        for at in refs {
            check_log(&store, at).await;
        }
        runs += refs.len();
        let each = if graph == PAIR { 2 } else { 1 };
        again += check_calls(&store, &id, &made, expected.len() * each).await;
    }
    (runs, again)
}

/// What a run's lines begin with.
fn tag(at: &RunRef) -> String {
    at.run.as_str().replacen('-', ".", 1)
}

async fn check_calls(
    store: &Arc<dyn Store>,
    id: &ThreadId,
    made: &BTreeMap<String, Vec<String>>,
    expected: usize,
) -> usize {
    let calls = store.calls(&Principal::local(), id).await.expect("reads");
    assert_eq!(calls.len(), expected, "one record for each call");
    let mut again = 0;
    for call in calls {
        assert_eq!(call.state, CallState::Settled);
        let keys = made.get(&call.name).map(Vec::as_slice).unwrap_or_default();
        let most = call.made.saturating_add(call.possibly_paid) as usize;
        assert!((1..=most).contains(&keys.len()), "{}: {} of {most}", call.name, keys.len());
        assert!(call.effect == Effect::ReadOnly || call.made == 1, "{}: {}", call.name, call.made);
        let key = call.key.0.to_string();
        assert!(keys.iter().all(|made| *made == key), "{}: {keys:?}, not {key}", call.name);
        again += keys.len() - 1;
    }
    again
}

async fn check_log(store: &Arc<dyn Store>, at: &RunRef) {
    let events = store.events(&Principal::local(), at, 0, usize::MAX).await.expect("reads");
    let numbers: Vec<_> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, Vec::from_iter(1..=events.len() as u64), "gapless");
    let steps: Vec<_> = events
        .iter()
        .filter_map(|told| match told.event {
            AiEvent::Step { step, .. } => Some(step),
            _ => None,
        })
        .collect();
    let first = steps.first().copied().expect("steps");
    let expected: Vec<_> = (first..first + i64::from(STEPS)).collect();
    assert_eq!(steps, expected, "{at:?}: each superstep was committed once, in order");
}
