//! Sequence writes.

use super::fixture::{
    at, begin, begin_as, checkpoint, commit, new_run, principal, register, these,
};
use super::fixture::{custom_event, us, write};
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::remote::{forget_deletion, record_of, recorded, remote_deletions};
use weftwork_store::sequence::{
    Content, EXPORTED_KINDS, KINDS_OF_THREADS, PLANS, RECORD_CONTENTS, SEQUENCE_BYTES_MAX,
    SEQUENCE_ROWS_MAX, Sequence, SequenceQuery, SequenceRow, SequenceWrite,
};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::port::{RemoteAddress, RemoteThreadRecord};
use weftwork_types::{Principal, Timestamp};

fn to(kind: &str, key: &str) -> Sequence {
    Sequence::new(kind, key)
}

fn content(text: &str) -> Content {
    Content { format: 1, bytes: text.as_bytes().to_vec() }
}

fn append(key: &str, text: &str) -> SequenceWrite {
    SequenceWrite::append(to("mail", key), content(text))
}

fn with(sequence_writes: Vec<SequenceWrite>) -> Commit {
    Commit { sequence_writes, ..commit(1_100) }
}

async fn apply(store: &dyn Store, writes: Vec<SequenceWrite>) {
    store.write_sequences(&us(), writes, Timestamp(1_200)).await.expect("applies");
}

async fn read(store: &dyn Store, query: SequenceQuery) -> Vec<SequenceRow> {
    store.sequence_rows(&us(), query).await.expect("reads")
}

/// Returns the records of a sequence after a version, each with its key, version and content.
async fn texts(store: &dyn Store, query: SequenceQuery) -> Vec<String> {
    let rows = read(store, query).await;
    let text = |row: &SequenceRow| {
        let text = String::from_utf8_lossy(&row.content.bytes).into_owned();
        format!("{} {} {text}", row.sequence.key, row.version)
    };
    rows.iter().map(text).collect()
}

async fn in_mail(store: &dyn Store, key: &str) -> Vec<String> {
    texts(store, SequenceQuery::of(to("mail", key), 0)).await
}

pub(super) async fn writes_take_effect_with_their_commit(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let binary = Content { format: u32::MAX, bytes: vec![0, 255, 1] };
    let writes =
        vec![append("ada", "one"), SequenceWrite::append(to("mail", "ada"), binary.clone())];
    let all = Commit { batch: these(vec![checkpoint(1)]).into(), ..with(writes) };
    write(&*store, &claim, Commit { events: vec![custom_event(1)], ..all }).await;
    let rows = read(&*store, SequenceQuery::of(to("mail", "ada"), 0)).await;
    let expected = |version, content| SequenceRow {
        sequence: to("mail", "ada"),
        version,
        at: Timestamp(1_100),
        content,
    };
    assert_eq!(rows, [expected(1, content("one")), expected(2, binary)]);
    assert_eq!(store.effect_version(&us(), &to("mail", "ada")).await, Ok(2));
    // They stay when the thread goes.
    super::fixture::finish(&*store, &claim, 1_500).await;
    store.delete_thread(&us(), &claim.at.thread).await.expect("deletes");
    assert_eq!(read(&*store, SequenceQuery::all("mail")).await.len(), 2);
}

pub(super) async fn a_refused_commit_writes_no_sequence(store: Arc<dyn Store>) {
    let old = begin(&*store, "t", "r").await;
    let other = register(&*store, "w2", 90_000).await;
    let taken = store.claim(&us(), &at("t", "r"), &other, Timestamp(90_000)).await;
    let claim = taken.expect("claims").0;
    let late = store.commit(&us(), &old, with(vec![append("ada", "late")])).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    assert!(in_mail(&*store, "ada").await.is_empty());
    // A commit with a wrong expectation writes nothing else, either.
    let writes = vec![append("ada", "one"), append("bob", "two").expecting(7)];
    let batch = these(vec![checkpoint(1)]).into();
    let all = Commit { batch, events: vec![custom_event(1)], ..with(writes) };
    let refused = store.commit(&us(), &claim, all.clone()).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert!(read(&*store, SequenceQuery::all("mail")).await.is_empty());
    assert_eq!(store.effect_version(&us(), &to("mail", "ada")).await, Ok(0));
    assert_eq!(store.thread(&us(), &claim.at.thread).await.map(|row| row.head), Ok(None));
    assert_eq!(store.events(&us(), &claim.at, 0, 9).await, Ok(Vec::new()));
    // The run goes on.
    let writes = vec![append("ada", "one"), append("bob", "two").expecting(0)];
    write(&*store, &claim, Commit { sequence_writes: writes, ..all }).await;
    assert_eq!(texts(&*store, SequenceQuery::all("mail")).await, ["ada 1 one", "bob 1 two"]);
}

