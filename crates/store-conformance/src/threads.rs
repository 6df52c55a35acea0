//! Creation, metadata and search of threads.

use super::fixture::{
    begin, begin_as, commit, finish, interrupted, new_run, principal, question, thread, us, write,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::memory::MemoryStore;
use weftwork_store::thread::{
    Direction, FoundThread, IfExists, METADATA_BYTES_MAX, Metadata, NewThread, SEARCH_LIMIT_MAX,
    SearchFrom, ThreadCursor, ThreadKey, ThreadOrder, ThreadQuery, ThreadStatus,
};
use weftwork_store::{ExportThreads, ImportThreads};
use weftwork_store::{Store, WriteThreads};
use weftwork_types::code::Fault;
use weftwork_types::run::RunOutcome;
use weftwork_types::{ErrorCode, Principal, ThreadId, Timestamp};

fn metadata(value: Value) -> Metadata {
    value.as_object().cloned().expect("an object")
}

fn new_thread(id: &str, value: Value, at: i64) -> NewThread {
    NewThread {
        id: thread(id),
        graph: None,
        metadata: metadata(value),
        created_at: Timestamp(at),
        if_exists: IfExists::Refuse,
    }
}

async fn create(store: &dyn Store, id: &str, value: Value, at: i64) {
    let row = store.create_thread(&us(), new_thread(id, value, at)).await.expect("creates");
    assert_eq!(store.thread(&us(), &thread(id)).await, Ok(row));
}

async fn find(store: &dyn Store, query: ThreadQuery) -> Vec<FoundThread> {
    let page = store.search_threads(&us(), query).await.expect("searches");
    assert_eq!(page.next, None);
    page.threads
}

async fn ids(store: &dyn Store, query: ThreadQuery) -> Vec<String> {
    find(store, query).await.iter().map(|found| found.row.id.to_string()).collect()
}

fn by(key: ThreadKey, direction: Direction) -> SearchFrom {
    SearchFrom::Start(ThreadOrder { by: key, direction })
}

/// A search that returns threads in the order of their ids.
fn sorted() -> ThreadQuery {
    ThreadQuery { from: by(ThreadKey::Id, Direction::Ascending), ..ThreadQuery::default() }
}

fn with(value: Value) -> ThreadQuery {
    ThreadQuery { metadata: metadata(value), ..sorted() }
}

fn in_status(status: ThreadStatus) -> ThreadQuery {
    ThreadQuery { status: Some(status), ..sorted() }
}

pub(super) async fn a_thread_exists_without_a_run(store: Arc<dyn Store>) {
    let value = json!({"user": "Ada", "n": 1.50, "nul": "\0", "nested": {"a": [null, true]}});
    let new = NewThread { graph: Some("test:graph".to_owned()), ..new_thread("t", value, 500) };
    let row = store.create_thread(&us(), new.clone()).await.expect("creates");
    assert_eq!(row.graph.as_deref(), Some("test:graph"));
    assert_eq!((row.status, row.head, row.wakes_at), (None, None, None));
    assert_eq!((row.created_at, row.updated_at), (Timestamp(500), Timestamp(500)));
    assert_eq!(row.metadata, new.metadata);
    assert_eq!(store.thread(&us(), &thread("t")).await.as_ref(), Ok(&row));
    assert_eq!(store.threads(&us(), 0, 9).await, Ok(vec![row.clone()]));
    assert_eq!(store.runs(&us(), &thread("t")).await, Ok(Vec::new()));
    assert_eq!(store.interrupts(&us(), &thread("t")).await, Ok(Vec::new()));
    assert_eq!(store.calls(&us(), &thread("t")).await, Ok(Vec::new()));
    // Its first run does not change its metadata or the time of its creation.
    let claim = begin(&*store, "t", "r").await;
    finish(&*store, &claim, 1_500).await;
    let ran = store.thread(&us(), &thread("t")).await.expect("reads");
    assert_eq!((ran.created_at, &ran.metadata), (row.created_at, &row.metadata));
    assert_eq!(ran.updated_at, Timestamp(1_500));
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(ids(&*store, with(json!({"user": "Ada"}))).await, Vec::<String>::new());
}

pub(super) async fn a_thread_is_created_once(store: Arc<dyn Store>) {
    create(&*store, "t", json!({"a": 1}), 500).await;
    let again = new_thread("t", json!({"a": 2}), 600);
    let refused = store.create_thread(&us(), again.clone()).await;
    assert_eq!(refused, Err(invariants::thread_id_taken(&thread("t"))));
    let known = NewThread { if_exists: IfExists::Return, ..again };
    let first = store.thread(&us(), &thread("t")).await;
    assert_eq!(store.create_thread(&us(), known.clone()).await, first);
    assert_eq!(store.thread(&us(), &thread("t")).await, first);
    // A thread that its first run created exists, too.
    begin(&*store, "ran", "r").await;
    let known = NewThread { id: thread("ran"), ..known };
    let found = store.create_thread(&us(), known).await.expect("returns it");
    assert_eq!((found.created_at, found.metadata), (Timestamp(1_000), Metadata::new()));
}

pub(super) async fn metadata_is_merged_by_member(store: Arc<dyn Store>) {
    create(&*store, "t", json!({"a": {"x": 1}, "b": "old"}), 500).await;
    let merge = async |value, at| {
        let new = metadata(value);
        store.update_metadata(&us(), &thread("t"), new, Timestamp(at)).await
    };
    let row = merge(json!({"a": {"y": 2}, "c": null}), 900).await.expect("merges");
    assert_eq!(Value::Object(row.metadata.clone()), json!({"a": {"y": 2}, "b": "old", "c": null}));
    assert_eq!((row.created_at, row.updated_at), (Timestamp(500), Timestamp(900)));
    assert_eq!(store.thread(&us(), &thread("t")).await, Ok(row));
    let row = merge(json!({"b": "new"}), 800).await.expect("merges");
    assert_eq!(row.updated_at, Timestamp(900));
    assert_eq!(ids(&*store, with(json!({"b": "old"}))).await, Vec::<String>::new());
    assert_eq!(ids(&*store, with(json!({"b": "new"}))).await, ["t"]);
    // While a run writes to the thread, too.
    let claim = begin(&*store, "t", "r").await;
    merge(json!({"d": 1}), 1_100).await.expect("merges");
    finish(&*store, &claim, 1_500).await;
    let row = store.thread(&us(), &thread("t")).await.expect("reads");
    assert_eq!(row.metadata.len(), 4);
    let none = store.update_metadata(&us(), &thread("u"), Metadata::new(), Timestamp(1)).await;
    assert_eq!(none, Err(invariants::missing("thread", "u")));
}

pub(super) async fn metadata_has_limits(store: Arc<dyn Store>) {
    let text = |bytes: usize| json!({"k": "x".repeat(bytes - r#"{"k":""}"#.len())});
    create(&*store, "most", text(METADATA_BYTES_MAX), 500).await;
    let more = new_thread("more", text(METADATA_BYTES_MAX + 1), 500);
    let refused = store.create_thread(&us(), more).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    let new = metadata(json!({"l": 1}));
    let refused = store.update_metadata(&us(), &thread("most"), new, Timestamp(900)).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    let row = store.thread(&us(), &thread("most")).await.expect("reads");
    assert_eq!((row.metadata.len(), row.updated_at), (1, Timestamp(500)));
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    let refused = store.create_thread(&us(), new_thread("deep", json!({"k": deep}), 500)).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
}

pub(super) async fn threads_are_found_by_their_metadata(store: Arc<dyn Store>) {
    create(&*store, "a", json!({"user": "Ada", "team": {"id": 7, "tags": ["x", "y"]}}), 1).await;
    create(&*store, "b", json!({"user": "Ada", "done": false, "n": 2}), 2).await;
    create(&*store, "c", json!({"user": "Bob's \"\0\u{fffd}\\u0000", "done": null}), 3).await;
    create(&*store, "d", json!({}), 4).await;
    let found = async |value| ids(&*store, with(value)).await;
    assert_eq!(found(json!({})).await, ["a", "b", "c", "d"]);
    assert_eq!(found(json!({"user": "Ada"})).await, ["a", "b"]);
    assert_eq!(found(json!({"user": "Ada", "done": false})).await, ["b"]);
    assert_eq!(found(json!({"done": null})).await, ["c"]);
    assert_eq!(found(json!({"user": "Bob's \"\0\u{fffd}\\u0000"})).await, ["c"]);
    assert!(found(json!({"user": "Bob's \"\u{fffd}\u{fffd}\\u0000"})).await.is_empty());
    assert_eq!(found(json!({"n": 2.0})).await, ["b"]);
    assert_eq!(found(json!({"team": {"tags": ["y"]}})).await, ["a"]);
    assert_eq!(found(json!({"team": {"tags": ["y", "x", "y"], "id": 7}})).await, ["a"]);
    assert_eq!(found(json!({"team": {}, "user": "Ada"})).await, ["a"]);
    for none in [
        json!({"team": {"tags": ["z"]}}),
        json!({"team": {"tags": "x"}}),
        json!({"team": []}),
        json!({"user": ["Ada"]}),
        json!({"user": "ada"}),
        json!({"n": "2"}),
        json!({"nothing": null}),
    ] {
        assert!(found(none.clone()).await.is_empty(), "{none}");
    }
}

/// Creates a thread in each status, with the name of the status. Two more are idle and interrupted
/// for another reason.
async fn in_each_status(store: &dyn Store) {
    create(store, "idle", json!({"k": 1}), 1).await;
    let ended = begin(store, "idle-2", "r2").await;
    finish(store, &ended, 1_500).await;
    begin(store, "busy", "r3").await;
    let asks = begin(store, "interrupted", "r4").await;
    let interrupts = vec![question(1)];
    let finish_at = |at| Commit { finish: interrupted(&[1]), ..commit(at) };
    write(store, &asks, Commit { interrupts: interrupts.clone(), ..finish_at(1_500) }).await;
    let stopped = begin(store, "interrupted-2", "r5").await;
    let cancelled = Some(RunOutcome::cancelled());
    write(store, &stopped, Commit { interrupts, finish: cancelled, ..commit(1_500) }).await;
    let failed = begin(store, "error", "r6").await;
    let fault = Fault::new(ErrorCode("W0109"), "no luck");
    let finish = Some(RunOutcome::Failed { fault });
    write(store, &failed, Commit { finish, ..commit(1_500) }).await;
}

pub(super) async fn threads_are_found_by_their_status(store: Arc<dyn Store>) {
    in_each_status(&*store).await;
    assert_eq!(ids(&*store, in_status(ThreadStatus::Idle)).await, ["idle", "idle-2"]);
    assert_eq!(ids(&*store, in_status(ThreadStatus::Busy)).await, ["busy"]);
    let asks = ids(&*store, in_status(ThreadStatus::Interrupted)).await;
    assert_eq!(asks, ["interrupted", "interrupted-2"]);
    assert_eq!(ids(&*store, in_status(ThreadStatus::Error)).await, ["error"]);
    for found in find(&*store, sorted()).await {
        assert!(found.row.id.as_str().starts_with(found.status.word()), "{found:?}");
    }
    // A run that waits for its claim makes its thread busy.
    let run = new_run("error", "r7");
    store.create_run(&us(), run, BTreeMap::new()).await.expect("a run");
    assert_eq!(ids(&*store, in_status(ThreadStatus::Busy)).await, ["busy", "error"]);
}

pub(super) async fn conditions_of_a_search_are_combined(store: Arc<dyn Store>) {
    in_each_status(&*store).await;
    let some = |ids: &[&str]| Some(ids.iter().copied().map(thread).collect::<BTreeSet<ThreadId>>());
    let named = ThreadQuery { ids: some(&["busy", "idle", "no"]), ..sorted() };
    assert_eq!(ids(&*store, named.clone()).await, ["busy", "idle"]);
    let idle = ThreadQuery { status: Some(ThreadStatus::Idle), ..named.clone() };
    assert_eq!(ids(&*store, idle.clone()).await, ["idle"]);
    let fits = ThreadQuery { metadata: metadata(json!({"k": 1})), ..idle.clone() };
    assert_eq!(ids(&*store, fits).await, ["idle"]);
    let differs = ThreadQuery { metadata: metadata(json!({"k": 2})), ..idle };
    assert!(ids(&*store, differs).await.is_empty());
    assert!(ids(&*store, ThreadQuery { ids: some(&[]), ..sorted() }).await.is_empty());
}

pub(super) async fn a_search_is_ordered_and_limited(store: Arc<dyn Store>) {
    for (id, at) in [("b", 10), ("a", 10), ("c", 5)] {
        create(&*store, id, json!({}), at).await;
    }
    store.update_metadata(&us(), &thread("c"), Metadata::new(), Timestamp(20)).await.expect("ok");
    // A running thread is at the time of its last commit.
    let claim = begin(&*store, "d", "r").await;
    write(&*store, &claim, commit(2_000)).await;
    let ordered = async |key, direction| {
        ids(&*store, ThreadQuery { from: by(key, direction), ..ThreadQuery::default() }).await
    };
    use Direction::{Ascending, Descending};
    assert_eq!(ordered(ThreadKey::CreatedAt, Ascending).await, ["c", "a", "b", "d"]);
    assert_eq!(ordered(ThreadKey::CreatedAt, Descending).await, ["d", "b", "a", "c"]);
    assert_eq!(ordered(ThreadKey::UpdatedAt, Ascending).await, ["a", "b", "c", "d"]);
    assert_eq!(ordered(ThreadKey::UpdatedAt, Descending).await, ["d", "c", "b", "a"]);
    assert_eq!(ordered(ThreadKey::Id, Ascending).await, ["a", "b", "c", "d"]);
    assert_eq!(ordered(ThreadKey::Id, Descending).await, ["d", "c", "b", "a"]);
    for key in [ThreadKey::CreatedAt, ThreadKey::UpdatedAt, ThreadKey::Id] {
        for direction in [Ascending, Descending] {
            let all = ordered(key, direction).await;
            let mut paged = Vec::new();
            let mut from = by(key, direction);
            loop {
                let query = ThreadQuery { from, limit: 1, ..ThreadQuery::default() };
                let page = store.search_threads(&us(), query).await.expect("searches");
                paged.extend(page.threads.iter().map(|found| found.row.id.to_string()));
                let Some(next) = page.next else { break };
                // A client sends the text form.
                let text = next.to_string();
                from = SearchFrom::After(text.parse::<ThreadCursor>().expect("a cursor"));
            }
            assert_eq!(paged, all);
        }
    }
    let none = ThreadQuery { limit: 0, ..ThreadQuery::default() };
    assert!(ids(&*store, none).await.is_empty());
}

/// Pages through 1,000 threads while others are created and deleted: every thread that exists
/// throughout is returned once.
pub(super) async fn a_cursor_is_stable_while_threads_come_and_go(store: Arc<dyn Store>) {
    let name = |n: i64| format!("t-{n:04}");
    for n in 0..1_000 {
        // Several threads have the same time.
        create(&*store, &name(n), json!({"even": n % 2 == 0}), n / 7).await;
    }
    for from in [
        by(ThreadKey::CreatedAt, Direction::Descending),
        by(ThreadKey::CreatedAt, Direction::Ascending),
        by(ThreadKey::Id, Direction::Ascending),
    ] {
        let mut next = Some(from);
        let mut found = Vec::new();
        let mut pages = 0;
        while let Some(from) = next {
            let metadata = metadata(json!({"even": true}));
            let query = ThreadQuery { metadata, from, limit: 70, ..ThreadQuery::default() };
            let page = store.search_threads(&us(), query).await.expect("searches");
            found.extend(page.threads.into_iter().map(|found| found.row.id.to_string()));
            next = page.next.map(SearchFrom::After);
            pages += 1;
            // Before, at and after the position.
            for (id, at) in [("s", 0), ("t-0500x", 500 / 7), ("u", 900)] {
                let id = format!("{id}-{pages}");
                create(&*store, &id, json!({"even": true}), at).await;
                if pages > 2 {
                    let old = thread(&format!("{}-{}", &id[..id.len() - 2], pages - 2));
                    drop(store.delete_thread(&us(), &old).await);
                }
            }
        }
        assert_eq!(pages, 8);
        let mut lasting: Vec<_> = found.iter().filter(|id| id.len() == 6).cloned().collect();
        lasting.sort();
        assert_eq!(lasting, (0..1_000).step_by(2).map(name).collect::<Vec<_>>());
        let all: BTreeSet<_> = found.iter().collect();
        assert_eq!(all.len(), found.len(), "no thread is returned twice");
        for row in store.threads(&us(), 0, usize::MAX).await.expect("reads") {
            if row.id.as_str().len() != 6 {
                store.delete_thread(&us(), &row.id).await.expect("deletes");
            }
        }
    }
    let most = ThreadQuery { limit: usize::MAX, ..ThreadQuery::default() };
    assert_eq!(most.reads(), SEARCH_LIMIT_MAX + 1);
    assert_eq!(find(&*store, most).await.len(), 1_000);
}

pub(super) async fn threads_of_others_are_not_found(store: Arc<dyn Store>) {
    let them: Principal = principal("them");
    create(&*store, "t", json!({"user": "Ada"}), 1).await;
    assert_eq!(store.search_threads(&them, sorted()).await, Ok(Default::default()));
    let new = metadata(json!({"user": "Eve"}));
    let refused = store.update_metadata(&them, &thread("t"), new, Timestamp(9)).await;
    assert_eq!(refused, Err(invariants::missing("thread", "t")));
    let theirs = new_thread("t", json!({"user": "Eve"}), 2);
    store.create_thread(&them, theirs).await.expect("an id of their own");
    begin_as(&*store, &them, new_run("t", "r")).await;
    let ours = find(&*store, with(json!({"user": "Ada"}))).await;
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].status, ThreadStatus::Idle);
    assert!(find(&*store, with(json!({"user": "Eve"}))).await.is_empty());
    let all = ThreadQuery { metadata: metadata(json!({"user": "Eve"})), ..sorted() };
    let found = store.search_threads(&them, all).await.expect("searches").threads;
    assert_eq!(found[0].status, ThreadStatus::Busy);
}

pub(super) async fn metadata_goes_with_its_thread(store: Arc<dyn Store>) {
    create(&*store, "t", json!({"user": "Ada"}), 1).await;
    let whole = store.export_thread(&us(), &thread("t")).await.expect("reads");
    let other = MemoryStore::new();
    other.import_thread(&us(), whole.clone()).await.expect("writes");
    assert_eq!(other.export_thread(&us(), &thread("t")).await, Ok(whole.clone()));
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    store.import_thread(&us(), whole.clone()).await.expect("writes");
    assert_eq!(store.export_thread(&us(), &thread("t")).await, Ok(whole));
    assert_eq!(ids(&*store, with(json!({"user": "Ada"}))).await, ["t"]);
    other.delete_thread(&us(), &thread("t")).await.expect("deletes");
}
