//! Plans and deliverables: actions of people, versions of runs, limits and owners.

use std::sync::Arc;
use weftwork_platform::records::{
    Author, CONTENT_BYTES_MAX, ContentFormat, Edit, Form, Merge, NewVersion, RECORDS_MAX, Record,
    RecordError, RecordId, RecordKind, RecordRef, Records, TITLE_CHARS_MAX, VERSIONS_MAX,
    version_writes,
};
use weftwork_store::sequence::{DELIVERABLES, RECORD_CONTENTS};
use weftwork_store::{
    IfExists, MemoryStore, Metadata, NewThread, SequenceQuery, Store, StoreError,
};
use weftwork_types::{OrgId, Principal, RunId, ThreadId, Timestamp};

pub(super) fn principal(subject: &str) -> Principal {
    Principal::new(OrgId::new("us").expect("an id"), subject)
}

pub(super) fn thread() -> ThreadId {
    ThreadId::new("t 1/2").expect("an id")
}

pub(super) fn markdown() -> Form {
    Form::of_format(ContentFormat::Markdown)
}

pub(super) fn deliverable(id: &str) -> RecordRef {
    RecordRef::deliverable(&thread(), RecordId::new(id).expect("an id"))
}

pub(super) fn new(content: &str) -> NewVersion {
    let title = "A report".to_owned();
    NewVersion { title, content: content.to_owned(), ..NewVersion::default() }
}

pub(super) fn edit(base: Option<u64>, content: &str) -> Edit {
    Edit { base, title: None, content: content.to_owned() }
}

/// Creates a store with a thread.
pub(super) async fn store() -> Arc<dyn Store> {
    let store = MemoryStore::new();
    create_thread(&store).await;
    Arc::new(store)
}

pub(super) async fn create_thread(store: &dyn Store) {
    let new = NewThread {
        id: thread(),
        graph: None,
        metadata: Metadata::new(),
        created_at: Timestamp(1),
        if_exists: IfExists::Refuse,
    };
    store.create_thread(&principal("ada"), new).await.expect("creates");
}

fn numbers(record: &Record) -> Vec<u64> {
    record.versions.iter().map(|version| version.number).collect()
}

async fn contents(records: &Records<'_>, record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    for number in numbers(record) {
        found.push(records.content(record, Some(number)).await.expect("reads").content);
    }
    found
}

fn is_missing(found: &Result<Record, RecordError>) -> bool {
    matches!(found, Err(RecordError::Store(StoreError::NotFound { .. })))
}

