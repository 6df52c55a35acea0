use super::fixture::{checkpoint, outside, principal, tasks, these, thread, us};
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, FoundCheckpoint, NewCheckpoint, NewPending,
};
use weftwork_types::CheckpointId;
use weftwork_types::canonical::{self, Hash};

pub(super) fn shelf(thread_id: &str, ns: &str) -> CheckpointNamespace {
    CheckpointNamespace { thread: thread(thread_id), ns: ns.to_owned() }
}

/// A checkpoint with the task results of another one.
pub(super) fn after(of: u128, id: u128) -> NewCheckpoint {
    let tasks = format!("tasks of {of} with {id}").into_bytes();
    NewCheckpoint { of: Some(CheckpointId(of)), tasks, ..checkpoint(id) }
}

pub(super) fn parts(pending: Vec<NewPending>) -> CheckpointBatch {
    CheckpointBatch { pending, ..CheckpointBatch::default() }
}

pub(super) async fn put_checkpoints(store: &dyn Store, thread_id: &str, batch: CheckpointBatch) {
    store.put_checkpoints(&us(), &thread(thread_id), batch).await.expect("keeps");
}

/// Reads a checkpoint of the root graph by id, or the newest one.
pub(super) async fn look(
    store: &dyn Store,
    thread_id: &str,
    id: Option<u128>,
) -> Option<FoundCheckpoint> {
    let at = shelf(thread_id, "");
    store.checkpoint(&us(), &at, id.map(CheckpointId)).await.expect("reads")
}

/// Returns the ids of a page.
pub(super) async fn ids(
    store: &dyn Store,
    at: &CheckpointNamespace,
    before: Option<u128>,
    limit: usize,
) -> Vec<u128> {
    let page = store.page(&us(), at, before.map(CheckpointId), limit).await.expect("reads");
    page.iter().map(|found| found.id.0).collect()
}

pub(super) fn found(new: &NewCheckpoint, tasks: &[&str]) -> FoundCheckpoint {
    FoundCheckpoint {
        id: new.id,
        body: new.body.clone(),
        outside: None,
        tasks: tasks.iter().map(|task| task.as_bytes().to_vec()).collect(),
    }
}

pub(super) fn blob(text: &str) -> (Hash, Vec<u8>) {
    (canonical::hash_bytes(text.as_bytes()), text.as_bytes().to_vec())
}

pub(super) async fn has_blob(store: &dyn Store, text: &str) -> bool {
    let (hash, body) = blob(text);
    match store.blob(&us(), hash).await.expect("reads") {
        Some(read) => {
            assert_eq!(read, body);
            true
        }
        None => false,
    }
}

pub(super) async fn collected(store: &dyn Store) -> u64 {
    store.collect_blobs(&us()).await.expect("collects")
}

pub(super) async fn a_checkpoint_is_read_by_id_or_as_the_newest(store: Arc<dyn Store>) {
    assert_eq!(look(&*store, "t", None).await, None);
    assert_eq!(look(&*store, "t", Some(1)).await, None);
    // Ids need not be ascending, and the thread needs no row.
    put_checkpoints(&*store, "t", these(vec![checkpoint(2)])).await;
    put_checkpoints(&*store, "t", these(vec![checkpoint(u128::MAX), checkpoint(1)])).await;
    assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(u128::MAX), &[])));
    assert_eq!(look(&*store, "t", Some(1)).await, Some(found(&checkpoint(1), &[])));
    assert_eq!(look(&*store, "t", Some(3)).await, None);
    assert_eq!(look(&*store, "t2", None).await, None);
    assert!(matches!(store.thread(&us(), &thread("t")).await, Err(StoreError::NotFound { .. })));
}