pub(super) async fn a_queue_is_read_in_order_and_acknowledged(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    for text in ["a", "b", "c"] {
        write(&*store, &claim, with(vec![append("ada", text), append("bob", text)])).await;
    }
    assert_eq!(in_mail(&*store, "ada").await, ["ada 1 a", "ada 2 b", "ada 3 c"]);
    let after = SequenceQuery::of(to("mail", "ada"), 1);
    assert_eq!(texts(&*store, after).await, ["ada 2 b", "ada 3 c"]);
    // A consumer acknowledges outside of a run, or with a commit of its own.
    apply(&*store, vec![SequenceWrite::delete(to("mail", "ada"), 1)]).await;
    let writes = vec![SequenceWrite::delete(to("mail", "ada"), 2), append("bob", "done")];
    write(&*store, &claim, with(writes)).await;
    assert_eq!(in_mail(&*store, "ada").await, ["ada 3 c"]);
    assert_eq!(in_mail(&*store, "bob").await.len(), 4);
    // Versions are not used again, even if all records are deleted.
    apply(&*store, vec![SequenceWrite::delete(to("mail", "ada"), u64::MAX)]).await;
    assert!(in_mail(&*store, "ada").await.is_empty());
    assert_eq!(store.effect_version(&us(), &to("mail", "ada")).await, Ok(3));
    apply(&*store, vec![append("ada", "d")]).await;
    assert_eq!(in_mail(&*store, "ada").await, ["ada 4 d"]);
    apply(&*store, vec![SequenceWrite::delete(to("mail", "nobody"), 9)]).await;
    assert_eq!(store.effect_version(&us(), &to("mail", "nobody")).await, Ok(0));
}

pub(super) async fn a_value_is_replaced_at_its_version(store: Arc<dyn Store>) {
    let session = to("session", "s");
    let put = |text: &str| SequenceWrite::replace(session.clone(), content(text));
    let session_of = async || texts(&*store, SequenceQuery::of(session.clone(), 0)).await;
    apply(&*store, vec![put("one").expecting(0)]).await;
    apply(&*store, vec![put("two").expecting(1)]).await;
    assert_eq!(session_of().await, ["s 2 two"]);
    let late = store.write_sequences(&us(), vec![put("late").expecting(1)], Timestamp(3)).await;
    let error = late.expect_err("another version").to_string();
    assert!(error.contains("version 1") && error.contains("version 2"), "{error}");
    assert_eq!(session_of().await, ["s 2 two"]);
    apply(&*store, vec![put("three")]).await;
    // The writes of one call follow each other.
    let both = vec![put("four").expecting(3), put("five").expecting(4)];
    apply(&*store, both).await;
    assert_eq!(session_of().await, ["s 5 five"]);
    let wrong = vec![put("six").expecting(5), put("seven").expecting(5)];
    let refused = store.write_sequences(&us(), wrong, Timestamp(3)).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(session_of().await, ["s 5 five"]);
}

pub(super) async fn writes_are_read_by_ranges_of_keys(store: Arc<dyn Store>) {
    let mut writes: Vec<_> = ["b", "", "a", "ab", "B", "ä"].map(|key| append(key, "x")).into();
    writes.push(append("b", "y"));
    writes.push(SequenceWrite::append(to("mai", "a"), content("other kind")));
    writes.push(SequenceWrite::append(to("mail2", "a"), content("other kind")));
    apply(&*store, writes).await;
    let all = [" 1 x", "B 1 x", "a 1 x", "ab 1 x", "b 1 x", "b 2 y", "ä 1 x"];
    assert_eq!(texts(&*store, SequenceQuery::all("mail")).await, all);
    let range = SequenceQuery {
        first: "a".to_owned(),
        last: Some("b".to_owned()),
        ..SequenceQuery::all("mail")
    };
    assert_eq!(texts(&*store, range.clone()).await, all[2..6]);
    let mut query = SequenceQuery { limit: 1, ..SequenceQuery::all("mail") };
    for expected in all {
        let page = read(&*store, query.clone()).await;
        assert_eq!(texts(&*store, query.clone()).await, [expected]);
        query = query.following(&page[0]);
    }
    assert!(read(&*store, query).await.is_empty());
    assert!(read(&*store, SequenceQuery { limit: 0, ..range }).await.is_empty());
    let many = (0..SEQUENCE_ROWS_MAX + 1).map(|_| append("many", "x")).collect();
    apply(&*store, many).await;
    let page =
        read(&*store, SequenceQuery { limit: usize::MAX, ..SequenceQuery::all("mail") }).await;
    assert_eq!(page.len(), SEQUENCE_ROWS_MAX);
}

