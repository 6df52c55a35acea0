//! Tests of exports: the recorded format, and the threads that may be exported.

use std::collections::BTreeMap;
use weftwork::runtime::{check_names, check_rows};
use weftwork::store::sequence::PLANS;
use weftwork::store::{
    Commit, Content, ExportThreads, ItemRef, ItemTable, JournalRead, MemoryStore, Namespace,
    NewRun, ReadRuns, Sequence, SequenceQuery, SequenceTable, SequenceWrite, StoreError, Ttl,
    WorkerRow, Workers, WriteRuns,
};
use weftwork::types::caller::Caller;
use weftwork::types::canonical::hash_bytes;
use weftwork::types::run::{RunInput, RunOptions, RunRef};
use weftwork::types::{Principal, RunId, ThreadId, Timestamp, WorkerId};
use weftwork::{Error, upkeep};

const GOLDEN: &str = include_str!("../golden/export-1.jsonl");

async fn import(store: &MemoryStore, text: &str) -> Result<upkeep::Import, Error> {
    upkeep::import(store, &Principal::local(), &mut text.as_bytes(), |_| ()).await
}

async fn export(store: &MemoryStore) -> Result<String, Error> {
    let mut out = Vec::new();
    upkeep::export(store, &Principal::local(), None, &mut out, |_| ()).await?;
    Ok(String::from_utf8(out).expect("lines of text"))
}

/// Converts an export of format 1 to format 2.
fn as_format_2(text: &str) -> String {
    let text = text.replace("\"version\":1}", "\"version\":2}");
    text.replace("{\"threads\":2}", "{\"threads\":2,\"items\":0}")
}

/// The same with two live items and an expired one.
const GOLDEN_2: &str = include_str!("../golden/export-2.jsonl");

#[tokio::test]
async fn items_go_with_an_export() {
    let store = MemoryStore::new();
    let text = GOLDEN_2;
    let done = import(&store, text).await.expect("imports");
    assert_eq!(done, upkeep::Import { put: 2, there: 0, items: 2, items_there: 1 });
    let again = import(&store, text).await.expect("imports");
    assert_eq!(again, upkeep::Import { put: 0, there: 2, items: 0, items_there: 3 });
    let written = export(&store).await.expect("exports");
    let items = |text: &str| -> Vec<String> {
        let items = text.lines().filter(|line| line.starts_with("{\"item\""));
        items.map(str::to_owned).collect()
    };
    assert_eq!(items(&written), items(GOLDEN_2)[..2]);
    assert!(written.ends_with("{\"done\":{\"threads\":2,\"items\":2}}\n"), "{written}");
    let other = MemoryStore::new();
    assert_eq!(import(&other, &written).await.expect("imports").items, 2);
    assert_eq!(export(&other).await.expect("exports"), written);
    // An export of named threads has no items.
    let mut out = Vec::new();
    let named = [ThreadId::new("parked").expect("an id")];
    let who = Principal::local();
    let one = upkeep::export(&store, &who, Some(&named), &mut out, |_| ()).await;
    assert_eq!(one.expect("exports"), upkeep::Export { threads: 1, items: 0 });
    assert!(out.starts_with(b"{\"format\":\"weftwork-export\",\"version\":1}"));
    // Reading an item extends its life but does not change its content.
    let names = Namespace::new(["users", "ann"]).expect("labels");
    let said = ItemRef::new(names, "said").expect("a name");
    let read = store.item(&who, &said, Ttl::Refresh, Timestamp(4_102_444_000_000)).await;
    assert!(read.expect("reads").is_some());
    let again = import(&store, text).await.expect("imports");
    assert_eq!((again.items, again.items_there), (0, 3));
}

#[tokio::test]
async fn items_that_were_changed_are_refused() {
    let text = GOLDEN_2;
    let cases = [
        (text.replace("tea", "tee"), "do not match their checksum"),
        (text.replace("\"items\":3}", "\"items\":2}"), "with their numbers"),
        (
            text.replace("{\"item\":{\"namespace\":[\"users\",\"bob\"]", "{\"thread\":{"),
            "key must be a string",
        ),
        (text.replace("{\"end\":{\"lines\":3", "{\"done\":{\"threads\":3"), "have no end"),
        (text.replace("[\"users\",\"ann\"]", "[\"users\",\"*\"]"), "`*`"),
        (text.replace(",\"ttl_ms\":60000", ""), "a time to live"),
        (text.replace("{\"tea\":true}", "[]"), "an object"),
    ];
    for (text, expected) in cases {
        let store = MemoryStore::new();
        let refused = import(&store, &text).await.expect_err(expected);
        assert!(refused.to_string().contains(expected), "{expected}: {refused}");
        let who = Principal::local();
        let there = store.stored_items(&who, Timestamp(0)).await.expect("reads");
        assert_eq!(there.len(), usize::from(expected.contains("numbers")) * 2, "{expected}");
    }
}

#[tokio::test]
async fn an_export_of_format_1_is_read_and_written_again() {
    let store = MemoryStore::new();
    let done = import(&store, GOLDEN).await.expect("an older export stays readable");
    assert_eq!(done, upkeep::Import { put: 2, ..upkeep::Import::default() });
    assert_eq!(export(&store).await.expect("exports"), as_format_2(GOLDEN));
    let who = Principal::local();
    for thread in upkeep::all_threads(&store, &who).await.expect("reads") {
        let problems = upkeep::verify_thread(&store, &who, &thread).await.expect("reads");
        assert_eq!(problems, []);
        assert!(!store.calls(&who, &thread).await.expect("reads").is_empty());
    }
}

