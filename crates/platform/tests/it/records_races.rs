//! Actions on records at the same time, over rows that interleave them.

use super::records::{create_thread, deliverable, edit, markdown, new, principal, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::join;
use weftwork_platform::records::{
    Author, Record, RecordCache, RecordError, Records, version_writes,
};
use weftwork_store::rows::{
    Batch, Key, KeyRange, MemoryRows, Order, RowStore, Rows, Value, Written,
};
use weftwork_store::sequence::EXPORTED_KINDS;
use weftwork_store::{Result, SequenceQuery, SequenceTable, Store, StoreError, WriteThreads};
use weftwork_types::{BoxFuture, Timestamp};

/// Rows that let other futures advance before each call, by a sequence that follows from a seed.
#[derive(Debug, Default)]
struct Interleaved {
    rows: MemoryRows,
    state: AtomicU64,
    /// Number of rows that were read.
    read: AtomicUsize,
    /// The next write has its effect and is reported as a conflict, as if it had been repeated.
    is_repeated: AtomicBool,
}

impl Interleaved {
    async fn pause(&self) {
        let next = |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let state = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        for _ in 0..state.unwrap_or_default() >> 61 {
            tokio::task::yield_now().await;
        }
    }
}

impl Rows for Interleaved {
    fn location(&self) -> &str {
        self.rows.location()
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Option<Value>>>> {
        Box::pin(async move {
            self.pause().await;
            self.read.fetch_add(keys.len(), Ordering::SeqCst);
            self.rows.get(keys).await
        })
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Key, Value)>>> {
        Box::pin(async move {
            self.pause().await;
            let found = self.rows.scan(range, order, limit).await?;
            self.read.fetch_add(found.len(), Ordering::SeqCst);
            Ok(found)
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<Written>> {
        Box::pin(async move {
            self.pause().await;
            let written = self.rows.write(batch).await;
            match self.is_repeated.swap(false, Ordering::SeqCst) {
                true => Ok(Written::Conflict),
                false => written,
            }
        })
    }
}

/// Returns rows with a thread, and a store over them.
async fn store(seed: u64) -> (Arc<Interleaved>, RowStore<Arc<Interleaved>>) {
    let rows = Arc::new(Interleaved { state: AtomicU64::new(seed), ..Interleaved::default() });
    let store = RowStore::new(Arc::clone(&rows));
    create_thread(&store).await;
    (rows, store)
}

async fn rows_of(store: &dyn Store) -> usize {
    let mut found = 0;
    for kind in EXPORTED_KINDS {
        let rows = store.sequence_rows(&principal("ada"), SequenceQuery::all(kind)).await;
        found += rows.expect("reads").len();
    }
    found
}

fn current_of(found: std::result::Result<Record, RecordError>) -> Option<u64> {
    match found {
        Ok(_) => None,
        Err(RecordError::Changed(changed)) => Some(changed.current.version.number),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn of_edits_of_one_version_one_wins_whatever_else_happens() {
    let mut second_chances = 0;
    for seed in 0..100 {
        let (_, store) = store(seed << 32).await;
        let ada = principal("ada");
        let records = Records::new(&store, &ada, Timestamp(5));
        let at = deliverable("d");
        let form = markdown();
        records.create(&at, &new("one\n"), &form).await.expect("creates");
        records.copy_version(&at, 1).await.expect("copies");
        let edits = ["a\n", "b\n", "c\n"].map(|text| edit(Some(2), text));
        let (a, b, c, copied, deleted) = join!(
            records.edit(&at, &edits[0], &form),
            records.edit(&at, &edits[1], &form),
            records.edit(&at, &edits[2], &form),
            records.copy_version(&at, 2),
            records.delete_version(&at, 1),
        );
        copied.expect("copies do not depend on the current version");
        deleted.expect("the version is there");
        let found = [current_of(a), current_of(b), current_of(c)];
        let won = found.iter().filter(|current| current.is_none()).count();
        // None wins if the copy was first.
        assert!(won <= 1, "{found:?}");
        assert!(found.iter().flatten().all(|current| *current > 2), "{found:?}");
        second_chances += won;
        let record = records.read(&at).await.expect("reads");
        assert_eq!(record.versions.len(), 2 + won);
        for version in &record.versions {
            records.content(&record, Some(version.number)).await.expect("has its content");
        }
    }
    assert!(second_chances > 20, "{second_chances}");
}

#[tokio::test]
async fn an_edit_without_a_base_does_not_replace_a_version_that_it_did_not_see() {
    let mut refused = 0;
    for seed in 0..50 {
        let (_, store) = store(seed << 32).await;
        let ada = principal("ada");
        let records = Records::new(&store, &ada, Timestamp(5));
        let at = deliverable("d");
        let form = markdown();
        records.create(&at, &new("one\n"), &form).await.expect("creates");
        let author = Author { subject: "ada", at: Timestamp(6), unique: "run" };
        let run = version_writes(&at, &new("run\n"), &form, author).expect("is sound");
        let own = edit(None, "edited\n");
        let (edited, written) =
            join!(records.edit(&at, &own, &form), store.write_sequences(&ada, run, Timestamp(6)),);
        written.expect("a run never conflicts");
        let record = records.read(&at).await.expect("reads");
        match edited {
            Ok(edited) => {
                let own = edited.current_version().expect("is there");
                // The edit continues what it read; a run that was faster is not lost.
                assert_eq!(own.parent, Some(own.number - 1));
                assert_eq!(record.versions.len(), 3);
            }
            Err(RecordError::Changed(changed)) => {
                refused += 1;
                assert_eq!((changed.base, &*changed.current.content), (1, "run\n"));
                assert_eq!(record.versions.len(), 2);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0 && refused < 50, "{refused}");
}

#[tokio::test]
async fn a_version_that_is_deleted_meanwhile_does_not_exist() {
    let mut missing = 0;
    for seed in 0..60 {
        let (_, store) = store(seed << 32).await;
        let ada = principal("ada");
        let records = Records::new(&store, &ada, Timestamp(5));
        let at = deliverable("d");
        let form = markdown();
        records.create(&at, &new("one\n"), &form).await.expect("creates");
        let record = records.copy_version(&at, 1).await.expect("copies");
        let late = edit(Some(1), "late\n");
        let (read, copied, edited, deleted) = join!(
            records.content(&record, Some(2)),
            records.copy_version(&at, 2),
            records.edit(&at, &late, &form),
            records.delete_version(&at, 2),
        );
        deleted.expect("the version is there");
        let is_missing =
            |error: &RecordError| matches!(error, RecordError::Store(StoreError::NotFound { .. }));
        missing += [read.is_err(), copied.is_err()].iter().filter(|missing| **missing).count();
        assert!(read.as_ref().err().is_none_or(is_missing), "{read:?}");
        assert!(copied.as_ref().err().is_none_or(is_missing), "{copied:?}");
        // Once the second version is deleted, the first one is current again.
        if let Err(error) = edited {
            assert!(matches!(error, RecordError::Changed(_)), "{error:?}");
        }
    }
    assert!(missing > 5, "{missing}");
}

#[tokio::test]
async fn a_write_that_the_store_repeats_takes_effect_once() {
    let (rows, store) = store(1).await;
    let ada = principal("ada");
    let records = Records::new(&store, &ada, Timestamp(5));
    let at = deliverable("d");
    rows.is_repeated.store(true, Ordering::SeqCst);
    let record = records.create(&at, &new("one\n"), &markdown()).await.expect("creates");
    assert_eq!(record.versions.len(), 1);
    rows.is_repeated.store(true, Ordering::SeqCst);
    let record = records.edit(&at, &edit(Some(1), "two\n"), &markdown()).await.expect("edits");
    assert_eq!((record.versions.len(), record.current), (2, 2));
    assert!(!rows.is_repeated.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_record_that_is_created_while_its_thread_is_deleted_is_not_left_behind() {
    let mut created = 0;
    for seed in 0..200 {
        let (_, store) = store(seed << 32).await;
        let ada = principal("ada");
        let records = Records::new(&store, &ada, Timestamp(5));
        let at = deliverable("d");
        let form = markdown();
        let one = new("one\n");
        let id = thread();
        let wait = async |turns: u64| {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        let (made, deleted) = join!(
            async {
                wait(seed % 120).await;
                records.create(&at, &one, &form).await
            },
            async {
                wait(30).await;
                store.delete_thread(&ada, &id).await
            },
        );
        deleted.expect("deletes");
        created += usize::from(made.is_ok());
        assert_eq!(rows_of(&store).await, 0, "{seed}: {made:?}");
    }
    assert!(created > 20 && created < 190, "{created}");
}

/// A process that has read a record reads few of its events for a further version, however many the
/// record has, also after the writes of others.
#[tokio::test]
async fn a_write_reads_as_many_rows_for_hundreds_of_versions_as_for_few() {
    let (rows, store) = store(0).await;
    let ada = principal("ada");
    let cache = RecordCache::default();
    let others = Records::new(&store, &ada, Timestamp(5));
    let records = others.cached(&cache);
    let at = deliverable("d");
    let form = markdown();
    records.create(&at, &new("1\n"), &form).await.expect("creates");
    let mut reads = Vec::new();
    for number in 2..=300 {
        let before = rows.read.load(Ordering::SeqCst);
        let record = records.edit(&at, &edit(None, &format!("{number}\n")), &form).await;
        assert_eq!(record.expect("edits").versions.len(), number);
        reads.push(rows.read.load(Ordering::SeqCst) - before);
    }
    assert_eq!(reads[10], reads[290], "{reads:?}");
    others.edit(&at, &edit(None, "others\n"), &form).await.expect("edits");
    let before = rows.read.load(Ordering::SeqCst);
    let record = records.edit(&at, &edit(None, "own\n"), &form).await.expect("edits");
    assert_eq!(record.versions.len(), 302);
    assert!(rows.read.load(Ordering::SeqCst) - before <= reads[0] + 2, "{reads:?}");

    // A further record of the thread is none of many versions.
    let before = rows.read.load(Ordering::SeqCst);
    records.create(&deliverable("e"), &new("1\n"), &form).await.expect("creates");
    let read = rows.read.load(Ordering::SeqCst) - before;
    assert!(read < 100, "{read}");
}

/// A record that was made again under its id is read anew.
#[tokio::test]
async fn a_record_of_a_thread_that_was_deleted_is_not_remembered() {
    let (_, store) = store(0).await;
    let ada = principal("ada");
    let cache = RecordCache::default();
    let others = Records::new(&store, &ada, Timestamp(5));
    let records = others.cached(&cache);
    let at = deliverable("d");
    let form = markdown();
    records.create(&at, &new("old\n"), &form).await.expect("creates");
    store.delete_thread(&ada, &thread()).await.expect("deletes");
    let gone = records.read(&at).await.expect_err("is deleted");
    assert!(matches!(gone, RecordError::Store(StoreError::NotFound { .. })), "{gone}");
    create_thread(&store).await;
    others.create(&at, &new("new\n"), &form).await.expect("creates");
    let record = records.read(&at).await.expect("reads");
    assert_eq!(records.content(&record, None).await.expect("reads").content, "new\n");
    others.delete(&at).await.expect("deletes");
    assert!(records.read(&at).await.is_err());
}