pub(super) async fn names_of_sequences_have_limits(store: Arc<dyn Store>) {
    let most = "x".repeat(SEQUENCE_BYTES_MAX);
    apply(&*store, vec![SequenceWrite::append(to(&most, &most), content("x"))]).await;
    assert_eq!(read(&*store, SequenceQuery::all(most.clone())).await.len(), 1);
    for (kind, key) in [("", "k"), ("mail", &*format!("{most}x")), ("mail", "a\0")] {
        let writes =
            vec![append("ada", "first"), SequenceWrite::append(to(kind, key), content("x"))];
        let refused = store.write_sequences(&us(), writes, Timestamp(3)).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    }
    assert!(in_mail(&*store, "ada").await.is_empty());
}

pub(super) async fn organisations_have_their_own_sequences(store: Arc<dyn Store>) {
    let them = principal("them");
    apply(&*store, vec![append("ada", "ours")]).await;
    assert_eq!(store.sequence_rows(&them, SequenceQuery::all("mail")).await, Ok(Vec::new()));
    assert_eq!(store.effect_version(&them, &to("mail", "ada")).await, Ok(0));
    let claim = begin_as(&*store, &them, new_run("t", "r")).await;
    let writes =
        vec![append("ada", "theirs").expecting(0), SequenceWrite::delete(to("mail", "ada"), 9)];
    store.commit(&them, &claim, with(writes)).await.expect("commits");
    assert_eq!(store.effect_version(&them, &to("mail", "ada")).await, Ok(1));
    assert_eq!(in_mail(&*store, "ada").await, ["ada 1 ours"]);
}

pub(super) async fn of_two_writers_of_a_record_one_wins(store: Arc<dyn Store>) {
    let plan = to(PLANS, "t/p");
    let add = |text: &str, expected: u64| {
        let body = to(RECORD_CONTENTS, &format!("t/plan/p/{text}"));
        vec![
            SequenceWrite::append(plan.clone(), content(text)).expecting(expected),
            SequenceWrite::replace(body, content(text)),
        ]
    };
    apply(&*store, add("a", 0)).await;
    apply(&*store, add("b", 1)).await;
    let late = store.write_sequences(&us(), add("late", 1), Timestamp(1_300)).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    assert_eq!(texts(&*store, SequenceQuery::all(PLANS)).await, ["t/p 1 a", "t/p 2 b"]);
    let contents = ["t/plan/p/a 1 a", "t/plan/p/b 1 b"];
    assert_eq!(texts(&*store, SequenceQuery::all(RECORD_CONTENTS)).await, contents);
    // A run appends without an expectation, between a read and the write that expects it.
    let claim = begin(&*store, "t", "r").await;
    write(&*store, &claim, with(vec![SequenceWrite::append(plan.clone(), content("run"))])).await;
    let late = store.write_sequences(&us(), add("late", 2), Timestamp(1_300)).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    // A version is deleted with its content, or neither is.
    let body = to(RECORD_CONTENTS, "t/plan/p/a");
    let delete = |expected| {
        let event = SequenceWrite::append(plan.clone(), content("gone")).expecting(expected);
        vec![event, SequenceWrite::delete(body.clone(), u64::MAX)]
    };
    let late = store.write_sequences(&us(), delete(2), Timestamp(1_300)).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    assert_eq!(texts(&*store, SequenceQuery::of(body.clone(), 0)).await.len(), 1);
    apply(&*store, delete(3)).await;
    assert!(read(&*store, SequenceQuery::of(body.clone(), 0)).await.is_empty());
    assert_eq!(store.effect_version(&us(), &plan).await, Ok(4));
}