pub(super) async fn a_page_has_the_newest_first(store: Arc<dyn Store>) {
    let at = shelf("t", "");
    assert_eq!(ids(&*store, &at, None, 9).await, Vec::<u128>::new());
    put_checkpoints(&*store, "t", these((1..=5).map(checkpoint).collect())).await;
    put_checkpoints(&*store, "t", these(vec![checkpoint(u128::MAX)])).await;
    put_checkpoints(&*store, "t2", these(vec![checkpoint(7)])).await;
    assert_eq!(ids(&*store, &at, None, 9).await, [u128::MAX, 5, 4, 3, 2, 1]);
    assert_eq!(ids(&*store, &at, None, 2).await, [u128::MAX, 5]);
    assert_eq!(ids(&*store, &at, Some(u128::MAX), 2).await, [5, 4]);
    // `before` need not be an existing id.
    assert_eq!(ids(&*store, &at, Some(99), usize::MAX).await, [5, 4, 3, 2, 1]);
    assert_eq!(ids(&*store, &at, Some(3), 9).await, [2, 1]);
    assert_eq!(ids(&*store, &at, Some(1), 9).await, Vec::<u128>::new());
    assert_eq!(ids(&*store, &at, None, 0).await, Vec::<u128>::new());
}

pub(super) async fn tasks_are_added_in_order_and_those_of_the_next_come_last(
    store: Arc<dyn Store>,
) {
    put_checkpoints(&*store, "t", these(vec![checkpoint(1)])).await;
    put_checkpoints(&*store, "t", parts(vec![tasks(1, "a"), tasks(1, "b")])).await;
    put_checkpoints(&*store, "t", parts(vec![tasks(1, "a"), tasks(2, "early")])).await;
    assert_eq!(look(&*store, "t", None).await, Some(found(&checkpoint(1), &["a", "b", "a"])));
    put_checkpoints(&*store, "t", these(vec![after(1, 2), after(1, 3), after(3, 4)])).await;
    let first = found(&checkpoint(1), &["a", "b", "a", "tasks of 1 with 2"]);
    // The checkpoint after the second one does not refer to it.
    let second = found(&checkpoint(2), &["early"]);
    let third = found(&checkpoint(3), &["tasks of 3 with 4"]);
    let fourth = found(&checkpoint(4), &[]);
    assert_eq!(look(&*store, "t", Some(1)).await.as_ref(), Some(&first));
    assert_eq!(look(&*store, "t", Some(2)).await.as_ref(), Some(&second));
    assert_eq!(look(&*store, "t", Some(3)).await.as_ref(), Some(&third));
    assert_eq!(look(&*store, "t", None).await.as_ref(), Some(&fourth));
    let page = store.page(&us(), &shelf("t", ""), None, 9).await;
    assert_eq!(page, Ok(vec![fourth, third.clone(), second, first]));
    let page = store.page(&us(), &shelf("t", ""), Some(CheckpointId(4)), 1).await;
    assert_eq!(page, Ok(vec![third]));
}

pub(super) async fn what_came_from_outside_is_replaced(store: Arc<dyn Store>) {
    put_checkpoints(&*store, "t", these(vec![checkpoint(1), checkpoint(2)])).await;
    put_checkpoints(&*store, "t", parts(vec![tasks(1, "a"), outside(1, "first"), tasks(1, "b")]))
        .await;
    put_checkpoints(&*store, "t", parts(vec![outside(1, "second"), outside(2, "other")])).await;
    let read = look(&*store, "t", Some(1)).await.expect("there");
    assert_eq!(read.outside.as_deref(), Some(b"second".as_slice()));
    assert_eq!(read.tasks, [b"a", b"b"]);
    let page = store.page(&us(), &shelf("t", ""), None, 9).await.expect("reads");
    let outsides: Vec<_> = page.iter().map(|found| found.outside.as_deref()).collect();
    assert_eq!(outsides, [Some(b"other".as_slice()), Some(b"second")]);
}

pub(super) async fn a_checkpoint_of_the_same_id_takes_its_place(store: Arc<dyn Store>) {
    put_checkpoints(&*store, "t", these(vec![checkpoint(1), after(1, 2)])).await;
    put_checkpoints(&*store, "t", parts(vec![tasks(2, "stays"), outside(2, "too")])).await;
    let other = NewCheckpoint { of: None, body: b"other".to_vec(), ..checkpoint(2) };
    put_checkpoints(&*store, "t", these(vec![checkpoint(2), other.clone()])).await;
    let read = look(&*store, "t", None).await.expect("there");
    let outside = Some(b"too".to_vec());
    assert_eq!(read, FoundCheckpoint { outside, ..found(&other, &["stays"]) });
    assert_eq!(look(&*store, "t", Some(1)).await, Some(found(&checkpoint(1), &[])));
    assert_eq!(ids(&*store, &shelf("t", ""), None, 9).await, [2, 1]);
}

