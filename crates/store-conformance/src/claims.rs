use super::fixture::{
    LEASE_MS, at, begin, call, checkpoint, commit, custom_event, finish, new_run, principal,
    record, register, settled, these, thread, us, worker, write,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::invariants;
use weftwork_store::{Claim, Commit};
use weftwork_store::{OrphanCursor, OrphanPage, StoreError};
use weftwork_types::run::RunStatus;
use weftwork_types::tool::Effect;
use weftwork_types::{Timestamp, WorkerId};

async fn claim(store: &dyn Store, by: &WorkerId, now: i64) -> weftwork_store::Result<Claim> {
    store.claim(&us(), &at("t", "r"), by, Timestamp(now)).await.map(|(claim, row)| {
        assert_eq!((row.fence, row.worker.as_ref()), (claim.fence, Some(by)));
        assert_eq!((row.status, claim.at.clone()), (RunStatus::Running, at("t", "r")));
        claim
    })
}

pub(super) async fn a_living_worker_keeps_its_run(store: Arc<dyn Store>) {
    store.create_run(&us(), new_run("t", "r"), BTreeMap::new()).await.expect("a run");
    let w1 = register(&*store, "w1", 1_000).await;
    let w2 = register(&*store, "w2", 1_000).await;
    let first = claim(&*store, &w1, 1_001).await.expect("a pending run is free");
    assert_eq!((first.fence, &first.worker), (1, &w1));
    let busy = || Err(invariants::busy(&at("t", "r")));
    assert_eq!(claim(&*store, &w2, 1_002).await, busy());
    assert_eq!(claim(&*store, &w1, 1_002).await, busy());
    // Extending the lease protects the run beyond the first expiry.
    register(&*store, "w1", 5_000).await;
    assert_eq!(claim(&*store, &w2, 1_000 + LEASE_MS).await, busy());
    assert_eq!(claim(&*store, &w2, 5_000 + LEASE_MS - 1).await, busy());
}

pub(super) async fn an_expired_worker_loses_its_run(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r").await;
    let w2 = register(&*store, "w2", 1_000).await;
    let second = claim(&*store, &w2, 1_000 + LEASE_MS).await.expect("the lease is over");
    assert_eq!((first.fence, second.fence), (1, 2));
    let row = store.run(&us(), &at("t", "r")).await.expect("the run");
    assert_eq!((row.worker, row.fence), (Some(w2), 2));
    let changed = store.thread(&us(), &first.at.thread).await.expect("the thread").updated_at;
    assert_eq!(changed, Timestamp(1_000 + LEASE_MS));
}

pub(super) async fn a_lease_of_a_clock_that_was_ahead_is_over(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r").await;
    let w2 = register(&*store, "w2", 1_000).await;
    let orphans = async || store.orphans(Timestamp(1_001), 9).await.expect("reads").len();
    // A clock that was set back a little ends no lease.
    register(&*store, "w1", 1_000 + LEASE_MS / 2).await;
    assert_eq!(claim(&*store, &w2, 1_001).await, Err(invariants::busy(&first.at)));
    assert_eq!(orphans().await, 0);
    register(&*store, "w1", 1_001 + 2 * LEASE_MS).await;
    assert_eq!(orphans().await, 1);
    assert_eq!(claim(&*store, &w2, 1_001).await.expect("the lease is over").fence, 2);
}

pub(super) async fn a_retired_worker_loses_its_run_at_once(store: Arc<dyn Store>) {
    let first = begin(&*store, "t", "r").await;
    let w2 = register(&*store, "w2", 1_000).await;
    store.retire(&first.worker).await.expect("retires");
    store.retire(&worker("never-seen")).await.expect("who is not there is retired already");
    let second = claim(&*store, &w2, 1_002).await.expect("the worker is gone");
    assert_eq!(second.fence, 2);
    // A worker may return after it retired.
    store.retire(&w2).await.expect("retires");
    let w1 = register(&*store, "w1", 1_003).await;
    assert_eq!(claim(&*store, &w1, 1_004).await.expect("free again").fence, 3);
    assert_eq!(claim(&*store, &w2, 1_005).await, Err(invariants::busy(&at("t", "r"))));
}

pub(super) async fn every_write_of_a_zombie_is_refused(store: Arc<dyn Store>) {
    let zombie = begin(&*store, "t", "r").await;
    record(&*store, &zombie, vec![call(1, Effect::StateChange)]).await;
    let w2 = register(&*store, "w2", 10_000).await;
    let heir = claim(&*store, &w2, 10_000).await.expect("takes over");
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let fenced = StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 1 };
    let late = Commit {
        batch: these(vec![checkpoint(1)]).into(),
        events: vec![custom_event(1)],
        ..commit(10_001)
    };
    assert_eq!(store.commit(&us(), &zombie, late.clone()).await, Err(fenced.clone()));
    let ended = settled(&call(1, Effect::StateChange), json!(1));
    let calls = vec![call(2, Effect::ReadOnly).into(), ended.into()];
    let recorded = store.commit(&us(), &zombie, Commit { calls, ..commit(10_001) }).await;
    assert_eq!(recorded, Err(fenced));
    // A claim belongs to one worker; the fence alone is not sufficient.
    let thief = Claim { worker: zombie.worker.clone(), ..heir.clone() };
    let stolen = store.commit(&us(), &thief, late.clone()).await;
    assert_eq!(stolen, Err(StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 2 }));
    assert_eq!(super::dump(&*store, &[us()]).await, Ok(before));
    store.commit(&us(), &heir, late).await.expect("the newest claim writes");
}