pub(super) async fn records_of_a_thread_are_deleted_with_it(store: Arc<dyn Store>) {
    assert!(EXPORTED_KINDS.iter().all(|kind| KINDS_OF_THREADS.contains(kind)));
    let them = principal("them");
    let writes = |thread: &str| -> Vec<_> {
        let thread = super::fixture::thread(thread);
        let key = format!("{}/p", thread.to_key());
        let append = |kind| SequenceWrite::append(to(kind, &key), content("x"));
        KINDS_OF_THREADS.into_iter().map(append).collect()
    };
    // Threads whose names begin alike, and the same thread of another organisation.
    for (who, thread, run) in [(us(), "t", "r1"), (us(), "t-2", "r2"), (them.clone(), "t", "r3")] {
        let claim = begin_as(&*store, &who, new_run(thread, run)).await;
        store.commit(&who, &claim, with(writes(thread))).await.expect("commits");
        let finish = Some(weftwork_types::run::RunOutcome::cancelled());
        store.commit(&who, &claim, Commit { finish, ..commit(1_500) }).await.expect("commits");
    }
    let left = async |who: &Principal| {
        let mut keys = Vec::new();
        for kind in KINDS_OF_THREADS {
            let rows = store.sequence_rows(who, SequenceQuery::all(kind)).await.expect("reads");
            keys.extend(rows.into_iter().map(|row| row.sequence.key));
        }
        keys
    };
    assert_eq!(left(&us()).await.len(), 2 * KINDS_OF_THREADS.len());
    store.delete_thread(&us(), &super::fixture::thread("t")).await.expect("deletes");
    assert_eq!(left(&us()).await, vec!["t-2/p"; KINDS_OF_THREADS.len()]);
    assert_eq!(left(&them).await, vec!["t/p"; KINDS_OF_THREADS.len()]);
    // A thread of the same name begins with the first version of its records.
    let version = store.effect_version(&us(), &to(PLANS, "t/p")).await;
    assert_eq!(version, Ok(0));
}

/// A thread on another server with a number, as long as the ids that are drawn.
fn remote(number: u8) -> RemoteThreadRecord {
    let server = RemoteAddress { name: "helper".to_owned(), url: "https://there".to_owned() };
    RemoteThreadRecord { server, thread: format!("00000000-0000-4000-8000-0000000000{number:02}") }
}

/// Returns the threads whose deletion is recorded, read in pages of one.
async fn deletions(store: &dyn Store) -> Vec<RemoteThreadRecord> {
    let mut all = Vec::new();
    let mut last = None;
    while let Some(next) = remote_deletions(store, last.as_ref(), 1).await.expect("reads").pop() {
        all.push(next.of.clone());
        last = Some(next);
    }
    all
}

pub(super) async fn remote_threads_become_deletions_with_their_thread(store: Arc<dyn Store>) {
    let name = |text: &str| hash_bytes(text.as_bytes());
    let them = principal("them");
    let of = async |who: &Principal, thread: &str, name: Hash| {
        recorded(&*store, who, &super::fixture::thread(thread), name).await.expect("reads")
    };
    // Threads whose names begin alike, and the same thread of another organisation.
    for (who, thread, number) in [(us(), "t", 1), (us(), "t-2", 2), (them.clone(), "t", 3)] {
        let claim = begin_as(&*store, &who, new_run(thread, &format!("r{number}"))).await;
        let id = &claim.at.thread;
        let used = [("a", number), ("b", number + 10)];
        let records = used.map(|(text, number)| record_of(id, name(text), &remote(number)));
        let writes = records.map(|record| record.expect("has a JSON form")).into();
        store.commit(&who, &claim, with(writes)).await.expect("commits");
        let finish = Some(weftwork_types::run::RunOutcome::cancelled());
        store.commit(&who, &claim, Commit { finish, ..commit(1_500) }).await.expect("commits");
    }
    assert_eq!(of(&us(), "t", name("a")).await, Some(remote(1)));
    assert_eq!(of(&us(), "t", name("b")).await, Some(remote(11)));
    assert_eq!(of(&us(), "t", name("c")).await, None);
    assert_eq!(deletions(&*store).await, []);
    let thread = super::fixture::thread("t");
    store.delete_thread(&us(), &thread).await.expect("deletes");
    assert_eq!(deletions(&*store).await, [remote(1), remote(11)]);
    assert_eq!(of(&us(), "t", name("a")).await, None);
    assert_eq!(of(&us(), "t-2", name("a")).await, Some(remote(2)));
    assert_eq!(of(&them, "t", name("a")).await, Some(remote(3)));
    // A thread of the same name has records of its own, and both are deleted.
    let new = record_of(&thread, name("a"), &remote(4)).expect("has a JSON form");
    let claim = begin_as(&*store, &us(), new_run("t", "again")).await;
    store.commit(&us(), &claim, with(vec![new])).await.expect("commits");
    super::fixture::finish(&*store, &claim, 1_600).await;
    store.delete_thread(&us(), &thread).await.expect("deletes");
    assert_eq!(deletions(&*store).await, [remote(1), remote(4), remote(11)]);
    let first = remote_deletions(&*store, None, 9).await.expect("reads").remove(0);
    forget_deletion(&*store, first, Timestamp(1_700)).await.expect("forgets");
    assert_eq!(deletions(&*store).await, [remote(4), remote(11)]);
    store.delete_thread(&them, &thread).await.expect("deletes");
    assert_eq!(deletions(&*store).await, [remote(3), remote(4), remote(11), remote(13)]);
}
