use super::checkpoints::{blob, collected, has_blob, parts, put_checkpoints, shelf};
use super::fixture::{checkpoint, outside, tasks, these, thread, us};
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::{CheckpointBatch, NewCheckpoint, NewPending};
use weftwork_types::CheckpointId;

pub(super) async fn blobs_are_collected_when_nobody_speaks_of_them(store: Arc<dyn Store>) {
    let all = ["a", "b", "c", "d", "e"];
    let speaks = |new: NewCheckpoint, texts: &[&str]| NewCheckpoint {
        blobs: texts.iter().map(|text| blob(text).0).collect(),
        ..new
    };
    let part = |part: NewPending, text: &str| NewPending { blobs: vec![blob(text).0], ..part };
    let first = CheckpointBatch {
        checkpoints: vec![speaks(checkpoint(1), &["a", "a", "b"]), speaks(checkpoint(2), &["b"])],
        pending: vec![part(outside(2, "x"), "c"), part(tasks(2, "y"), "d"), tasks(2, "z")],
        blobs: all.map(blob).to_vec(),
        ..CheckpointBatch::default()
    };
    put_checkpoints(&*store, "t", first).await;
    let left = async |expected: &str, count: u64| {
        assert_eq!(collected(&*store).await, count, "{expected}");
        for text in all {
            assert_eq!(has_blob(&*store, text).await, expected.contains(text), "{text}");
        }
    };
    left("abcd", 1).await;
    left("abcd", 0).await;
    // A replaced row no longer refers to its blobs.
    put_checkpoints(&*store, "t", parts(vec![outside(2, "x")])).await;
    put_checkpoints(&*store, "t", these(vec![checkpoint(1)])).await;
    left("bd", 2).await;
    // Another thread refers to a blob, too; existing bytes are not changed.
    let other =
        CheckpointBatch { blobs: vec![(blob("b").0, b"b".to_vec())], ..CheckpointBatch::default() };
    put_checkpoints(
        &*store,
        "t2",
        CheckpointBatch { checkpoints: vec![speaks(checkpoint(1), &["b"])], ..other },
    )
    .await;
    let rest = these(vec![speaks(checkpoint(3), &[])]);
    store.rewrite(&us(), &shelf("t", ""), CheckpointId(2), rest).await.expect("rewrites");
    left("b", 1).await;
    store.delete_checkpoints(&us(), &thread("t2")).await.expect("deletes");
    left("", 1).await;
}

pub(super) async fn names_left_out_are_kept_by_their_hash(store: Arc<dyn Store>) {
    let (hash, names) = blob("names");
    let layouts = || vec![(hash, names.clone())];
    assert_eq!(store.layout(&us(), hash).await, Ok(None));
    put_checkpoints(
        &*store,
        "t",
        CheckpointBatch { layouts: layouts(), ..these(vec![checkpoint(1)]) },
    )
    .await;
    put_checkpoints(
        &*store,
        "t2",
        CheckpointBatch { layouts: layouts(), ..these(vec![checkpoint(1)]) },
    )
    .await;
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(collected(&*store).await, 0, "they are no blobs");
    assert_eq!(store.layout(&us(), hash).await, Ok(Some(names.clone())));
    assert_eq!(store.blob(&us(), hash).await, Ok(None));
    assert_eq!(store.layout(&us(), blob("others").0).await, Ok(None));
}
