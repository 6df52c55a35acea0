//! What must be true of threads whatever became of the workers that had them.

use crate::worker::{PAIR, STEPS, Site, state};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_types::event::AiEvent;
use weftwork_types::port::CallState;
use weftwork_types::run::{Durability, RunRef};
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
    let begun = begun(site);
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
            let row = store.run(&Principal::local(), at).await.expect("reads");
            check_begun(&tag(at), row.new.options.durability, &begun[&tag(at)]);
        }
        runs += refs.len();
        let each = if graph == PAIR { 2 } else { 1 };
        again += check_calls(&store, &id, &made, expected.len() * each).await;
    }
    (runs, again)
}

/// What workers began of runs, in order: the step and the process.
fn begun(site: &Site) -> BTreeMap<String, Vec<(u32, String)>> {
    let mut begun = BTreeMap::<String, Vec<(u32, String)>>::new();
    for line in site.effects() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["woke", name, process] = words.as_slice() {
            let (tag, step) = name.split_once(':').expect("a run and its step");
            let step = step.parse().expect("a number");
            begun.entry(tag.to_owned()).or_default().push((step, (*process).to_owned()));
        }
    }
    begun
}

/// A process that goes on with a run begins where the mode says: with the step that was open, with
/// the one before it when that may have been on its way to the store, or with the first.
fn check_begun(tag: &str, durability: Durability, begun: &[(u32, String)]) {
    let (mut last, mut furthest) = (BTreeMap::new(), 0_u32);
    for (step, process) in begun {
        let goes_on = last.insert(process, *step).is_some_and(|last| last + 1 == *step);
        let may = match durability {
            Durability::Sync => furthest.max(1)..=furthest + 1,
            Durability::Async => furthest.saturating_sub(1).max(1)..=furthest + 1,
            Durability::Exit => 1..=1,
        };
        assert!(goes_on || may.contains(step), "{tag}, {durability:?}: {step} in {begun:?}");
        furthest = furthest.max(*step);
    }
    assert_eq!(furthest, STEPS, "{tag}");
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

/// Each superstep of a run that completed is in its log, once and in order.
pub(crate) async fn check_log(store: &Arc<dyn Store>, at: &RunRef) {
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
