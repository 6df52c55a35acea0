use super::fixture::{
    answers, at, begin, begin_as, call, checkpoint, commit, custom_event, fact, finish,
    interrupted, key, keyed, new_run, principal, question, record, register, settled, tasks, these,
    thread, us, write,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::CheckpointBatch;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_store::invariants;
use weftwork_types::tool::Effect;
use weftwork_types::{InterruptId, Timestamp};

async fn filled(store: &dyn Store) -> weftwork_store::Claim {
    let claim = begin_as(store, &us(), keyed(new_run("t", "r"), "once")).await;
    record(store, &claim, vec![call(1, Effect::StateChange)]).await;
    store.record_usage(&us(), fact("i", "r", 1_100)).await.expect("records");
    let all = Commit {
        batch: CheckpointBatch { pending: vec![tasks(1, "left")], ..these(vec![checkpoint(1)]) }
            .into(),
        interrupts: vec![question(1)],
        events: vec![custom_event(1)],
        ..commit(1_200)
    };
    write(store, &claim, all).await;
    claim
}

pub(super) async fn another_organisation_sees_nothing(store: Arc<dyn Store>) {
    let claim = filled(&*store).await;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let them = principal("them");
    let t = thread("t");
    let no_thread = || invariants::missing("thread", "t");
    let no_run = || invariants::missing("run", "r");

    assert_eq!(store.thread(&them, &t).await, Err(no_thread()));
    assert_eq!(store.threads(&them, 0, 9).await, Ok(Vec::new()));
    assert_eq!(store.runs(&them, &t).await, Err(no_thread()));
    assert_eq!(store.unfinished_runs(&them, &t).await, Err(no_thread()));
    assert_eq!(store.last_ended(&them, &t).await, Err(no_thread()));
    assert_eq!(store.run(&them, &claim.at).await, Err(no_run()));
    assert_eq!(store.events(&them, &claim.at, 0, 9).await, Err(no_run()));
    assert_eq!(store.interrupts(&them, &t).await, Err(no_thread()));
    assert_eq!(store.calls(&them, &t).await, Err(no_thread()));
    assert_eq!(store.call(&them, &t, key(1)).await, Ok(None));
    assert_eq!(store.usage_of_thread(&them, &t).await, Err(no_thread()));
    assert_eq!(store.usage_of_run(&them, &claim.at.run).await, Ok(Vec::new()));

    assert_eq!(store.delete_thread(&them, &t).await, Err(no_thread()));
    assert_eq!(store.request_cancel(&them, &claim.at).await, Err(no_run()));
    let w2 = register(&*store, "w2", 90_000).await;
    let stolen = store.claim(&them, &claim.at, &w2, Timestamp(90_000)).await;
    assert_eq!(stolen, Err(no_run()));
    assert_eq!(store.commit(&them, &claim, commit(1_300)).await, Err(no_run()));
    let calls = vec![settled(&call(1, Effect::StateChange), json!(1)).into()];
    let recorded = store.commit(&them, &claim, Commit { calls, ..commit(1_300) }).await;
    assert_eq!(recorded, Err(no_run()));
    let answered = store.create_run(&them, new_run("t", "r2"), answers(&[(1, "yes")])).await;
    assert_eq!(answered, Err(invariants::missing("interrupt", InterruptId(1))));
    assert_eq!(super::dump(&*store, &[us()]).await, Ok(before));
    assert_eq!(super::dump(&*store, &[them]).await, Ok(Vec::new()));
}

pub(super) async fn organisations_may_use_the_same_ids(store: Arc<dyn Store>) {
    let claim = filled(&*store).await;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let them = principal("them");
    // The same thread, run, key, invocation and call, with different contents.
    let mut run = keyed(new_run("t", "r"), "once");
    run.graph = "test:theirs".to_owned();
    let theirs = begin_as(&*store, &them, run).await;
    assert_eq!(theirs, claim);
    let calls = vec![settled(&call(1, Effect::StateChange), json!("theirs")).into()];
    let recorded = Commit { calls, ..commit(1_300) };
    store.commit(&them, &theirs, recorded).await.expect("records");
    store.record_usage(&them, fact("i", "r", 2)).await.expect("records");
    let all = Commit {
        batch: these(vec![checkpoint(1), checkpoint(2)]).into(),
        interrupts: vec![question(1)],
        finish: interrupted(&[1]),
        ..commit(1_400)
    };
    store.commit(&them, &theirs, all).await.expect("commits");
    assert_eq!(super::dump(&*store, &[us()]).await.as_ref(), Ok(&before));
    store.create_run(&them, new_run("t", "r2"), answers(&[(1, "theirs")])).await.expect("a run");
    assert_eq!(super::dump(&*store, &[us()]).await.as_ref(), Ok(&before));
    let open = begin_as(&*store, &principal("third"), new_run("t", "r")).await;
    assert_eq!(open.fence, 1);
    finish(&*store, &claim, 1_500).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes ours only");
    let left = store.thread(&them, &thread("t")).await.expect("theirs stays");
    assert_eq!(left.graph.as_deref(), Some("test:graph"));
    assert_eq!(store.runs(&them, &thread("t")).await.map(|runs| runs.len()), Ok(2));
    begin(&*store, "t", "r").await;
    store.create_run(&us(), new_run("t9", "r9"), BTreeMap::new()).await.expect("a run");
    assert_eq!(store.run(&us(), &at("t9", "r9")).await.map(|row| row.fence), Ok(0));
}