#[tokio::test]
async fn records_of_a_thread_go_with_its_export() {
    let store = MemoryStore::new();
    import(&store, GOLDEN).await.expect("imports");
    let who = Principal::local();
    let named = async |thread: &str| {
        let threads = [ThreadId::new(thread).expect("an id")];
        let mut out = Vec::new();
        let done = upkeep::export(&store, &who, Some(&threads), &mut out, |_| ()).await;
        done.expect("exports");
        String::from_utf8(out).expect("lines of text")
    };
    let plan = Sequence::new(PLANS, "parked/p");
    for text in ["one", "two"] {
        let content = Content { format: 1, bytes: text.as_bytes().to_vec() };
        let write = SequenceWrite::append(plan.clone(), content);
        store.write_sequences(&who, vec![write], Timestamp(5)).await.expect("writes");
    }
    let text = export(&store).await.expect("exports");
    assert!(text.starts_with("{\"format\":\"weftwork-export\",\"version\":3}\n"), "{text}");
    let line = "{\"record\":{\"kind\":\"thread:plan\",\"key\":\"parked/p\",\"version\":2,\"at\":5,\"format\":1,\"bytes\":\"dHdv\"}}\n";
    assert!(text.contains(line), "{text}");
    let other = MemoryStore::new();
    assert_eq!(import(&other, &text).await.expect("imports").put, 2);
    assert_eq!(export(&other).await.expect("exports"), text);
    let rows = other.sequence_rows(&who, SequenceQuery::of(plan, 0)).await.expect("reads");
    assert_eq!(rows.len(), 2);
    assert_eq!(import(&other, &text).await.expect("imports").there, 2);
    // A line that was changed, or a record of another thread, is found.
    let changed = import(&MemoryStore::new(), &text.replace("dHdv", "dHdw")).await;
    assert!(matches!(changed, Err(Error::BadExport { .. })), "{changed:?}");
    // Older programs read exports of threads without records.
    assert!(named("parked").await.contains("\"version\":3}"));
    let ids: Vec<_> = upkeep::all_threads(&store, &who).await.expect("reads");
    let without = ids.iter().find(|id| id.as_str() != "parked").expect("another thread");
    assert!(named(without.as_str()).await.contains("\"version\":1}"));
}

#[tokio::test]
async fn a_row_moved_to_another_key_is_found() {
    let store = MemoryStore::new();
    import(&store, GOLDEN).await.expect("imports");
    let who = Principal::local();
    let thread = ThreadId::new("parked").expect("an id");
    let kept = store.export_thread(&who, &thread).await.expect("reads").kept;
    let names = check_rows(&thread, &kept).names;
    assert_eq!(names.len(), 1);
    let moved = |change: fn(&mut weftwork::store::CheckpointBatch)| {
        let mut kept = kept.clone();
        change(&mut kept);
        let problems = check_rows(&thread, &kept).problems;
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = moved(|kept| kept.checkpoints[0].ns = "sub".to_owned());
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.contains("of thread `parked`, graph `sub`"), "{message}");
    let other_body = |kept: &mut weftwork::store::CheckpointBatch| {
        kept.checkpoints[0].body = kept.checkpoints[1].body.clone();
    };
    assert_eq!(moved(other_body).len(), 1);
    assert_eq!(moved(|kept| kept.checkpoints[2].tasks[0] ^= 1).len(), 1);
    assert_eq!(moved(|kept| kept.pending[0].body.truncate(40)).len(), 1);
    assert!(matches!(check_names(hash_bytes(b"x"), b"y"), Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn an_unfinished_run_is_exported_only_when_its_worker_is_dead() {
    let store = MemoryStore::new();
    let who = Principal::local();
    let thread = ThreadId::new("t").expect("an id");
    let at = RunRef { thread, run: RunId::new("r").expect("an id") };
    let new = NewRun {
        at: at.clone(),
        graph: "test:graph".to_owned(),
        caller: Caller::local("request").expect("an id"),
        input: RunInput::Continue,
        options: RunOptions::default(),
        created_at: Timestamp(1),
    };
    store.create_run(&who, new, BTreeMap::new()).await.expect("makes a run");
    let worker = WorkerId::new("w").expect("an id");
    let renewed_at = Timestamp(0);
    let expires_at = Timestamp(i64::MAX);
    let row = WorkerRow { id: worker.clone(), renewed_at, expires_at };
    store.keep_alive(row).await.expect("registers");
    let (claim, _) = store.claim(&who, &at, &worker, Timestamp(2)).await.expect("claims");
    store.commit(&who, &claim, Commit::default()).await.expect("commits");
    let refused = export(&store).await.expect_err("it would continue in two places");
    assert_eq!(refused.fault().code, "W0202");
    store.retire(&worker).await.expect("retires");
    let text = export(&store).await.expect("exports");
    let other = MemoryStore::new();
    assert_eq!(import(&other, &text).await.expect("imports").put, 1);
    let orphans = other.orphans(Timestamp(3), 9).await.expect("reads");
    assert_eq!(orphans.len(), 1, "a process that opens the other store takes it over");
}
