use super::fixture::{begin, fact, finish, thread, us};
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_types::RunId;

fn run(id: &str) -> RunId {
    RunId::new(id).expect("an id")
}

pub(super) async fn a_fact_is_recorded_once(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r1").await;
    let late = fact("a", "r1", 300);
    let early = fact("b", "r1", 200);
    for row in [&late, &early, &fact("c", "r0", 100)] {
        store.record_usage(&us(), row.clone()).await.expect("records");
    }
    let mut other = late.clone();
    other.fact.tokens.output = 999;
    store.record_usage(&us(), other).await.expect("a repeated fact is no error");
    let of_run = store.usage_of_run(&us(), &run("r1")).await;
    assert_eq!(of_run, Ok(vec![early.clone(), late.clone()]));
    finish(&*store, &claim, 1_500).await;
    begin(&*store, "t", "r2").await;
    store.record_usage(&us(), fact("d", "r2", 250)).await.expect("records");
    let of_thread = store.usage_of_thread(&us(), &thread("t")).await;
    assert_eq!(of_thread, Ok(vec![early, fact("d", "r2", 250), late]));
}

pub(super) async fn facts_outlive_their_thread(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    store.record_usage(&us(), fact("a", "r", 100)).await.expect("records");
    finish(&*store, &claim, 1_500).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(store.usage_of_run(&us(), &run("r")).await, Ok(vec![fact("a", "r", 100)]));
}