#[tokio::test]
async fn each_action_has_its_effect_and_no_other() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    let record = records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    assert_eq!((numbers(&record), record.current, record.subject.as_str()), (vec![1], 1, "ada"));
    let record = records.edit(&at, &edit(Some(1), "two\n"), &markdown()).await.expect("edits");
    assert_eq!((numbers(&record), record.current), (vec![1, 2], 2));
    assert_eq!(record.find(2).and_then(|version| version.parent), Some(1));
    let record = records.edit(&at, &edit(None, "three\n"), &markdown()).await.expect("edits");
    assert_eq!(record.current_version().expect("is there").title, "A report");
    let record = records.set_current(&at, 1).await.expect("sets");
    assert_eq!((numbers(&record), record.current), (vec![1, 2, 3], 1));
    let record = records.copy_version(&at, 2).await.expect("copies");
    assert_eq!((record.current, record.find(4).and_then(|copy| copy.parent)), (4, Some(2)));
    assert_eq!(contents(&records, &record).await, ["one\n", "two\n", "three\n", "two\n"]);
    let record = records.delete_version(&at, 4).await.expect("deletes");
    assert_eq!((numbers(&record), record.current), (vec![1, 2, 3], 3));
    let record = records.delete_version(&at, 1).await.expect("deletes");
    assert_eq!((numbers(&record), record.current), (vec![2, 3], 3));
    assert!(is_missing(&records.set_current(&at, 1).await));
    let record = records.edit(&at, &edit(Some(3), "five\n"), &markdown()).await.expect("edits");
    assert_eq!(numbers(&record), [2, 3, 5], "a number is not used again");
    assert_eq!(records.list(RecordKind::Deliverable, &thread()).await, Ok(vec![record]));
    assert_eq!(records.list(RecordKind::Plan, &thread()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_deleted_version_and_a_deleted_record_leave_no_content() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    let stored = async || {
        let query = SequenceQuery::all(RECORD_CONTENTS);
        store.sequence_rows(&ada, query).await.expect("reads").len()
    };
    records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    let only = records.delete_version(&at, 1).await;
    assert!(matches!(only, Err(RecordError::LastVersion { version: 1, .. })), "{only:?}");
    records.edit(&at, &edit(None, "two\n"), &markdown()).await.expect("edits");
    assert_eq!(stored().await, 2);
    records.delete_version(&at, 1).await.expect("deletes");
    assert_eq!(stored().await, 1);
    records.delete(&at).await.expect("deletes");
    assert_eq!(stored().await, 0);
    let events = store.sequence_rows(&ada, SequenceQuery::all(DELIVERABLES)).await;
    let events = events.expect("reads");
    assert_eq!(events.len(), 1, "its titles are gone: {events:?}");
    assert!(is_missing(&records.read(&at).await));
    assert!(is_missing(&records.edit(&at, &edit(None, "x"), &markdown()).await));
    let again = records.create(&at, &new("again\n"), &markdown()).await;
    assert!(matches!(again, Err(RecordError::Store(StoreError::Conflict { .. }))), "{again:?}");
    // A run that began before adds a version to nothing.
    let author = Author { subject: "ada", at: Timestamp(6), unique: "r1" };
    let writes = version_writes(&at, &new("late\n"), &markdown(), author).expect("is sound");
    store.write_sequences(&ada, writes, Timestamp(6)).await.expect("writes");
    assert!(is_missing(&records.read(&at).await));
}

#[tokio::test]
async fn of_concurrent_edits_one_wins_and_the_other_gets_both() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    records.edit(&at, &edit(Some(1), "two\n"), &markdown()).await.expect("edits");
    let late = records.edit(&at, &edit(Some(1), "other\n"), &markdown()).await;
    let Err(error @ RecordError::Changed(_)) = &late else { panic!("{late:?}") };
    assert_eq!((error.code().0, &*error.fault().code), ("W1020", "W1020"));
    assert!(error.to_string().contains("version 2 is current"), "{error}");
    let Err(RecordError::Changed(changed)) = late else { panic!("as before") };
    assert_eq!((changed.base, changed.base_version.map(|of| of.number)), (1, Some(1)));
    assert_eq!((changed.current.version.number, &*changed.current.content), (2, "two\n"));
    // Two at once.
    let edits = [edit(Some(2), "a\n"), edit(Some(2), "b\n")];
    let form = markdown();
    let both = futures(edits.iter().map(|edit| records.edit(&at, edit, &form))).await;
    let won = both.iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1, "{both:?}");
    let record = records.read(&at).await.expect("reads");
    assert_eq!(numbers(&record), [1, 2, 3]);
    // The text that lost is merged with the current one, or replaces it knowingly.
    records.edit(&at, &edit(Some(3), "c\n"), &form).await.expect("edits");
}

/// Polls futures in turns until all are done.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(move |context| {
        for (one, output) in &mut running {
            if output.is_none()
                && let std::task::Poll::Ready(value) = one.as_mut().poll(context)
            {
                *output = Some(value);
            }
        }
        if running.iter().any(|(_, output)| output.is_none()) {
            context.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(running.iter_mut().filter_map(|(_, output)| output.take()).collect())
    })
    .await
}