pub(super) async fn graphs_of_a_thread_are_apart(store: Arc<dyn Store>) {
    let ways = ["", "a", "a|b:1", "ä"];
    for (n, ns) in (1..).zip(ways) {
        let body = format!("body at `{ns}`").into_bytes();
        let new = NewCheckpoint { ns: ns.to_owned(), body, ..checkpoint(n) };
        let ns = ns.to_owned();
        let part = NewPending { ns: ns.clone(), ..tasks(n, &ns) };
        put_checkpoints(&*store, "t", CheckpointBatch { pending: vec![part], ..these(vec![new]) })
            .await;
    }
    let open = NewPending { ns: "open".to_owned(), ..tasks(1, "no checkpoint yet") };
    put_checkpoints(&*store, "t", parts(vec![open])).await;
    put_checkpoints(
        &*store,
        "t2",
        these(vec![NewCheckpoint { ns: "z".to_owned(), ..checkpoint(1) }]),
    )
    .await;
    let shelves = store.checkpoint_namespaces(&us(), &thread("t")).await;
    assert_eq!(shelves, Ok(ways.map(|ns| shelf("t", ns)).to_vec()));
    for (n, ns) in (1..).zip(ways) {
        assert_eq!(ids(&*store, &shelf("t", ns), None, 9).await, [n]);
        let newest = store.checkpoint(&us(), &shelf("t", ns), None).await.expect("reads");
        let read = newest.map(|found| (found.body, found.tasks));
        let body = format!("body at `{ns}`").into_bytes();
        assert_eq!(read, Some((body, vec![ns.as_bytes().to_vec()])));
    }
}

