use super::fixture::{
    at, begin, begin_as, commit, custom_event, interrupted, new_run, principal, question, thread,
    us, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_types::code::Fault;
use weftwork_types::run::RunOutcome;
use weftwork_types::{ErrorCode, Principal, Timestamp};

/// A commit that ends a run at a question that takes its default at `wakes_at`.
fn parked(id: u128, wakes_at: i64) -> Commit {
    let wakes_at = Some(Timestamp(wakes_at));
    let interrupts = vec![question(id)];
    let finish = interrupted(&[id]);
    Commit { interrupts, events: vec![custom_event(1)], finish, wakes_at, ..commit(1_100) }
}

async fn due(store: &dyn Store, now: i64, limit: usize) -> Vec<(Principal, String)> {
    let graphs = vec!["test:other".to_owned(), "test:graph".to_owned()];
    let found = store.due(Timestamp(now), graphs, limit).await.expect("reads");
    found.into_iter().map(|(who, row)| (who, row.new.at.run.to_string())).collect()
}

async fn wakes_at(store: &dyn Store) -> Option<Timestamp> {
    store.thread(&us(), &thread("t")).await.expect("a thread").wakes_at
}

pub(super) async fn a_thread_is_due_at_its_time_and_no_more_once_it_goes_on(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let early = Commit { wakes_at: Some(Timestamp(1)), ..commit(1_050) };
    write(&*store, &claim, early).await;
    assert_eq!(wakes_at(&*store).await, None, "the run goes on");
    write(&*store, &claim, parked(1, 5_000)).await;
    assert_eq!(wakes_at(&*store).await, Some(Timestamp(5_000)));
    let listed = store.threads(&us(), 0, 9).await.expect("threads");
    assert_eq!(listed[0].wakes_at, Some(Timestamp(5_000)));
    assert_eq!(due(&*store, 4_999, 9).await, []);
    assert_eq!(due(&*store, 5_000, 9).await, [(us(), "r".to_owned())]);
    // Any new run of the thread clears the time.
    store.create_run(&us(), new_run("t", "r2"), BTreeMap::new()).await.expect("a run");
    assert_eq!((wakes_at(&*store).await, due(&*store, 9_000, 9).await), (None, Vec::new()));
    let worker = claim.worker;
    let (claim, _) =
        store.claim(&us(), &at("t", "r2"), &worker, Timestamp(1_200)).await.expect("free");
    write(&*store, &claim, Commit { finish: interrupted(&[1]), ..commit(1_300) }).await;
    assert_eq!(wakes_at(&*store).await, None, "this end names no time");
    let claim = begin(&*store, "t", "r3").await;
    let fault = Fault::new(ErrorCode("W0109"), "no luck");
    let fails = Commit { finish: Some(RunOutcome::Failed { fault }), ..parked(1, 5_000) };
    write(&*store, &claim, fails).await;
    store.requeue(&us(), &at("t", "r3"), Timestamp(1_400)).await.expect("it failed");
    assert_eq!(wakes_at(&*store).await, None, "it goes on now");
}

pub(super) async fn due_are_the_last_runs_of_these_graphs_by_their_time(store: Arc<dyn Store>) {
    for (name, org, graph, time) in [
        ("a", "us", "test:graph", 30),
        ("b", "them", "test:graph", 10),
        ("c", "us", "test:other", 20),
        ("d", "us", "test:unknown", 5),
        ("e", "us", "test:graph", 20),
    ] {
        let who = principal(org);
        for run in ["0", "1"] {
            let mut new = new_run(name, &format!("{name}{run}"));
            new.graph = graph.to_owned();
            let claim = begin_as(&*store, &who, new).await;
            store.commit(&who, &claim, parked(7, time)).await.expect("commits");
        }
    }
    let names = async |now, limit| -> Vec<String> {
        let found = due(&*store, now, limit).await;
        found.into_iter().map(|(who, run)| format!("{}/{run}", who.org)).collect()
    };
    assert_eq!(names(30, 9).await, ["them/b1", "us/c1", "us/e1", "us/a1"]);
    assert_eq!(names(20, 2).await, ["them/b1", "us/c1"]);
    assert_eq!(names(9, 9).await, Vec::<String>::new());
    assert_eq!(store.due(Timestamp(30), Vec::new(), 9).await, Ok(Vec::new()));
}