#[tokio::test]
async fn a_version_of_a_run_counts_once_and_never_conflicts() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable(RecordId::derived(&["r1", "task"]).as_str());
    let write = async |content: &str, unique: &str, parent: Option<u64>| {
        let run = RunId::new("r1").ok();
        let version = NewVersion { run, parent, ..new(content) };
        let author = Author { subject: "ada", at: Timestamp(6), unique };
        let writes = version_writes(&at, &version, &markdown(), author).expect("is sound");
        store.write_sequences(&ada, writes, Timestamp(6)).await.expect("never conflicts");
        records.read(&at).await.expect("reads")
    };
    let record = write("one\n", "r1-a", None).await;
    assert_eq!(numbers(&record), [1]);
    let again = write("one\n", "r1-a", None).await;
    assert_eq!(
        (numbers(&again), contents(&records, &again).await),
        (vec![1], vec!["one\n".to_owned()])
    );
    // A person edits while a second build runs, which began before.
    records.edit(&at, &edit(Some(1), "edited\n"), &markdown()).await.expect("edits");
    let record = write("built\n", "r1-b", Some(1)).await;
    assert_eq!((record.current, record.unmerged()), (3, vec![2]));
    let merge = Merge { a: 3, b: 2, resolution: Some("both\n".to_owned()) };
    let record = records.merge_versions(&at, &merge, &markdown()).await.expect("merges");
    assert_eq!((record.current, record.unmerged()), (4, Vec::new()));
}

#[tokio::test]
async fn records_of_other_subjects_and_organisations_do_not_exist() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    let record = records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    let them = Principal::new(OrgId::new("them").expect("an id"), "ada");
    for other in [principal("bob"), them] {
        let theirs = Records::new(&*store, &other, Timestamp(6));
        assert!(is_missing(&theirs.read(&at).await));
        assert!(is_missing(&theirs.edit(&at, &edit(None, "x\n"), &markdown()).await));
        assert!(is_missing(&theirs.set_current(&at, 1).await));
        assert!(is_missing(&theirs.copy_version(&at, 1).await));
        assert!(is_missing(&theirs.delete_version(&at, 1).await));
        let merge = Merge { a: 1, b: 1, resolution: None };
        assert!(is_missing(&theirs.merge_versions(&at, &merge, &markdown()).await));
        let deleted = theirs.delete(&at).await;
        assert!(matches!(deleted, Err(RecordError::Store(StoreError::NotFound { .. }))));
        assert_eq!(theirs.list(RecordKind::Deliverable, &thread()).await, Ok(Vec::new()));
    }
    assert_eq!(records.read(&at).await, Ok(record));
    // A subject cannot take the id of another one's record.
    let bob = principal("bob");
    let theirs = Records::new(&*store, &bob, Timestamp(6));
    let taken = theirs.create(&at, &new("x\n"), &markdown()).await;
    assert!(matches!(taken, Err(RecordError::Store(StoreError::Conflict { .. }))));
}

