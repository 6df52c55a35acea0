//! Invariants of threads, whatever happened to the workers that had them.

use crate::worker::{PAIR, STEPS, Site, state};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_types::port::CallState;
use weftwork_types::run::{Durability, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, ThreadId};

/// Looks at everything that is left of threads whose runs are these, and says how many runs there
/// were and how many calls were made twice because nobody knew what came of them.
pub(crate) async fn check(site: &Site, graph: &str, threads: &[Vec<RunRef>]) -> (usize, usize) {
    let store = site.database.open();
    let mut made = BTreeMap::<String, Vec<String>>::new();
    for line in site.effects() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["made", name, key, _] = words.as_slice() {
            made.entry((*name).to_owned()).or_default().push((*key).to_owned());
        }
    }
    let begun = begun(site);
    let mut runs = 0;
    let mut again = 0;
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

/// The calls that were made although their results were on record: of those in the log of the
/// outside, the ones behind the place to which it had come when a reading of the journal found
/// their results.
pub(crate) fn repeated(made: &[(u64, String)], recorded: &BTreeMap<String, u64>) -> Vec<String> {
    let again = |(place, call): &&(u64, String)| recorded.get(call).is_some_and(|at| place >= at);
    made.iter().filter(again).map(|(_, call)| call.clone()).collect()
}

/// The calls that were made more often than once and once more for each kill that struck their run.
pub(crate) fn unexplained(
    made: &[(u64, String)],
    strikes: &BTreeMap<String, usize>,
) -> Vec<String> {
    let mut times = BTreeMap::<&str, usize>::new();
    for (_, call) in made {
        *times.entry(call.split_once(' ').map_or(call.as_str(), |(name, _)| name)).or_default() +=
            1;
    }
    times.retain(|name, times| {
        let run = name.rsplit_once(':').map_or(*name, |(run, _)| run);
        *times > 1 + strikes.get(run).copied().unwrap_or_default()
    });
    times.into_iter().map(|(name, times)| format!("{name}: {times} times")).collect()
}

/// Returns the steps that workers began of each run, in order: the step and the process.
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
    let mut last = BTreeMap::new();
    let mut furthest = 0_u32;
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

/// Returns the prefix of a run's lines.
pub(crate) fn tag(at: &RunRef) -> String {
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
    let steps: Vec<_> = events.iter().filter_map(|told| told.event.step()).collect();
    let first = steps.first().copied().expect("steps");
    let expected: Vec<_> = (first..first + i64::from(STEPS)).collect();
    assert_eq!(steps, expected, "{at:?}: each superstep was committed once, in order");
}

#[test]
fn a_call_is_made_again_if_its_line_is_behind_the_look_at_its_record() {
    let made = [(0, "t0.0:1 a"), (20, "t0.0:2 b"), (40, "t0.0:2 b"), (60, "t0.0:1 a")];
    let made = made.map(|(place, call)| (place, call.to_owned()));
    let recorded = |place| BTreeMap::from([("t0.0:1 a".to_owned(), place)]);
    assert_eq!(repeated(&made, &recorded(60)), ["t0.0:1 a"]);
    assert!(repeated(&made[..3], &recorded(60)).is_empty());
    assert!(repeated(&made, &recorded(80)).is_empty(), "it came on record after both");
}

#[test]
fn only_kills_of_its_run_explain_a_call_that_was_made_again() {
    let made = [(0, "t0.0:1 a"), (20, "t0.0:1 a"), (40, "t0.1:1 b")];
    let made = made.map(|(place, call)| (place, call.to_owned()));
    let strikes = |run: &str| BTreeMap::from([(run.to_owned(), 1)]);
    assert!(unexplained(&made, &strikes("t0.0")).is_empty());
    assert_eq!(unexplained(&made, &strikes("t0.1")), ["t0.0:1: 2 times"]);
}