pub(super) async fn the_newest_id_is_that_of_any_graph_of_the_thread(store: Arc<dyn Store>) {
    let newest = async || store.newest_id(&us(), &thread("t")).await.expect("reads").map(|id| id.0);
    let within = |ns: &str, id| NewCheckpoint { ns: ns.to_owned(), ..checkpoint(id) };
    assert_eq!(newest().await, None);
    put_checkpoints(&*store, "t2", these(vec![checkpoint(u128::MAX), within("a", u128::MAX)]))
        .await;
    put_checkpoints(&*store, "t", parts(vec![tasks(9, "no checkpoint yet")])).await;
    assert_eq!(newest().await, None);
    let far = 1 << 100;
    // Near each other and far apart, the greatest in turn in the outermost graph and within.
    for (ns, id, expected) in [
        ("a", 1, 1),
        ("", 2, 2),
        ("b|c:1", 5, 5),
        ("a", 4, 5),
        ("", 3, 5),
        ("a", far, far),
        ("b", far + 7, far + 7),
        ("a|b", far + 6, far + 7),
        ("", far + 1, far + 7),
        ("", far + (1 << 60), far + (1 << 60)),
        ("z", u128::MAX - 1, u128::MAX - 1),
    ] {
        put_checkpoints(&*store, "t", these(vec![within(ns, id)])).await;
        assert_eq!(newest().await, Some(expected), "after {id} of `{ns}`");
    }
    let last = these(vec![within("z", 8)]);
    store.rewrite(&us(), &shelf("t", "z"), CheckpointId(u128::MAX - 1), last).await.expect("ends");
    assert_eq!(newest().await, Some(far + (1 << 60)));
    store.copy_checkpoints(&us(), &thread("t"), &thread("t2")).await.expect("copies");
    store.delete_checkpoints(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(newest().await, None);
    let copied = store.newest_id(&us(), &thread("t2")).await;
    assert_eq!(copied, Ok(Some(CheckpointId(far + (1 << 60)))));
    assert_eq!(store.newest_id(&principal("them"), &thread("t2")).await, Ok(None));
}

pub(super) async fn bodies_are_read_by_their_ids(store: Arc<dyn Store>) {
    let at = shelf("t", "");
    let large = NewCheckpoint { body: vec![7; 100_000], ..checkpoint(3) };
    let empty = NewCheckpoint { body: Vec::new(), ..checkpoint(2) };
    put_checkpoints(&*store, "t", these(vec![checkpoint(1), empty, large])).await;
    let wanted = [3, 9, 1, 2].map(CheckpointId).to_vec();
    let mut read = store.checkpoint_bytes(&us(), &at, wanted).await.expect("reads");
    read.sort_unstable();
    let expected = [(1, checkpoint(1).body), (2, Vec::new()), (3, vec![7; 100_000])];
    assert_eq!(read, expected.map(|(id, body)| (CheckpointId(id), body)));
    assert_eq!(store.checkpoint_bytes(&us(), &at, Vec::new()).await, Ok(Vec::new()));
    assert_eq!(
        store.checkpoint_bytes(&us(), &shelf("t2", ""), vec![CheckpointId(1)]).await,
        Ok(Vec::new())
    );
}

/// Reads all checkpoints of a thread, by graph.
pub(super) async fn all(store: &dyn Store, thread_id: &str) -> Vec<(String, Vec<FoundCheckpoint>)> {
    let mut all = Vec::new();
    for at in store.checkpoint_namespaces(&us(), &thread(thread_id)).await.expect("reads") {
        let page = store.page(&us(), &at, None, usize::MAX).await.expect("reads");
        all.push((at.ns, page));
    }
    all
}

/// Fills a thread with two graphs, with open parts and a blob each.
pub(super) async fn fill(store: &dyn Store, thread_id: &str, mark: &str) {
    let (hash, bytes) = blob(mark);
    let inner = NewCheckpoint { ns: "in".to_owned(), ..checkpoint(9) };
    let marked = NewCheckpoint { body: mark.as_bytes().to_vec(), blobs: vec![hash], ..after(1, 2) };
    let filled = CheckpointBatch {
        checkpoints: vec![checkpoint(1), marked, inner],
        pending: vec![outside(2, mark), tasks(2, "a"), tasks(2, "b")],
        blobs: vec![(hash, bytes)],
        ..CheckpointBatch::default()
    };
    put_checkpoints(store, thread_id, filled).await;
}

pub(super) async fn organisations_keep_their_checkpoints_apart(store: Arc<dyn Store>) {
    fill(&*store, "t", "one").await;
    let before = all(&*store, "t").await;
    let them = principal("them");
    let t = thread("t");
    let at = shelf("t", "");
    let hash = blob("one").0;
    assert_eq!(store.checkpoint(&them, &at, None).await, Ok(None));
    assert_eq!(store.checkpoint(&them, &at, Some(CheckpointId(1))).await, Ok(None));
    assert_eq!(store.checkpoint_bytes(&them, &at, vec![CheckpointId(1)]).await, Ok(Vec::new()));
    assert_eq!(store.page(&them, &at, None, 9).await, Ok(Vec::new()));
    assert_eq!(store.checkpoint_namespaces(&them, &t).await, Ok(Vec::new()));
    assert_eq!(store.blob(&them, hash).await, Ok(None));
    let rewritten = store.rewrite(&them, &at, CheckpointId(2), CheckpointBatch::default()).await;
    assert!(matches!(rewritten, Err(StoreError::Conflict { .. })), "{rewritten:?}");
    store.copy_checkpoints(&them, &t, &thread("t2")).await.expect("there is nothing to copy");
    store.delete_checkpoints(&them, &t).await.expect("there is nothing to delete");
    assert_eq!(store.collect_blobs(&them).await, Ok(0));
    assert_eq!(all(&*store, "t").await, before);

    // The same ids with different contents, and the same blob.
    let theirs = NewCheckpoint { body: b"theirs".to_vec(), blobs: vec![hash], ..checkpoint(2) };
    let kept = CheckpointBatch { blobs: vec![blob("one")], ..these(vec![theirs.clone()]) };
    store.put_checkpoints(&them, &t, kept).await.expect("keeps");
    assert_eq!(all(&*store, "t").await, before);
    let read = store.checkpoint(&them, &at, None).await;
    assert_eq!(read, Ok(Some(found(&theirs, &[]))));
    store.delete_checkpoints(&us(), &t).await.expect("deletes");
    assert_eq!(collected(&*store).await, 1);
    assert_eq!(store.blob(&them, hash).await, Ok(Some(b"one".to_vec())));
    assert_eq!(store.page(&them, &at, None, 9).await.map(|page| page.len()), Ok(1));
}