#[tokio::test]
async fn limits_are_refused_with_their_numbers() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    let limit = |found: Result<Record, RecordError>| match found {
        Err(RecordError::Limit { unit, found, max, .. }) => (unit, found, max),
        other => panic!("{other:?}"),
    };
    let long = "x".repeat(CONTENT_BYTES_MAX + 1);
    let found = limit(records.create(&at, &new(&long), &markdown()).await);
    assert_eq!(found, ("bytes of content", CONTENT_BYTES_MAX + 1, CONTENT_BYTES_MAX));
    let title = "ü".repeat(TITLE_CHARS_MAX + 1);
    let titled = NewVersion { title, ..new("one\n") };
    let found = limit(records.create(&at, &titled, &markdown()).await);
    assert_eq!(found, ("characters of a title", TITLE_CHARS_MAX + 1, TITLE_CHARS_MAX));
    let most = NewVersion { title: "ü".repeat(TITLE_CHARS_MAX), ..new(&long[1..]) };
    records.create(&at, &most, &markdown()).await.expect("as long as allowed");
    for number in 1..VERSIONS_MAX {
        let author = Author { subject: "ada", at: Timestamp(6), unique: &format!("r{number}") };
        let writes = version_writes(&at, &new("x\n"), &markdown(), author).expect("is sound");
        store.write_sequences(&ada, writes, Timestamp(6)).await.expect("writes");
    }
    let found = limit(records.edit(&at, &edit(None, "x\n"), &markdown()).await);
    assert_eq!(found, ("versions", VERSIONS_MAX + 1, VERSIONS_MAX));
    records.delete_version(&at, 7).await.expect("deletes");
    let record = records.edit(&at, &edit(None, "x\n"), &markdown()).await.expect("has room again");
    assert_eq!(record.current, VERSIONS_MAX as u64 + 1);
    for number in 1..RECORDS_MAX {
        let author = Author { subject: "ada", at: Timestamp(6), unique: "r" };
        let at = deliverable(&format!("other-{number}"));
        let writes = version_writes(&at, &new("x\n"), &markdown(), author).expect("is sound");
        store.write_sequences(&ada, writes, Timestamp(6)).await.expect("writes");
    }
    let found = limit(records.create(&deliverable("more"), &new("x\n"), &markdown()).await);
    assert_eq!(found, ("records of a kind", RECORDS_MAX + 1, RECORDS_MAX));
}

#[tokio::test]
async fn no_write_takes_a_content_of_another_form() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let at = deliverable("d1");
    let json = Form::of_format(ContentFormat::Json);
    let code = |found: Result<Record, RecordError>| found.expect_err("is refused").code().0;
    assert_eq!(code(records.create(&at, &new("no JSON"), &json).await), "W1024");
    records.create(&at, &new("{\"a\": 1}"), &json).await.expect("creates");
    assert_eq!(code(records.edit(&at, &edit(None, "{"), &json).await), "W1024");
    let record = records.edit(&at, &edit(None, "{\"a\": 2}"), &json).await.expect("edits");
    let merge = Merge { a: 1, b: 2, resolution: Some("{".to_owned()) };
    assert_eq!(code(records.merge_versions(&at, &merge, &json).await), "W1024");
    let author = Author { subject: "ada", at: Timestamp(6), unique: "r1" };
    let written = version_writes(&at, &new("{"), &json, author).expect_err("is refused");
    assert_eq!(written.code().0, "W1024");
    assert_eq!(records.read(&at).await, Ok(record));
}

#[tokio::test]
async fn a_record_needs_its_thread_and_goes_with_it() {
    let store = store().await;
    let ada = principal("ada");
    let records = Records::new(&*store, &ada, Timestamp(5));
    let elsewhere = ThreadId::new("elsewhere").expect("an id");
    let nowhere = RecordRef::plan(&elsewhere, RecordId::new("p").expect("an id"));
    assert!(is_missing(&records.create(&nowhere, &new("one\n"), &markdown()).await));
    let at = deliverable("d1");
    records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    store.delete_thread(&ada, &thread()).await.expect("deletes");
    assert!(store.thread(&ada, &thread()).await.is_err());
    create_thread(&*store).await;
    assert!(is_missing(&records.read(&at).await));
    let rows = store.sequence_rows(&ada, SequenceQuery::all(RECORD_CONTENTS)).await;
    assert_eq!(rows, Ok(Vec::new()));
}

#[test]
fn ids_are_segments_of_keys() {
    for bad in ["", "a/b", "a b", "ü", &"x".repeat(129)] {
        assert!(RecordId::new(bad).is_err(), "{bad:?}");
    }
    let derived = RecordId::derived(&["r1", "t"]);
    assert_eq!(RecordId::new(derived.as_str()).as_ref(), Ok(&derived));
    assert_ne!(derived, RecordId::derived(&["r1t", ""]));
}
