use super::checkpoints::{
    after, all, blob, collected, fill, found, has_blob, ids, look, parts, put_checkpoints, shelf,
};
use super::fixture::{begin, checkpoint, finish, outside, tasks, these, thread, us};
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::{CheckpointBatch, FoundCheckpoint, NewCheckpoint};
use weftwork_types::CheckpointId;

pub(super) async fn a_copy_takes_the_place_of_what_is_there(store: Arc<dyn Store>) {
    fill(&*store, "from", "one").await;
    fill(&*store, "to", "two").await;
    let gone = NewCheckpoint { ns: "gone".to_owned(), ..checkpoint(5) };
    put_checkpoints(
        &*store,
        "to",
        CheckpointBatch { pending: vec![tasks(1, "gone")], ..these(vec![gone]) },
    )
    .await;
    let before = all(&*store, "from").await;
    let copy = async |from: &str, to: &str| {
        store.copy_checkpoints(&us(), &thread(from), &thread(to)).await.expect("copies");
    };
    copy("from", "to").await;
    assert_eq!(all(&*store, "to").await, before);
    assert_eq!(all(&*store, "from").await, before);
    copy("from", "from").await;
    assert_eq!(all(&*store, "from").await, before);
    // Writes to one thread do not affect the other, and blobs of copies are retained.
    put_checkpoints(&*store, "from", these(vec![checkpoint(7)])).await;
    assert_eq!(all(&*store, "to").await, before);
    store.delete_checkpoints(&us(), &thread("from")).await.expect("deletes");
    assert_eq!(collected(&*store).await, 1, "only that of the thread that was replaced");
    assert!(has_blob(&*store, "one").await && !has_blob(&*store, "two").await);
    assert_eq!(all(&*store, "to").await, before);
    copy("nobody", "to").await;
    assert_eq!(all(&*store, "to").await, []);
}

pub(super) async fn only_the_thread_that_is_deleted_goes(store: Arc<dyn Store>) {
    fill(&*store, "t", "one").await;
    fill(&*store, "t2", "two").await;
    let before = all(&*store, "t2").await;
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    store.delete_checkpoints(&us(), &thread("nobody")).await.expect("there is nothing to do");
    assert_eq!(all(&*store, "t").await, []);
    assert_eq!(all(&*store, "t2").await, before);
    // Open parts are deleted as well.
    put_checkpoints(&*store, "t", these(vec![checkpoint(2)])).await;
    assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(2), &[])));

    let claim = begin(&*store, "t2", "r").await;
    finish(&*store, &claim, 1_100).await;
    store.delete_thread(&us(), &thread("t2")).await.expect("deletes");
    assert_eq!(all(&*store, "t2").await, []);
    assert_eq!(ids(&*store, &shelf("t", ""), None, 9).await, [2]);
    assert_eq!(collected(&*store).await, 2);
}

pub(super) async fn a_rewrite_leaves_only_what_is_open_at_the_newest(store: Arc<dyn Store>) {
    let at = shelf("t", "");
    put_checkpoints(&*store, "t", these(vec![checkpoint(1), after(1, 2), after(2, 3)])).await;
    put_checkpoints(
        &*store,
        "t",
        parts(vec![outside(1, "gone"), tasks(1, "gone"), tasks(2, "gone")]),
    )
    .await;
    put_checkpoints(&*store, "t", parts(vec![outside(3, "stays"), tasks(3, "stays")])).await;
    let inner = NewCheckpoint { ns: "in".to_owned(), ..checkpoint(1) };
    put_checkpoints(&*store, "t", these(vec![inner])).await;
    put_checkpoints(&*store, "t2", these(vec![checkpoint(1)])).await;

    let whole = NewCheckpoint { body: b"whole".to_vec(), ..checkpoint(2) };
    let rest = CheckpointBatch {
        pending: vec![tasks(2, "anew"), tasks(3, "open")],
        ..these(vec![whole.clone(), after(2, 3)])
    };
    store.rewrite(&us(), &at, CheckpointId(3), rest).await.expect("rewrites");
    let page = store.page(&us(), &at, None, 9).await;
    let second = found(&whole, &["anew", "tasks of 2 with 3"]);
    let outside = Some(b"stays".to_vec());
    let third = FoundCheckpoint { outside, ..found(&checkpoint(3), &["stays", "open"]) };
    assert_eq!(page, Ok(vec![third, second]));
    assert_eq!(ids(&*store, &shelf("t", "in"), None, 9).await, [1]);
    assert_eq!(ids(&*store, &shelf("t2", ""), None, 9).await, [1]);
    store.rewrite(&us(), &at, CheckpointId(3), CheckpointBatch::default()).await.expect("rewrites");
    assert_eq!(ids(&*store, &at, None, 9).await, Vec::<u128>::new());
    // Open parts do not return with their checkpoint.
    put_checkpoints(&*store, "t", these(vec![checkpoint(1), checkpoint(3)])).await;
    assert_eq!(look(&*store, "t", Some(1)).await, Some(found(&checkpoint(1), &[])));
    assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(3), &[])));
}

pub(super) async fn a_rewrite_is_refused_when_the_newest_moved(store: Arc<dyn Store>) {
    let at = shelf("t", "");
    let refused = async |newest: u128| {
        let (hash, bytes) = blob("new");
        let new = NewCheckpoint { blobs: vec![hash], ..checkpoint(8) };
        let rest = CheckpointBatch { blobs: vec![(hash, bytes)], ..these(vec![new]) };
        let error = store.rewrite(&us(), &at, CheckpointId(newest), rest).await;
        assert!(matches!(error, Err(StoreError::Conflict { .. })), "{error:?}");
        assert!(!has_blob(&*store, "new").await);
    };
    refused(1).await;
    fill(&*store, "t", "one").await;
    let before = all(&*store, "t").await;
    for newest in [1, 3, 9] {
        refused(newest).await;
        assert_eq!(all(&*store, "t").await, before);
    }
}