pub(super) async fn an_ended_run_takes_no_more_writes(store: Arc<dyn Store>) {
    let ended = begin(&*store, "t", "r").await;
    finish(&*store, &ended, 1_100).await;
    let fenced = StoreError::Fenced { run: "r".to_owned(), newest: 1, ours: 1 };
    assert_eq!(store.commit(&us(), &ended, commit(1_200)).await, Err(fenced.clone()));
    let calls = vec![call(1, Effect::ReadOnly).into()];
    let recorded = store.commit(&us(), &ended, Commit { calls, ..commit(1_200) }).await;
    assert_eq!(recorded, Err(fenced));
    let again = store.claim(&us(), &ended.at, &ended.worker, Timestamp(90_000)).await;
    assert_eq!(again, Err(invariants::missing("run", "r")));
    let unknown = Claim { at: at("t", "r2"), ..ended };
    let commit = store.commit(&us(), &unknown, commit(1_200)).await;
    assert_eq!(commit, Err(invariants::missing("run", "r2")));
}

pub(super) async fn orphans_are_those_without_a_living_worker(store: Arc<dyn Store>) {
    let w1 = register(&*store, "w1", 1_000).await;
    let w2 = register(&*store, "w2", 2_000).await;
    let made = [("a", "us", 5), ("b", "us", 3), ("c", "them", 4), ("d", "us", 1), ("e", "us", 2)];
    for (name, org, created) in made {
        let mut run = new_run(name, name);
        run.created_at = Timestamp(created);
        store.create_run(&principal(org), run, BTreeMap::new()).await.expect("a run");
    }
    store.claim(&us(), &at("a", "a"), &w1, Timestamp(2_000)).await.expect("a claim");
    store.claim(&us(), &at("b", "b"), &w2, Timestamp(2_000)).await.expect("a claim");
    let (ended, _) =
        store.claim(&us(), &at("d", "d"), &w1, Timestamp(2_000)).await.expect("a claim");
    write(&*store, &ended, Commit { finish: super::fixture::completed(), ..commit(2_100) }).await;

    let names = async |now: i64, limit: usize| -> Vec<String> {
        let rows = store.orphans(Timestamp(now), limit).await.expect("orphans");
        rows.iter().map(|(who, row)| format!("{}/{}", who.org, row.new.at.run)).collect()
    };
    assert_eq!(names(2_200, 9).await, ["us/e", "them/c"], "only those never claimed");
    assert_eq!(names(1_000 + LEASE_MS, 9).await, ["us/e", "them/c", "us/a"]);
    assert_eq!(names(2_000 + LEASE_MS, 9).await, ["us/e", "us/b", "them/c", "us/a"]);
    assert_eq!(names(2_000 + LEASE_MS, 2).await, ["us/e", "us/b"]);
    assert_eq!(names(2_200, 0).await, Vec::<String>::new());
    store.retire(&w2).await.expect("retires");
    assert_eq!(names(2_200, 9).await, ["us/e", "us/b", "them/c"]);
    let (who, row) = store.orphans(Timestamp(2_200), 9).await.expect("orphans").remove(2);
    assert_eq!(who, principal("them"), "an orphan comes with the principal that made it");
    assert_eq!(store.run(&who, &row.new.at).await, Ok(row));
}

pub(super) async fn orphans_are_read_in_pages_by_graph(store: Arc<dyn Store>) {
    let made = [("a", 5), ("b", 3), ("c", 5), ("d", 3), ("e", 1), ("f", 5)];
    for (name, created) in made {
        let mut run = new_run(name, name);
        run.created_at = Timestamp(created);
        if name == "d" || name == "e" {
            run.graph = "test:other".to_owned();
        }
        store.create_run(&us(), run, BTreeMap::new()).await.expect("a run");
    }
    let read = async |graphs: Option<&[&str]>, after: Option<OrphanCursor>| {
        let graphs = graphs.map(|graphs| graphs.iter().map(|&graph| graph.to_owned()).collect());
        let page = OrphanPage { graphs, after, limit: 2 };
        let found = store.orphan_page(Timestamp(2_000), page.clone()).await.expect("orphans");
        let names: String = found.iter().map(|(_, row)| row.new.at.run.as_str()).collect();
        (names, page.next(&found))
    };
    let here: &[&str] = &["test:unused", "test:graph"];
    let cases = [(None, vec!["eb", "da", "cf", ""]), (Some(here), vec!["ba", "cf", ""])];
    for (graphs, expected) in cases {
        let mut after = None;
        let mut pages = Vec::new();
        loop {
            let (names, next) = read(graphs, after).await;
            pages.push(names);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, expected);
    }
    assert_eq!(read(Some(&[]), None).await, (String::new(), None));
    // The last run of a page was deleted meanwhile: its millisecond is read again.
    let (_, after) = read(Some(here), None).await;
    let worker = register(&*store, "w1", 1_000).await;
    let ended = store.claim(&us(), &at("a", "a"), &worker, Timestamp(2_000)).await;
    finish(&*store, &ended.expect("a claim").0, 2_000).await;
    store.delete_thread(&us(), &thread("a")).await.expect("is at rest");
    assert_eq!(read(Some(here), after).await.0, "cf");
}
